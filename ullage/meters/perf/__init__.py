"""What CPUs work at: samples of perf, and the functions that they stand for."""
