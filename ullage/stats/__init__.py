"""Intervals, verdicts and stop rules: pure mathematics over NumPy and SciPy, a leaf of the tree.

Everywhere here a comparison is a series of *log-ratios*, one a block, oriented by `log_ratio` so
that above 0 (ratio above 1) means worse than the baseline. Intervals come back on the ratio scale.
"""
