"""Errors of studies."""
