"""`python -m benchmarks.injection`."""

from benchmarks.injection.command import main

if __name__ == "__main__":
    raise SystemExit(main())
