"""Reads run folders: what all kinds have in common, and all that is known of an ordinary run."""

from __future__ import annotations

import gc
import hashlib
import os
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final, Generic, Literal, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from ullage.common import sums
from ullage.common.errors import (
    RUN_BAD_FORMAT,
    RUN_NOT_BEGUN,
    RUN_NOT_FOUND,
    RUN_OF_ANOTHER_KIND,
    UllageError,
)
from ullage.common.faults import first_fault
from ullage.common.regular import digest, open_regular, read_document, read_lines
from ullage.common.sums import BrokenSumError, Chain
from ullage.runs.alike import Names, with_shared_names
from ullage.runs.events import (
    BlockDone,
    Event,
    Finished,
    Judged,
    Provisioned,
    Recalled,
    Started,
    Trial,
    Warned,
)
from ullage.runs.leaving import CellKey, absent
from ullage.runs.records import (
    FORMAT,
    JOURNAL,
    PLAN,
    RESOLVED,
    TRIALS,
    Digests,
    Natural,
    Resolved,
    size,
)

_HEAD = 200
"""Bytes in which `resolved.json` says what kind of run it is of."""
KindName = Literal["ordinary", "elastic"]
_COMMANDS: Final[dict[KindName, str]] = {"ordinary": "ullage", "elastic": "ullage elastic"}
R = TypeVar("R", bound=BaseModel)
E = TypeVar("E")
M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")


class _Formatted(BaseModel):
    """All that is the same in every format."""

    format: Natural


@dataclass(frozen=True)
class Lines(Generic[T]):
    """What stood in a file of lines."""

    records: tuple[T, ...]
    length: int
    """Bytes of it."""
    torn: bool
    """The last line is not whole, and is none of these."""
    summed: bool
    """Its lines have checksums, which hold; False: they are from before there were any."""
    always: bool
    """From the first one on; an old run that was taken up again has them later."""


