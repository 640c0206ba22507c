"""ullage measures the part of a machine that you pay for and don't get."""

__version__ = "0.1.0"
