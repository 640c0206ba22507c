"""Join control groups, then become another program: `join.py DIRECTORY… -- PROGRAM ARGUMENT…`.

A program of its own, run by `python -I -S`: what the new program does is limited from its first
instruction, which a parent that moves it afterwards cannot promise. It imports nothing of ullage.
"""

import os
import sys
from pathlib import Path


def main(argv: list[str]) -> None:
    """Write our process id to each group's `cgroup.procs`, then exec."""
    divider = argv.index("--")
    for directory in argv[:divider]:
        Path(directory, "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")
    program = argv[divider + 1 :]
    os.execv(program[0], program)  # noqa: S606 - no shell is what we want


if __name__ == "__main__":
    main(sys.argv[1:])
