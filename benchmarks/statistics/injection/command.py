"""The command line."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.figures import Figure, needs, write
from benchmarks.statistics.injection import __doc__ as description
from benchmarks.statistics.injection import answers, plausibility, session
from benchmarks.statistics.injection.recording import TRIALS, Recording
from benchmarks.statistics.injection.sizes import FULL, QUICK, USUAL, Size
from ullage.common.errors import UllageError


def record(size: Size, keep: Path | None) -> Recording:
    """Run everything. In `keep` the trials stay, also those of an interrupted run."""
    if keep and (keep / TRIALS).exists():
        raise FileExistsError(f"{keep / TRIALS} is there already: choose another directory")
    with tempfile.TemporaryDirectory(prefix="ullage-injection-") as temporary:
        directory = keep or Path(temporary)
        trials = session.begin(size, directory / "runs", lambda begun: begun.save(directory))
        trials.rounds()
        plausibility.run(trials)
        trials.recording.save(directory)
    return trials.recording


@needs("sysbench", "iperf3")
def measure(quick: bool) -> list[Figure]:
    return answers.figures(answers.answer(record(QUICK if quick else USUAL, None)))


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status: 0, 2 for what cannot be run or read, 130 after a Ctrl-C."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.statistics.injection", description=description
    )
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_const", dest="size", const=QUICK, default=USUAL)
    size.add_argument("--full", action="store_const", dest="size", const=FULL)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print the figures as JSON")
    form.add_argument("--markdown", action="store_true", help="print tables for the docs")
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--keep", type=Path, metavar="DIR", help="keep the trials in DIR")
    choice.add_argument(
        "--from", type=Path, dest="origin", metavar="DIR", help="analyse kept trials"
    )
    options = parser.parse_args(arguments)
    try:
        if options.origin:
            recording = Recording.load(options.origin)
        else:
            recording = record(options.size, options.keep)
        answer = answers.answer(recording)
    except UllageError as error:
        print(f"error: {error.message}\nhint: {error.hint}", file=sys.stderr)
        return 2
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    if options.markdown:
        print(answers.markdown(answer), end="")
    else:
        write(answers.figures(answer), as_json=options.json)
    return 0
