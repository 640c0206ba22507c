"""Energy: whether its uncertainty is true, and what its meters cost."""
