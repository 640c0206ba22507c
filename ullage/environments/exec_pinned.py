"""Go to certain CPUs and into control groups, then become another program.

`exec_pinned.py CPU,CPU… DIRECTORY… -- PROGRAM ARGUMENT…`, without CPUs: on those where we are.

A program of its own, run by `python -I -S`: what the new program does is limited from its first
instruction, which a parent that moves it afterwards cannot promise. It imports nothing of ullage.
"""

import os
import sys
from pathlib import Path


def main(argv: list[str]) -> None:
    """Set our affinity, write our process id to each group's `cgroup.procs`, then exec."""
    divider = argv.index("--")
    for directory in argv[1:divider]:
        Path(directory, "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")
    # Last: entering a cpuset sets the affinity to all of it.
    if argv[0]:
        os.sched_setaffinity(0, {int(cpu) for cpu in argv[0].split(",")})
    program = argv[divider + 1 :]
    os.execv(program[0], program)  # noqa: S606 - no shell is what we want


if __name__ == "__main__":
    main(sys.argv[1:])
