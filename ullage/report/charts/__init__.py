"""The charts of the report, one a file."""
