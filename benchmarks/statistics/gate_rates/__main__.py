"""`python -m benchmarks.statistics.gate_rates`."""

from benchmarks.statistics.gate_rates.command import main

if __name__ == "__main__":
    main()
