"""The user's own container image: where it comes from, and its layers made one file system."""
