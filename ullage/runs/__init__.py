"""The run folder: the types of each file, its writer, its reader. Neither side imports the other."""
