"""The clock: what a read costs, how strict it is, how wrong the global time is."""
