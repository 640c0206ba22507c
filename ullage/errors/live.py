"""Errors of the live page and pictures of results."""
