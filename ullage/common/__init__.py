"""What every room may use: text, files, errors, commands. A leaf: it imports no other room."""
