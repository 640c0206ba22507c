"""Swap that a plan gives the host while a run lasts, and what an instance may have of it."""
