"""Journals that were cut or changed on the way: how many are read as if nothing had happened?

    python -m tests.lab.chaos.journal [--flips 100000] [--seed 1]

Every truncation of a journal, and bits flipped in it at random; the same for `resolved.json` and a
meter's file. What is read must be what was written; a cut one may be read up to its last whole
line, which must then be said: its last line is torn, or the run has no end.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.runs.sealedrun import sealed_run
from ullage.analysis.energy import series
from ullage.common.errors import UllageError
from ullage.meters.energy.recorder import LineFile
from ullage.runs.events import Event, Finished
from ullage.runs.reader import ORDINARY, Lines, last_end
from ullage.runs.readings import Channel, Closed, Opened, Reading
from ullage.runs.records import JOURNAL, RESOLVED

Outcome = str
"""`refused`; `said`: read up to where it was cut, which is told; `silent`: read as if it were
whole, though it is not; `same`: what is read is what was written; or a traceback's name."""
OUTCOMES: Final = ("refused", "said", "same", "silent")


@dataclass(frozen=True)
class Subject:
    """A file of a run folder, and how it is read."""

    name: str
    file: Path
    read: Callable[[], object]
    """What it says; the same of the same file."""
    is_cut: Callable[[], bool]
    """Does who reads it say that there was more?"""

    def outcome(self, data: bytes, whole: object) -> Outcome:
        """Of that in the file's place. whole: what it said before."""
        self.file.write_bytes(data)
        try:
            read = self.read()
        except UllageError:
            return "refused"
        except Exception as error:
            return f"traceback: {type(error).__name__}"
        if read == whole:
            return "same"
        return "said" if self.is_cut() else "silent"


def journal(run: Path) -> Subject:
    def lines() -> Lines[Event]:
        return ORDINARY.read_lines(run, JOURNAL, ORDINARY.event)

    def is_cut() -> bool:
        return lines().torn or last_end(lines().records, Finished) is None

    return Subject(JOURNAL, run / JOURNAL, lambda: lines().records, is_cut)


def resolved(run: Path) -> Subject:
    return Subject(RESOLVED, run / RESOLVED, lambda: ORDINARY.read_resolved(run), lambda: False)


def meter(run: Path) -> Subject:
    file = run / "meters" / "wall.jsonl"
    file.parent.mkdir(exist_ok=True)
    channel = Channel.model_validate(
        {
            "name": "wall",
            "kind": "power",
            "method": "measured",
            "scope": "wall",
            "observer": "host",
            "resolution": 0.1,
        }
    )
    opened = Opened(
        session="u1234567",
        label="wall",
        meter="nut",
        options={},
        every_s=1.0,
        channels=(channel,),
        epoch_ns=1,
        at_ns=1,
    )
    with LineFile(file) as lines:
        lines.append(opened)
        for second in range(1, 30):
            lines.append(Reading(at_ns=second * 10**9, within_ns=9, values={"wall": 50.0 + second}))
        lines.append(Closed(at_ns=31 * 10**9))

    def read() -> object:
        return [repr(stretch) for stretch in series.read(file)]

    def is_cut() -> bool:
        *whole, torn = file.read_bytes().split(b"\n")
        return bool(torn) or b'"closed"' not in b"".join(whole)

    return Subject("meters/wall.jsonl", file, read, is_cut)


def truncations(data: bytes) -> Iterator[bytes]:
    return (data[:end] for end in range(len(data)))


def flips(data: bytes, number: int, seed: int) -> Iterator[bytes]:
    chance = random.Random(seed)
    for _ in range(number):
        bit = chance.randrange(8 * len(data))
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        yield bytes(changed)


def outcomes(subject: Subject, changes: Iterator[bytes]) -> Counter[Outcome]:
    data, whole = subject.file.read_bytes(), subject.read()
    counts = Counter(subject.outcome(changed, whole) for changed in changes)
    subject.file.write_bytes(data)
    return counts


@dataclass(frozen=True)
class Attack:
    """What was done to a file, how often, and what became of it."""

    title: str
    changes: int
    outcomes: Counter[Outcome]

    @property
    def bad(self) -> int:
        """Read as if nothing had happened, or a traceback."""
        return sum(
            count
            for outcome, count in self.outcomes.items()
            if outcome == "silent" or outcome not in OUTCOMES
        )

    def __str__(self) -> str:
        counted = [f"{self.outcomes[name]:,} {name}" for name in OUTCOMES]
        others = [f"{n:,} {name}" for name, n in self.outcomes.items() if name not in OUTCOMES]
        return f"{self.title}: {', '.join(counted + others)}"


def attacks(number: int, seed: int) -> Iterator[Attack]:
    """Bits flipped in each of the files; number: how many in the journal. 0: every truncation."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as place:
        run = sealed_run(Path(place), blocks=1)
        for make, share in ((journal, 1.0), (resolved, 0.1), (meter, 0.1)):
            subject = make(run)
            data = subject.file.read_bytes()
            flipped = round(share * number)
            changes = flips(data, flipped, seed) if number else truncations(data)
            title = "flipped bits" if number else "truncations"
            done = flipped if number else len(data)
            yield Attack(f"{subject.name}, {done:,} {title}", done, outcomes(subject, changes))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--flips", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    bad = 0
    for number in (0, arguments.flips):
        for attack in attacks(number, arguments.seed):
            print(attack, flush=True)
            bad += attack.bad
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
