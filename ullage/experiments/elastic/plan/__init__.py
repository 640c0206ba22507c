"""The plan of an elastic run."""
