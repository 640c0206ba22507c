"""Entry point: `ullage`, or `python -m ullage`."""

from __future__ import annotations

import sys

from ullage.errors import UllageError


def main() -> None:
    """The command line; one sentence and a hint where it cannot even be loaded."""
    try:
        from ullage import cli  # noqa: PLC0415  this is what may fail
    except UllageError as error:
        sys.stderr.write(f"error[{error.code}]: {error.message}\nhint: {error.hint}\n")
        sys.exit(error.kind.exit_code)
    cli.main()


if __name__ == "__main__":
    main()
