"""Figures of others: a table's columns, pairs and answer."""
