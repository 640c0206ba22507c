"""The network of a run: a bridge of its own, its endpoints, and links of a stated rate."""
