"""`python -m tests.lab.big_guest PLAN … --run 'COMMAND'`: start it, run a command, print, end.

The plans lie where the command runs, and what they run from is in the cache there.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from tests.lab.big_guest.guest import KVM, Kind, started


def main(kind: Kind = KVM) -> None:
    """Of this kind of guest."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("plans", nargs="*", type=Path)
    parser.add_argument("--run", default="ullage doctor", help="for a shell")
    parser.add_argument("--out", type=Path, help="where the runs go then; must not be there")
    arguments = parser.parse_args()
    plans = [plan.read_text(encoding="utf-8") for plan in arguments.plans]
    with started(*plans, kind=kind) as guest:
        for plan in arguments.plans:
            guest.write(plan.name, plan.read_bytes())
        print(guest.run("sh", "-c", arguments.run, statuses=range(256)).output)
        if arguments.out is not None:
            shutil.move(guest.copy_out("runs", arguments.out.parent), arguments.out)
