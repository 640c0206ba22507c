"""MPI programs: the ocean experiment, and our kernels beside their peers."""
