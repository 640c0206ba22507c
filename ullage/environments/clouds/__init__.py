"""Instances of clouds: made by the cloud's API, reached by ssh."""
