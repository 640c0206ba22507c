"""`python -m benchmarks.statistics.injection`."""

from benchmarks.statistics.injection.command import main

if __name__ == "__main__":
    raise SystemExit(main())
