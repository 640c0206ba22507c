"""What changed beside a difference: counters, symbols, places."""
