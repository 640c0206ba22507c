"""HTTP servers and streams."""
