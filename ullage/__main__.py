"""Entry point: `ullage`, or `python -m ullage`."""

from ullage.cli import main

if __name__ == "__main__":
    main()
