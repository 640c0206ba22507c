"""Run folders whose JSON is right and whose values are not: does every reader end in words?

Each change takes one value of one file of a folder that an older ullage left, or that
`testing.synthetic` makes, and puts another in its place: another number or type, or nothing. Then a
command that reads such a folder is called, in this process. What it may do is print, or raise an
error of the catalogue; a traceback, a minute or a GiB is a fault. A number makes a change:

    python -m tests.lab.chaos.folders --count 100000      # all of it, spread over the cores
    python -m tests.lab.chaos.folders --first 4711 --count 1     # that one again
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import gc
import io
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, Final

from typer.main import get_command

from testing.synthetic import ENVIRONMENTS, WORKLOADS, make_run
from tests.lab.chaos import memory
from ullage.cli import main
from ullage.common.errors import UllageError

OLD: Final = Path(__file__).parents[2] / "old_folders"
PAGE: Final = "{work}/page.html"
KINDS: Final[dict[str, tuple[tuple[str, ...], ...]]] = {
    "made": (
        ("show", "{run}", "--details"),
        ("show", "{run}", "--json"),
        ("report", "{run}", "--out", PAGE),
        ("export", "{run}", "--format", "csv"),
        ("export", "{run}", "--format", "latex"),
        ("export", "{run}", "--energy"),
        ("list", "--runs", "{runs}"),
        ("verify", "{run}"),
        ("history", "--runs", "{runs}"),
        ("compare", "{other}", "{run}"),
        ("gate", "compare", "{other}", "{run}", "--worse-than", "5%"),
        ("gate", "compare", "{run}", "{other}", "--worse-than", "5%", "--json"),
        ("query", "--runs", "{runs}", "select * from samples"),
        ("query", "--runs", "{runs}", "select * from events"),
        ("query", "--runs", "{runs}", "select * from meters"),
    ),
    "duet": (("show", "{run}", "--details"), ("report", "{run}", "--out", PAGE)),
    "run": (
        ("show", "{run}", "--details"),
        ("report", "{run}", "--out", PAGE),
        ("export", "{run}", "--energy"),
        ("weigh", "{run}", "--weights", "cpu=0.2,memory=0.2,disk=0.6"),
        ("study", "show", "cmu-overhead", "{run}"),
    ),
    "curve": (("show", "{run}", "--details"), ("study", "show", "network-pipeline", "{run}")),
    "elastic": (
        ("elastic", "show", "{run}"),
        ("elastic", "report", "{run}", "--out", PAGE),
        ("elastic", "export", "{run}", "--format", "csv"),
        ("list", "--runs", "{runs}"),
    ),
    "profile": (
        ("profile", "--load", "{run}/profile.json"),
        ("show", "{run}", "--details"),
        ("report", "{run}", "--out", PAGE),
    ),
    "clock": (("study", "show", "elastic-clock", "{run}"),),
}
"""Kind → the commands that read its folders."""
OFTEN: Final = ("made",) * 116 + ("duet", "elastic", "elastic", "clock", "profile", "curve", "run")
"""How often a kind is drawn: what is small is read in a hundredth of a second."""
FIRST: Final = 0.85
"""Share of the changes that only the kind's first command is called for: a page takes seconds."""
PATIENCE_S: Final = 60
"""CPU time of a command: other work on the machine makes none of it slow."""
HANGS_S: Final = 900
"""And so long where it waits."""
MOST_BYTES: Final = 1 << 30

_ROUNDS: Final = 2
_COLLECTED: Final = 25
"""Changes after which garbage is collected: to do so all the time takes a sixth of it."""

