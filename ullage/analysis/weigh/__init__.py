"""One figure for a machine."""
