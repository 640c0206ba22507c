"""Metrics of an elastic run."""
