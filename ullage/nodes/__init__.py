"""The machines on which instances are made: this one, and others by ssh."""
