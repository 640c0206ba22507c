"""The answer, page and tables of an elastic run."""
