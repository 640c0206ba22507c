"""Elastic runs that are simulated, and the twin of a real one."""
