"""Errors of energy meters and their readings."""
