"""`python -m tests.lab.chaos.fuzz PARSER …`: libFuzzer, guided by coverage, on one parser.

What stands after the name is libFuzzer's: `-runs=`, `-seed=`, folders of inputs, or an input that
failed, to repeat it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import atheris

with atheris.instrument_imports(include=["ullage"], enable_loader_override=False):
    from tests.lab.chaos.fuzz.parsers import PARSERS


def main() -> None:
    """Never returns: libFuzzer ends the process."""
    name, *rest = sys.argv[1:]
    read: Callable[[bytes], None] = PARSERS[name]
    atheris.Setup([sys.argv[0], *rest], read)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
