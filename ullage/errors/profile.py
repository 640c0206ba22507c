"""Errors of profiles of commands."""
