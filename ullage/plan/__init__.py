"""A plan: read, checked, multiplied out, ordered."""
