"""What an image of ours is made of: Debian's packages, and files that no package holds."""
