"""Meters sample something during a trial. A new one is a file in this folder."""
