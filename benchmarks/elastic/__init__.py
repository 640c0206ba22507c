"""How fast environments grow and shrink, and what simulates that."""
