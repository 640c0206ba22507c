"""Noise that hurts: attacks on the promises, each through the product's own analysis of a run."""
