"""A run: its instances, blocks, trials, and what they leave in the run folder."""
