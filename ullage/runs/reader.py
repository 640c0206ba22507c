"""Reads a run folder: all that analysis, tables and report know of a run."""

from __future__ import annotations

import gc
import hashlib
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from ullage.common.errors import (
    RUN_BAD_FORMAT,
    RUN_NOT_BEGUN,
    RUN_NOT_FOUND,
    RUN_OF_ANOTHER_KIND,
    UllageError,
)
from ullage.runs.events import BlockDone, Event, Finished, Idle, Provisioned, Started, Trial, Warned
from ullage.runs.records import FORMAT, Resolved, size

JOURNAL = "journal.jsonl"
PLAN = "plan.yaml"
RESOLVED = "resolved.json"
TRIALS = "trials"
_HEAD = 200
"""Bytes in which `resolved.json` says what kind of run it is of."""
T = TypeVar("T")

_EVENT: TypeAdapter[Event] = TypeAdapter(Event)


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

    @classmethod
    def open(cls, path: Path, command: str = "show") -> RunFolder:
        """Read the run in `path`. command: what `ullage elastic` has for an elastic run.

        A last line without its newline was never acknowledged and is left out; anything else that
        is malformed, a trial that stands twice, or a cell twice in a block is RUN_BAD_FORMAT.
        RUN_NOT_FOUND or RUN_NOT_BEGUN when there is no `resolved.json`, RUN_OF_ANOTHER_KIND for an
        elastic run.
        """
        if is_elastic(path):
            raise elastic_run(path, f"{command} {typed(path)}")
        text = _read_resolved(path)
        resolved = _resolved(path, text)
        journal = _read(path, path / JOURNAL)
        *lines, tail = journal.split(b"\n")
        with _no_garbage_collection():
            events = tuple(_parse(path, lines))
            folder = cls(path, resolved, events, tail != b"", _stamp(text, len(journal)))
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
        resolved = self.resolved
        cells = size(resolved.design, len(resolved.environments), len(resolved.workloads))
        count = Counter(trial.block for trial in self.trials)
        return tuple(sorted(block for block, trials in count.items() if trials == cells))

    @cached_property
    def warnings(self) -> tuple[Warned, ...]:
        """What the engine warned of."""
        return self._of(Warned)

    @cached_property
    def idles(self) -> tuple[Idle, ...]:
        """When the host rested for its energy meters."""
        return self._of(Idle)

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
        for event in reversed(self.events):
            if isinstance(event, Finished):
                return event
            if isinstance(event, Started):
                return None
        return None

    def raw(self, relative: str) -> Path:
        """Path of a raw output that a trial names; RUN_BAD_FORMAT if it leads out of the folder."""
        root = self.path.resolve()
        file = (root / relative).resolve()
        if not file.is_relative_to(root):
            raise _bad(self.path, f"the output {relative!r} lies outside of it")
        return file

    def check_cells(self) -> None:
        """Raise RUN_BAD_FORMAT when a trial stands twice or names what the plan does not have."""
        environments = {e.key for e in self.resolved.environments}
        workloads = {w.key for w in self.resolved.workloads}
        named = {self.resolved.baseline}
        named |= {e.again_of for e in self.resolved.environments if e.again_of is not None}
        if not named <= environments:
            raise _bad(self.path, f"no environment {', '.join(sorted(named - environments))}")
        names: set[str] = set()
        cells: set[tuple[int, str, str, str | None]] = set()
        for trial in self.trials:
            cell = (trial.block, trial.environment, trial.workload, trial.partner)
            if trial.trial in names:
                raise _bad(self.path, f"trial {trial.trial} stands in the journal twice")
            if cell in cells:
                raise _bad(self.path, f"block {trial.block} has {cell[1]} × {cell[2]} twice")
            if (trial.partner is None) != (self.resolved.design == "solo"):
                raise _bad(self.path, f"trial {trial.trial} is not of the design of its run")
            known = {trial.environment, trial.partner or trial.environment} <= environments
            if not known or trial.workload not in workloads:
                raise _bad(self.path, f"trial {trial.trial} is of an unknown cell {cell[1:]}")
            names.add(trial.trial)
            cells.add(cell)

    def _of(self, kind: type[T]) -> tuple[T, ...]:
        return tuple(event for event in self.events if isinstance(event, kind))


class _Formatted(BaseModel):
    """All that is the same in every format."""

    format: int


def _read_resolved(path: Path) -> bytes:
    file = path / RESOLVED
    if not file.is_file():
        raise unresolved(path, TRIALS, "run")
    return _read(path, file)


def unresolved(path: Path, work: str, command: str) -> UllageError:
    """Of a folder without `resolved.json`: it is no run's, or its run ended while it was prepared.

    work: what a run that measured anything has in its folder.
    """
    if not (path / PLAN).is_file() or (path / work).exists():
        return UllageError(RUN_NOT_FOUND, path=path)
    resume = f"ullage {command} --resume {typed(path)}"
    return UllageError(RUN_NOT_BEGUN, path=path, command=resume)


