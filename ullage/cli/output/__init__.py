"""What commands print: loaded by the command that prints it."""
