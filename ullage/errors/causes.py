"""Errors of profiles of trials."""
