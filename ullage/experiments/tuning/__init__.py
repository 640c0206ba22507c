"""`ullage tune`: which of an environment's settings buys how much, from few trials."""
