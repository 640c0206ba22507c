"""The run folder: types of its files, writer, reader. Neither side of it imports the other."""