@dataclass(frozen=True)
class FolderKind(Generic[R, E]):
    """A kind of run: what stands in its folders, and how they are found, checked and read."""

    name: KindName
    format: Natural
    resolved: type[R]
    event: TypeAdapter[E]
    """A line of the journal."""
    results: str
    """The folder of what was measured; there from the first measurement on."""

    def find(self, root: Path) -> list[Path]:
        """The folders under `root` (or `root` itself), newest name first."""
        if self._has(root):
            return [root]
        if not root.is_dir():
            return []
        folders = (path for path in root.iterdir() if self._has(path))
        return sorted(folders, key=lambda path: path.name, reverse=True)

    def newest(self, root: Path) -> Path:
        """The run that was started last; RUN_NOT_FOUND when there is none."""
        if self.name == "ordinary" and is_elastic(root):
            return root  # who reads it says what it is
        folders = self.find(root)
        if not folders:
            raise UllageError(RUN_NOT_FOUND, path=root)
        return folders[0]

    def chosen(self, run: Path | None, root: Path) -> Path:
        """The folder that a user means (see `named`); None: the newest run in `root`.

        RUN_NOT_FOUND when there is none.
        """
        return self.newest(root) if run is None else named(run, root)

    def begun(self, path: Path) -> Path:
        """The folder of a run that can be taken up, even if it made no more than its plan.

        RUN_NOT_FOUND, RUN_OF_ANOTHER_KIND.
        """
        self.refuse_other(path, "run --resume")
        if not (path / PLAN).is_file():
            raise UllageError(RUN_NOT_FOUND, path=path)
        return path

    def refuse_other(self, path: Path, verb: str) -> None:
        """RUN_OF_ANOTHER_KIND when the folder is of the other kind, whose command has that verb."""
        if self.name == "ordinary" and is_elastic(path):
            raise another_kind(path, "elastic", f"{verb} {typed(path)}")
        if self.name == "elastic" and is_ordinary(path):
            raise another_kind(path, "ordinary", f"{verb} {typed(path)}")

    def read_resolved(self, path: Path) -> R:
        """`resolved.json`. RUN_NOT_FOUND, RUN_NOT_BEGUN, RUN_OF_ANOTHER_KIND, RUN_BAD_FORMAT."""
        self.refuse_other(path, "show")
        return self.parse_resolved(path, self.resolved_bytes(path))

    def resolved_bytes(self, path: Path) -> bytes:
        """The same as it lies there.

        RUN_NOT_FOUND when it is no run's folder, RUN_NOT_BEGUN when the run ended while it was
        prepared.
        """
        if os.path.lexists(path / RESOLVED):
            return self.content(path, RESOLVED)
        if not (path / PLAN).is_file() or (path / self.results).exists():
            raise UllageError(RUN_NOT_FOUND, path=path)
        resume = f"{_COMMANDS[self.name]} run --resume {typed(path)}"
        raise UllageError(RUN_NOT_BEGUN, path=path, command=resume)

    def parse_resolved(self, path: Path, text: bytes) -> R:
        """Its format is told before all else. RUN_BAD_FORMAT."""
        try:
            record = sums.opened(text)
            if (number := _Formatted.model_validate_json(record).format) != self.format:
                raise self.bad(path, f"it is of format {number}")
            return self.resolved.model_validate_json(record)
        except (ValidationError, BrokenSumError) as error:
            raise self.bad(path, f"{RESOLVED}: {first_fault(error)}") from error

    def read_events(self, path: Path) -> tuple[E, ...]:
        """The journal, also of a folder that has no `resolved.json` yet; see `read_lines`."""
        return tuple(self.read_lines(path, JOURNAL, self.event).records)

    def read_lines(self, path: Path, name: str, line: TypeAdapter[T]) -> Lines[T]:
        """What stands in a file of the folder, line by line, each held against its checksum.

        Nothing of a file that is not there. RUN_BAD_FORMAT, also for one that is no regular file,
        or too large. A last line without its newline was never acknowledged and is left out.
        """
        chain, validate = Chain(), line.validate_json
        records: list[T] = []
        names: Names = {}
        length, tail, first = 0, b"", ""
        for number, written in enumerate(self._raw_lines(path, name), start=1):
            length += len(written)
            try:
                if not written.endswith(b"\n"):
                    tail = written
                    if chain.is_damaged_end(tail):
                        raise BrokenSumError("there is more after its end")
                else:
                    record = validate(chain.opened(written[:-1]))
                    records.append(with_shared_names(record, names))
                    first = chain.before if number == 1 else first
            except (ValidationError, BrokenSumError) as error:
                raise self.bad(path, f"{name}, line {number}: {first_fault(error)}") from error
        return Lines(
            tuple(records), length, torn=bool(tail), summed=bool(chain.before), always=bool(first)
        )

    def _raw_lines(self, path: Path, name: str) -> Iterator[bytes]:
        try:
            yield from read_lines(path / name, root=path)
        except FileNotFoundError:
            return
        except OSError as error:
            raise self.bad(path, f"cannot read {name}: {error.strerror}") from error

    def read(self, path: Path, name: str, model: type[M]) -> M | None:
        """A file of the folder with one record; None when it is not there. RUN_BAD_FORMAT."""
        if not os.path.lexists(path / name):
            return None
        try:
            return model.model_validate_json(sums.opened(self.content(path, name)))
        except (ValidationError, BrokenSumError) as error:
            raise self.bad(path, f"{name}: {first_fault(error)}") from error

    def content(self, path: Path, name: str) -> bytes:
        """Of a file of the folder; empty when it is not there. RUN_BAD_FORMAT."""
        try:
            return read_document(path / name, root=path)
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise self.bad(path, f"cannot read {name}: {error.strerror}") from error

    def hold(self, path: Path, name: str, files: Digests) -> None:
        """RUN_BAD_FORMAT when a file is not what the journal has of it; if it has anything."""
        try:
            if name in files and digest(path / name, path) != files[name]:
                raise self.bad(path, f"{name} is not what the journal has of it")
        except OSError as error:
            raise self.bad(path, f"cannot read {name}: {error.strerror}") from error

    def bad(self, path: Path, reason: str) -> UllageError:
        """The complaint about a folder that is not as this kind has it."""
        form = self.format if self.name == "ordinary" else f"{self.name} {self.format}"
        return UllageError(RUN_BAD_FORMAT, path=path, format=form, reason=reason)

    def _has(self, path: Path) -> bool:
        """Ordinary is every folder that does not say that it is another's."""
        elastic = is_elastic(path)
        if self.name == "elastic":
            return elastic
        # Also one that is no file: who reads it says what is wrong, and which folder it is.
        return os.path.lexists(path / RESOLVED) and not elastic


ORDINARY: Final = FolderKind("ordinary", FORMAT, Resolved, TypeAdapter[Event](Event), TRIALS)
begun, chosen = ORDINARY.begun, ORDINARY.chosen
find_runs, newest_run = ORDINARY.find, ORDINARY.newest


