"""Clouds that are fakes: what of a crowd of instances is left when calls fail, and what we add."""
