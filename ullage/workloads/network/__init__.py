"""What goes from one instance to another."""
