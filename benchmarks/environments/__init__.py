"""Benchmarks of environments: what we add to the tools that make them."""