NUMBERS: Final = (
    0,
    1,
    -1,
    0.5,
    1e308,
    -1e308,
    5e-324,
    2**31,
    2**53 + 1,
    2**62,
    2**63,
    2**64,
    10**30,
)
OTHERS: Final[tuple[Any, ...]] = (
    *("", "NaN", "inf", "-", "0", "\x1b[31m\u202e\n", "x" * 100_000, "é\u0000", "../../etc/passwd"),
    *(None, True, False, [], {}, [[]], [None], {"": None}, {"x": 1}, [0] * 50),
)
NOT_NUMBERS: Final = (float("nan"), float("inf"), float("-inf"))
"""Python writes and reads them, whatever JSON says."""


@dataclass(frozen=True)
class Fault:
    number: int
    what: str
    """The exception and where in our code, or what took too long or too much."""
    change: str


class TooLong(BaseException):
    pass


def scalars(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all values in it, those of lists and objects too."""
    if path:
        yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from scalars(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value[:40]):
            yield from scalars(inner, (*path, index))


def changed(document: Any, draw: random.Random) -> tuple[Any, str]:
    """The document with one value changed, and what was done."""
    document = copy.deepcopy(document)
    paths = list(scalars(document))
    if not paths:
        return draw.choice(OTHERS), "all of it"
    path = draw.choice(paths)
    place = document
    for step in path[:-1]:
        place = place[step]
    before, roll = place[path[-1]], draw.random()
    new: Any
    if roll < 0.08:
        del place[path[-1]]
        return document, f"{path} is gone"
    if isinstance(before, int | float) and not isinstance(before, bool) and roll < 0.75:
        new = draw.choice((*NUMBERS, *NOT_NUMBERS, -before, before * 1000, before + 1, before / 7))
    elif isinstance(before, list) and before and roll < 0.5:
        new = draw.choice((before * 2, before[::-1], before[1:]))
    else:
        new = draw.choice((*NUMBERS, *NOT_NUMBERS, *OTHERS))
    place[path[-1]] = new
    return document, f"{path}: {str(before)[:60]!r} → {str(new)[:60]!r}"


@contextlib.contextmanager
def one_change(folder: Path, draw: random.Random) -> Iterator[str]:
    """One value of one file is another while this goes on."""
    by_name: dict[str, list[Path]] = {}
    for path in sorted(folder.rglob("*.json*")):
        by_name.setdefault(path.name, []).append(path)
    often = [name for name in by_name for _ in range(8 if name == "journal.jsonl" else 1)]
    file = draw.choice(by_name[draw.choice(often)])
    before = file.read_bytes()
    if file.suffix == ".jsonl":
        lines = before.decode().splitlines()
        at = draw.randrange(len(lines))
        document, what = changed(json.loads(lines[at]), draw)
        what = f"line {at + 1}, {what}"
        lines[at] = json.dumps(document)
        after = "\n".join(lines) + "\n"
    else:
        document, what = changed(json.loads(before), draw)
        after = json.dumps(document)
    file.write_text(after)
    try:
        yield f"{file.relative_to(folder)}: {what}"
    finally:
        file.write_bytes(before)


def make(kind: str, work: Path) -> Path:
    """A folder of the kind, alone in its folder of runs."""
    runs = work / kind
    if kind == "made":
        return make_run(
            runs / "20260101T000000-made",
            blocks=2,
            least=2,
            environments=ENVIRONMENTS[:2],
            workloads=WORKLOADS[:1],
            failures=((1, ENVIRONMENTS[1].key, WORKLOADS[0].key),),
            raw=False,
        )
    shutil.copytree(OLD / kind, runs)
    (run,) = runs.iterdir()
    if (journal := run / "journal.jsonl").exists():
        journal.write_text("".join(_first_rounds(journal)))
    return run


def _first_rounds(journal: Path) -> Iterator[str]:
    """Its lines without the later blocks or repetitions: there is as much to change in fewer."""
    clocks: Counter[str] = Counter()
    with journal.open() as lines:
        for line in lines:
            event = json.loads(line)
            if event["event"] == "synchronised":
                clocks[event["instance"]] += 1
            late = max(event.get("block", 0), event.get("repetition", 0)) >= _ROUNDS
            if not late and clocks[event.get("instance", "")] <= _ROUNDS:
                yield line


def _nowhere() -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), "utf-8", errors="replace")


@cache
def _command_line() -> Any:
    """The whole of it, which Typer else builds anew for each call."""
    return get_command(main.app)


def called(argv: Sequence[str]) -> str | None:
    """What is wrong with how the command ended; None: nothing."""

    def ring(*_: object) -> None:
        raise TooLong

    signal.signal(signal.SIGPROF, ring)
    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_PROF, PATIENCE_S)
    signal.alarm(HANGS_S)
    out, err = _nowhere(), _nowhere()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            _command_line().main(list(argv), standalone_mode=False)
    except TooLong:
        return f"{argv[0]} takes longer than {PATIENCE_S} s of CPU time, or {HANGS_S} s"
    except (UllageError, OSError, SystemExit):
        return _escaped(out, err)
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        ours = next((f for f in reversed(frames) if "/ullage/" in f.filename), frames[-1])
        where = ours.filename.rpartition("/ullage/")[2]
        return f"{type(error).__name__} {where}:{ours.lineno} ({ours.name}): {str(error)[:120]}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.alarm(0)
    return _escaped(out, err)


def _escaped(*streams: io.TextIOWrapper) -> str | None:
    """What would have reached the terminal as a control sequence."""
    for stream in streams:
        stream.flush()
        assert isinstance(stream.buffer, io.BytesIO)
        before, mark, after = stream.buffer.getvalue().partition(b"\x1b")
        if mark:
            return f"an escape gets through: {before[-60:] + mark + after[:20]!r}"
    return None


def go(first: int, count: int, step: int = 1) -> list[Fault]:
    """Changes `first`, `first + step`, …; each is made by its number alone."""
    faults: list[Fault] = []
    gc.freeze()
    gc.disable()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        work = Path(name)
        runs = {kind: make(kind, work) for kind in KINDS}
        (work / "again").mkdir()
        other = make("made", work / "again")
        for number in range(first, first + count * step, step):
            if number % _COLLECTED == 0:
                gc.collect()
            draw = random.Random(number)
            kind = draw.choice(OFTEN)
            run = runs[kind]
            command = draw.choice(KINDS[kind][: 1 if draw.random() < FIRST else None])
            argv = [
                part.format(run=run, runs=run.parent, work=work, other=other) for part in command
            ]
            before = memory.begin_anew()
            with one_change(run, draw) as change:
                what = called(argv)
            taken = memory.memory_bytes("VmHWM") - before
            if what is None and taken > MOST_BYTES:
                what = f"{taken / 2**30:.1f} GiB of memory"
            if what is not None:
                faults.append(Fault(number, what, f"{kind}, {' '.join(command)}: {change}"))
                print(f"--first {number} --count 1: {what}", file=sys.stderr, flush=True)
    return faults


def campaign(first: int, count: int, workers: int) -> list[Fault]:
    """The changes, a share for each process."""
    size = 100
    starts = range(first, first + count, size)
    sizes = [min(size, first + count - start) for start in starts]
    faults: list[Fault] = []
    with ProcessPoolExecutor(workers, max_tasks_per_child=10) as pool:
        for start, share in zip(starts, pool.map(go, starts, sizes), strict=True):
            faults += share
            print(f"{start + size - first:,} of {count:,}", file=sys.stderr, flush=True)
    return faults


def main_of_campaign() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args()
    faults = campaign(options.first, options.count, options.workers)
    for what, times in Counter(fault.what.partition(": ")[0] for fault in faults).most_common():
        those = [fault for fault in faults if fault.what.partition(": ")[0] == what]
        print(f"{times} × {those[0].what}")
        for fault in islice(those, 2):
            print(f"    --first {fault.number} --count 1: {fault.change}")
    print(f"folders: {options.count:,} changes, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main_of_campaign())
