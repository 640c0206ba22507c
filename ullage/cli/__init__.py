"""What a person meets: commands and what they print."""
