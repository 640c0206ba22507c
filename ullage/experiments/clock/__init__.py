"""Experiments on the clock: `ullage clock`."""