def _resolved(path: Path, text: bytes) -> Resolved:
    try:
        if (found := _Formatted.model_validate_json(text).format) != FORMAT:
            raise _bad(path, f"it is of format {found}")
        return Resolved.model_validate_json(text)
    except ValidationError as error:
        raise _bad(path, f"{RESOLVED}: {_first(error)}") from error


def begun(path: Path) -> Path:
    """The folder of a run that can be taken up, even if it made no more than its plan.

    RUN_NOT_FOUND, RUN_OF_ANOTHER_KIND for an elastic run.
    """
    if is_elastic(path):
        raise elastic_run(path, f"run --resume {typed(path)}")
    if not (path / PLAN).is_file():
        raise UllageError(RUN_NOT_FOUND, path=path)
    return path


def elastic_run(path: Path, command: str) -> UllageError:
    """That an elastic run was given for an ordinary one. command: of `ullage elastic`."""
    whole = f"ullage elastic {command}"
    return UllageError(RUN_OF_ANOTHER_KIND, path=path, what="an elastic", command=whole)


def stamp(path: Path) -> str:
    """What tells whether something was made of the run as it stands.

    The digest of `resolved.json`, which is written anew, and the size of the journal, which only
    grows.
    """
    journal = path / JOURNAL
    return _stamp(_read_resolved(path), journal.stat().st_size if journal.is_file() else 0)


def _stamp(resolved: bytes, journal_bytes: int) -> str:
    return f"{hashlib.sha256(resolved).hexdigest()}+{journal_bytes}"


def sessions(path: Path) -> tuple[Started, ...]:
    """The starts of the controller, also of a folder that has no `resolved.json` yet."""
    whole = _read(path, path / JOURNAL).rpartition(b"\n")[0]
    return tuple(e for e in _parse(path, whole.splitlines()) if isinstance(e, Started))


def _read(path: Path, file: Path) -> bytes:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise _bad(path, f"cannot read {file.name}: {error.strerror}") from error


def _parse(path: Path, lines: Iterable[bytes]) -> Iterable[Event]:
    validate = _EVENT.validate_json
    for number, line in enumerate(lines, start=1):
        try:
            yield validate(line)
        except ValidationError as error:
            raise _bad(path, f"{JOURNAL}, line {number}: {_first(error)}") from error


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


def _first(error: ValidationError) -> str:
    """The first complaint, without the input: that may be long, and a guest's."""
    fault = error.errors(include_url=False, include_input=False, include_context=False)[0]
    if fault["type"] == "union_tag_invalid":
        return "unknown event"
    where = ascii(".".join(str(part) for part in fault["loc"])[:80]).strip("'")
    return f"{where}: {fault['msg']}" if where else fault["msg"]


def _bad(path: Path, reason: str) -> UllageError:
    return UllageError(RUN_BAD_FORMAT, path=path, format=FORMAT, reason=reason)


def is_elastic(path: Path) -> bool:
    """Is it the folder of an elastic run (`experiments/elastic/folder.py`)?"""
    try:
        with (path / RESOLVED).open("rb") as file:
            return b'"kind": "elastic"' in file.read(_HEAD)
    except OSError:
        return False


def is_ordinary(path: Path) -> bool:
    """Is it the folder of an ordinary run? Its format is told before all else."""
    try:
        return _Formatted.model_validate_json((path / RESOLVED).read_bytes()).format == FORMAT
    except (OSError, ValidationError):
        return False


def find_runs(root: Path) -> list[Path]:
    """The run folders under `root` (or `root` itself), newest name first; not elastic runs."""
    if (root / RESOLVED).is_file():
        return [root]
    if not root.is_dir():
        return []
    return sorted(
        (path for path in root.iterdir() if (path / RESOLVED).is_file() and not is_elastic(path)),
        key=lambda path: path.name,
        reverse=True,
    )


def newest_run(root: Path) -> Path:
    """The run that was started last; RUN_NOT_FOUND when there is none."""
    found = find_runs(root)
    if not found:
        raise UllageError(RUN_NOT_FOUND, path=root)
    return found[0]


def named(run: Path, root: Path) -> Path:
    """The folder that a user means by `run`: a path, or the bare name of a folder in `root`.

    What exists as a path is that; nothing with a slash in it is looked for elsewhere.
    """
    bare = run.name == str(run)
    return root / run if bare and not run.exists() and (root / run).is_dir() else run


def chosen(run: Path | None, root: Path) -> Path:
    """The folder that a user means (see `named`); None: the run in `root` that was started last.

    RUN_NOT_FOUND when there is none.
    """
    return newest_run(root) if run is None else named(run, root)


def typed(path: Path) -> str:
    """A path as it is typed in a shell here: quoted, and relative where it lies below."""
    here, whole = Path.cwd(), path.absolute()
    text = str(whole.relative_to(here) if whole.is_relative_to(here) else whole)
    return shlex.quote(f"./{text}" if text.startswith("-") else text)