def is_elastic(path: Path) -> bool:
    """Is it the folder of an elastic run (`experiments/elastic/folder.py`)?"""
    try:
        with open_regular(path / RESOLVED) as file:
            return b'"kind": "elastic"' in file.read(_HEAD)
    except OSError:
        return False


def is_ordinary(path: Path) -> bool:
    """Is it the folder of an ordinary run of today's format?"""
    try:
        text = read_document(path / RESOLVED)
        return _Formatted.model_validate_json(text).format == FORMAT and not is_elastic(path)
    except (OSError, ValidationError):
        return False


def another_kind(path: Path, kind: KindName, command: str) -> UllageError:
    """That the run in `path` is of that kind, for which there is that command."""
    whole = f"{_COMMANDS[kind]} {command}"
    return UllageError(RUN_OF_ANOTHER_KIND, path=path, what=f"an {kind}", command=whole)


def first_start(events: Sequence[object]) -> Started | None:
    """The start of a run's first session."""
    return next((event for event in events if isinstance(event, Started)), None)


def last_end(events: Sequence[object], ended: type[T]) -> T | None:
    """How a run's last session ended; None when it did not, or not in order."""
    for event in reversed(events):
        if isinstance(event, ended):
            return event
        if isinstance(event, Started):
            return None
    return None


@dataclass(frozen=True)
class RunFolder:
    """One run, read from its `resolved.json` and `journal.jsonl`."""

    path: Path
    resolved: Resolved
    events: tuple[Event, ...]
    truncated: bool
    """The last line is not whole: the controller was killed while it wrote."""
    stamp: str = ""
    """Of the two files as they were read; see `stamp`."""
    summed: bool = False
    """Its journal has checksums, which hold; False: it is from before there were any."""

    @classmethod
    def open(cls, path: Path, command: str = "show") -> RunFolder:
        """Read the run in `path`. command: what `ullage elastic` has for an elastic run.

        A last line without its newline was never acknowledged and is left out; anything else that
        is malformed, a trial that stands twice, or a cell twice in a block is RUN_BAD_FORMAT.
        RUN_NOT_FOUND or RUN_NOT_BEGUN when there is no `resolved.json`, RUN_OF_ANOTHER_KIND for an
        elastic run.
        """
        ORDINARY.refuse_other(path, command)
        text = ORDINARY.resolved_bytes(path)
        resolved = ORDINARY.parse_resolved(path, text)
        with _no_garbage_collection():
            read = ORDINARY.read_lines(path, JOURNAL, ORDINARY.event)
            if read.always and not sums.has_sum(text):
                raise ORDINARY.bad(path, f"{RESOLVED} has no checksum, unlike the journal")
            stamped = _stamp(text, read.length)
            folder = cls(path, resolved, read.records, read.torn, stamped, read.summed)
            folder.check_cells()
        return folder

    @cached_property
    def trials(self) -> tuple[Trial, ...]:
        """Every trial, in the order in which they ended."""
        return self._of(Trial)

    @cached_property
    def blocks(self) -> tuple[BlockDone, ...]:
        """The blocks that the engine has closed."""
        return self._of(BlockDone)

    @cached_property
    def spent_s(self) -> float:
        """What its blocks have taken; one that is not closed counts by its trials."""
        closed = {block.block for block in self.blocks}
        open_ = [
            ((trial.end_ns - trial.start_ns) / 1e9 + trial.overhead_s)
            / (1 if trial.partner is None else 2)  # which ran at the same time
            for trial in self.trials
            if trial.block not in closed
        ]
        return sum(block.seconds for block in self.blocks) + sum(open_)

    @cached_property
    def complete_blocks(self) -> tuple[int, ...]:
        """Numbers of the blocks of which every cell has its trial, in order.

        After a kill between a block's last trial and its end there is one more than in `blocks`.
        """
        count = Counter(trial.block for trial in self.trials)
        return tuple(sorted(b for b, trials in count.items() if trials == self._cells(b)))

    def _cells(self, block: int) -> int:
        """Trials of a block, without the cells that had left by then."""
        resolved = self.resolved
        planned = size(resolved.design, len(resolved.environments), len(resolved.workloads))
        gone = self.left(block)
        if resolved.design == "solo":
            return planned - len(gone)
        return planned - 2 * sum(environment != resolved.baseline for environment, _ in gone)

    @cached_property
    def judged(self) -> tuple[Judged, ...]:
        """The looks at which comparisons could leave, in order."""
        return self._of(Judged)

    @cached_property
    def moves(self) -> tuple[Judged | Recalled, ...]:
        """The looks, and what was called back between them, in order."""
        return tuple(event for event in self.events if isinstance(event, Judged | Recalled))

    def left(self, block: int) -> frozenset[CellKey]:
        """The cells that had left when that block began."""
        return frozenset(absent(self.moves, block))

    @cached_property
    def warnings(self) -> tuple[Warned, ...]:
        """What the engine warned of."""
        return self._of(Warned)

    @cached_property
    def provisioned(self) -> tuple[Provisioned, ...]:
        """The instances that came up."""
        return self._of(Provisioned)

    @cached_property
    def sessions(self) -> tuple[Started, ...]:
        """The starts of the controller: more than one when the run was resumed."""
        return self._of(Started)

    @property
    def finished(self) -> Finished | None:
        """How the last session ended; None when it did not, or not in order."""
        return last_end(self.events, Finished)

    @cached_property
    def _root(self) -> Path:
        return self.path.resolve()

    def raw(self, relative: str) -> Path:
        """Path of a raw output that a trial names; RUN_BAD_FORMAT if it leads out of the folder."""
        root = self._root
        try:
            file = (root / relative).resolve()
        except (OSError, RuntimeError) as error:  # a circle of links is a RuntimeError
            raise ORDINARY.bad(self.path, f"the output {relative!r} is no file") from error
        if not file.is_relative_to(root):
            raise ORDINARY.bad(self.path, f"the output {relative!r} lies outside of it")
        return file

    def check_cells(self) -> None:
        """Raise RUN_BAD_FORMAT when a trial stands twice or names what the plan does not have."""
        environments = {e.key for e in self.resolved.environments}
        workloads = {w.key for w in self.resolved.workloads}
        named = {self.resolved.baseline}
        named |= {e.again_of for e in self.resolved.environments if e.again_of is not None}
        if not named <= environments:
            raise ORDINARY.bad(
                self.path, f"no environment {', '.join(sorted(named - environments))}"
            )
        names: set[str] = set()
        cells: set[tuple[int, str, str, str | None]] = set()
        for trial in self.trials:
            cell = (trial.block, trial.environment, trial.workload, trial.partner)
            if trial.trial in names:
                raise ORDINARY.bad(self.path, f"trial {trial.trial} stands in the journal twice")
            if cell in cells:
                raise ORDINARY.bad(
                    self.path, f"block {trial.block} has {cell[1]} × {cell[2]} twice"
                )
            if (trial.partner is None) != (self.resolved.design == "solo"):
                raise ORDINARY.bad(
                    self.path, f"trial {trial.trial} is not of the design of its run"
                )
            in_plan = {trial.environment, trial.partner or trial.environment} <= environments
            if not in_plan or trial.workload not in workloads:
                raise ORDINARY.bad(
                    self.path, f"trial {trial.trial} is of an unknown cell {cell[1:]}"
                )
            names.add(trial.trial)
            cells.add(cell)

    def _of(self, kind: type[T]) -> tuple[T, ...]:
        return tuple(event for event in self.events if isinstance(event, kind))


