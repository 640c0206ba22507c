"""The command line."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.figures import Figure, show
from benchmarks.injection import __doc__ as description
from benchmarks.injection import answers, perform, plausible
from benchmarks.injection.recorded import TRIALS, Recording
from benchmarks.injection.sizes import FULL, QUICK, USUAL, Size
from ullage.errors import UllageError


def record(size: Size, keep: Path | None) -> Recording:
    """Run everything. In `keep` the trials stay, also those of an interrupted run."""
    if keep and (keep / TRIALS).exists():
        raise FileExistsError(f"{keep / TRIALS} is there already: choose another directory")
    with tempfile.TemporaryDirectory(prefix="ullage-injection-") as temporary:
        directory = keep or Path(temporary)
        session = perform.begin(size, directory / "runs", lambda found: found.save(directory))
        session.rounds()
        plausible.run(session)
        session.recording.save(directory)
    return session.recording


def measure(quick: bool) -> list[Figure]:
    """Record and analyse."""
    return answers.figures(answers.answer(record(QUICK if quick else USUAL, None)))


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status: 0, 2 for what cannot be run or read, 130 after a Ctrl-C."""
    parser = argparse.ArgumentParser(prog="benchmarks.injection", description=description)
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_const", dest="size", const=QUICK, default=USUAL)
    size.add_argument("--full", action="store_const", dest="size", const=FULL)
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("--json", action="store_true", help="print the figures as JSON")
    shown.add_argument("--markdown", action="store_true", help="print tables for the docs")
    kept = parser.add_mutually_exclusive_group()
    kept.add_argument("--keep", type=Path, metavar="DIR", help="keep the trials in DIR")
    kept.add_argument("--from", type=Path, dest="origin", metavar="DIR", help="analyse kept trials")
    said = parser.parse_args(arguments)
    try:
        recording = Recording.load(said.origin) if said.origin else record(said.size, said.keep)
        found = answers.answer(recording)
    except UllageError as error:
        print(f"error: {error.message}\nhint: {error.hint}", file=sys.stderr)
        return 2
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    if said.markdown:
        print(answers.markdown(found), end="")
    elif said.json:
        json.dump([asdict(figure) for figure in answers.figures(found)], sys.stdout, indent=1)
        print()
    else:
        show(answers.figures(found))
    return 0
