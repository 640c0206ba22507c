"""How well NTP keeps guests' clocks."""