def stamp(path: Path) -> str:
    """What tells whether something was made of the run as it stands.

    The digest of `resolved.json`, which is written anew, and the size of the journal, which only
    grows.
    """
    journal = path / JOURNAL
    length = journal.stat().st_size if journal.is_file() else 0
    return _stamp(ORDINARY.resolved_bytes(path), length)


def _stamp(resolved: bytes, journal_bytes: int) -> str:
    return f"{hashlib.sha256(resolved).hexdigest()}+{journal_bytes}"


def sessions(path: Path) -> tuple[Started, ...]:
    """The starts of the controller, also of a folder that has no `resolved.json` yet."""
    return tuple(e for e in ORDINARY.read_events(path) if isinstance(e, Started))


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """A long journal makes millions of objects that all live on: looking through them takes 2/3."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def named(run: Path, root: Path) -> Path:
    """The folder that a user means by `run`: a path, or the bare name of a folder in `root`.

    What exists as a path is that; nothing with a slash in it is looked for elsewhere.
    """
    bare = run.name == str(run)
    return root / run if bare and not run.exists() and (root / run).is_dir() else run


def typed(path: Path) -> str:
    """A path as it is typed in a shell here: quoted, and relative where it lies below."""
    cwd, whole = Path.cwd(), path.absolute()
    text = str(whole.relative_to(cwd) if whole.is_relative_to(cwd) else whole)
    return shlex.quote(f"./{text}" if text.startswith("-") else text)
