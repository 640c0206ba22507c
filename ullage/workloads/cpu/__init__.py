"""Processor and memory."""
