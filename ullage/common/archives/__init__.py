"""Archives of strangers."""
