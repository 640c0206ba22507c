"""Pipelines of stages in one program."""
