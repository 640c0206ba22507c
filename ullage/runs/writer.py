"""The writer of a run folder: an append-only journal, fsynced, and files put in place by rename."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType

from ullage.common.errors import RUN_DISK_FULL, RUN_IN_USE, RUN_NOT_FOUND, UllageError
from ullage.common.files import append, cut_torn_end, put
from ullage.runs.records import JOURNAL, RESOLVED, TRIALS, Record


def new_folder(root: Path, name: str) -> Path:
    """Make `root/20261121T021033-name`; a second one in the same second gets a suffix."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    for suffix in ("", *(f"-{i}" for i in range(2, 100))):
        folder = root / f"{stamp}-{name}{suffix}"
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        return folder
    raise FileExistsError(root / f"{stamp}-{name}")


@contextmanager
def disk_full_as_error(folder: Path) -> Iterator[None]:
    """Turn `No space left on device` into RUN_DISK_FULL."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise UllageError(RUN_DISK_FULL, path=folder) from error
        raise


class Journal:
    """Appends events to `journal.jsonl`; on the disk when `append` returns, if asked to wait.

    Only one controller may write: the journal is locked. An append that fails half-way (a
    full disk) is undone, so the journal stays whole.
    """

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise UllageError(RUN_NOT_FOUND, path=folder)
        self.folder = folder
        self._fd = os.open(folder / JOURNAL, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            self._lock()
            self._cut_unfinished()
        except BaseException:
            os.close(self._fd)
            raise

    def append(self, *events: Record, wait: bool = True) -> None:
        """Write events, all or none, and wait until they are on the disk.

        Without waiting they will be there by the next event that is waited for.
        """
        lines = b"".join(event.model_dump_json().encode() + b"\n" for event in events)
        with disk_full_as_error(self.folder):
            append(self._fd, self.folder / JOURNAL, lines, wait=wait)

    def resolve(self, resolved: Record) -> None:
        """Write `resolved.json` anew."""
        with disk_full_as_error(self.folder):
            put(self.folder / RESOLVED, resolved.model_dump_json(indent=1).encode())

    def trial_folder(self, trial: str) -> Path:
        """An empty folder for the raw outputs of a trial; a killed attempt's are removed."""
        folder = self.folder / TRIALS / trial
        with disk_full_as_error(self.folder):
            folder.mkdir(parents=True, exist_ok=True)
            for old in folder.iterdir():
                old.unlink()
        return folder

    def close(self) -> None:
        """Give the folder free."""
        os.close(self._fd)

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _lock(self) -> None:
        """Take the folder; the kernel gives it free when the process ends, however it ends."""
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UllageError(RUN_IN_USE, path=self.folder) from None

    def _cut_unfinished(self) -> None:
        """A controller killed while it wrote leaves a tail that was never acknowledged.

        That is a part of a line, or one half of a duet without the other, as both are written at
        once: the pair is run again.
        """
        cut = cut_torn_end(self._fd)
        data = (self.folder / JOURNAL).read_bytes()
        *_, before, last = [b"", b"", *data.splitlines(keepends=True)]
        if (half := _duet_half(last)) and half != _duet_half(before, swapped=True):
            os.ftruncate(self._fd, len(data) - len(last))
            cut = True
        if cut:
            os.fsync(self._fd)


def _duet_half(line: bytes, *, swapped: bool = False) -> tuple[object, ...] | None:
    """Block, workload and the two environments of one half of a duet; None of all else."""
    try:
        event = json.loads(line)
        if event["event"] != "trial" or event["partner"] is None:
            return None
        two = event["environment"], event["partner"]
        return event["block"], event["workload"], *(two[::-1] if swapped else two)
    except (ValueError, KeyError, TypeError):
        return None


def now_ns() -> int:
    """Wall clock, nanoseconds since 1970."""
    return time.time_ns()
