"""Pairs, ratios, intervals, verdicts, and what they cost."""
