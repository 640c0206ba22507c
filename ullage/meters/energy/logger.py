"""Loggers: processes of their own that read a meter until they are told to stop.

`python -m ullage.meters.energy.logger` is such a process. It is given its task on standard input
and tells on standard output, in one line, how it began. While it lives it holds the lock of its
name.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Final

from pydantic import BaseModel, ConfigDict, ValidationError

from ullage.common import errors
from ullage.common.errors import (
    ENERGY_FILE_EXISTS,
    ENERGY_LOGGER_FAILED,
    ENERGY_LOGGER_RUNS,
    FILE_FAILED,
    ErrorKind,
    UllageError,
)
from ullage.common.files import put
from ullage.host import claims, paths
from ullage.meters import energy
from ullage.meters.energy.base import READ_DEADLINE_S, PlannedMeter
from ullage.meters.energy.recorder import OPEN_DEADLINE_S, Recorder
from ullage.runs.writer import now_ns

START_DEADLINE_S: Final = 3 * OPEN_DEADLINE_S
STOP_DEADLINE_S: Final = 12 * READ_DEADLINE_S
_FOLDER: Final = "meters"
_LOOK_S: Final = 1.0
_KINDS: Final = {kind.code: kind for kind in vars(errors).values() if isinstance(kind, ErrorKind)}


class Logger(BaseModel):
    """What is known of a logger, in the state directory: also after it has died."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    meter: str
    file: Path
    every_s: float
    pid: int
    start_time: int
    """Field 22 of /proc/PID/stat, so that a reused process id is not taken for it."""
    boot_id: str
    epoch_ns: int
    """When it began."""
    inode: int | None = None
    """Of the file that it opened: another of that name is not what it writes."""
    ended: str | None = None
    """Why it ended, when it was not told to and could still say so."""

    @property
    def alive(self) -> bool:
        """True while that very process runs."""
        return (
            self.boot_id == claims.boot_id()
            and claims.process_start_time(self.pid) == self.start_time
        )

    @property
    def file_gone(self) -> bool:
        """True when what it writes is found there no more: removed, moved, or another in place."""
        try:
            return self.inode not in {None, self.file.stat().st_ino}
        except OSError:
            return True

    @property
    def since(self) -> str:
        """When it began, UTC."""
        return datetime.fromtimestamp(self.epoch_ns / 1e9, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def find(name: str) -> Logger | None:
    """The logger of that name, alive or dead; None: there is none."""
    try:
        return Logger.model_validate_json(_state(name).read_bytes())
    except (OSError, ValidationError):
        return None


def loggers() -> list[Logger]:
    """All of this host's user, by name; those that died too."""
    states = [find(file.stem) for file in sorted(_folder().glob("*.json"))]
    return [state for state in states if state is not None]


def start(name: str, planned: PlannedMeter, file: Path) -> Logger:
    """Start one, and wait until its first line is written.

    ENERGY_LOGGER_RUNS, ENERGY_FILE_EXISTS, ENERGY_LOGGER_FAILED, and what `open` of the meter says.
    """
    task = {
        "name": name,
        "meter": planned.kind.name,
        "options": planned.options.model_dump(mode="json"),
        "file": str(file),
    }
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "ullage.meters.energy.logger"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        with contextlib.suppress(BrokenPipeError), process.stdin as stream:
            stream.write(json.dumps(task).encode())
        answer = _line(process.stdout)
    except BaseException:
        process.kill()
        process.wait()
        raise
    if answer is None:
        process.kill()
        words = process.stderr.read().decode(errors="replace").split("\n")[-2:]
        process.wait()
        raise UllageError(
            ENERGY_LOGGER_FAILED, name=name, what=f"did not begin: {words[0][:500]}", file=file
        )
    process.stderr.close()
    if "error" in answer:
        process.wait()
        raise UllageError(_KINDS[answer["error"]], **answer["facts"])
    return Logger.model_validate(answer)


def stop(logger: Logger) -> bool:
    """End one in order, and forget it; False when it had died before. ENERGY_LOGGER_FAILED."""
    alive = _end(logger)
    _state(logger.name).unlink(missing_ok=True)
    return alive


def _end(logger: Logger) -> bool:
    try:
        handle = os.pidfd_open(logger.pid)
    except ProcessLookupError:
        return False
    try:
        if not logger.alive:
            return False
        signal.pidfd_send_signal(handle, signal.SIGTERM)
        ready, _, _ = select.select([handle], [], [], STOP_DEADLINE_S)
    finally:
        os.close(handle)
    if not ready:
        raise UllageError(
            ENERGY_LOGGER_FAILED,
            name=logger.name,
            what=f"(process {logger.pid}) does not end",
            file=logger.file,
        )
    return True


def _line(stream: IO[bytes]) -> dict[str, Any] | None:
    """What it tells of its beginning; None: nothing in time."""
    ready, _, _ = select.select([stream], [], [], START_DEADLINE_S)
    with stream:
        line = stream.readline() if ready else b""
    return json.loads(line) if line else None


def _folder() -> Path:
    return paths.state_root() / _FOLDER


def _state(name: str) -> Path:
    return _folder() / f"{name}.json"


def main() -> None:
    """Read the task, begin, say so, and go on until told to stop."""
    ending = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: ending.set())
    task = json.load(sys.stdin)
    try:
        with _hold_name(task["name"], task["file"]):
            recorder, logger = _start_recorder(task)
            _print_message(logger.model_dump(mode="json"))
            _detach()
            while not ending.wait(_LOOK_S) and not recorder.ended:
                pass
            recorder.stop()
            if recorder.failed is not None:
                ended = logger.model_copy(update={"ended": str(recorder.failed)})
                put(_state(logger.name), ended.model_dump_json().encode())
    except UllageError as error:
        facts = {name: str(fact) for name, fact in error.facts.items()}
        _print_message({"error": error.code, "facts": facts})


def _start_recorder(task: dict[str, Any]) -> tuple[Recorder, Logger]:
    """The meter is read, and the state says so."""
    file = Path(task["file"])
    kind = next(kind for kind in energy.ENERGY_METERS if kind.name == task["meter"])
    options = kind.Options.model_validate(task["options"])
    if file.exists():
        raise UllageError(ENERGY_FILE_EXISTS, file=file)
    recorder = Recorder(kind(options), task["name"], paths.new_tag(), file, options.every, new=True)
    try:
        recorder.start()
    except FileExistsError:
        raise UllageError(ENERGY_FILE_EXISTS, file=file) from None
    except OSError as error:
        raise UllageError(FILE_FAILED, file=file, reason=error.strerror) from error
    logger = Logger(
        name=task["name"],
        meter=kind.name,
        file=file,
        every_s=options.every,
        pid=os.getpid(),
        start_time=claims.process_start_time(os.getpid()) or 0,
        boot_id=claims.boot_id(),
        epoch_ns=now_ns(),
        inode=file.stat().st_ino,
    )
    put(_state(logger.name), logger.model_dump_json().encode())
    return recorder, logger


@contextlib.contextmanager
def _hold_name(name: str, file: str) -> Iterator[None]:
    """Hold the name; the kernel gives it free with the process. ENERGY_LOGGER_RUNS."""
    _folder().mkdir(mode=0o700, parents=True, exist_ok=True)
    with _state(name).with_suffix(".lock").open("wb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            running = find(name)
            raise UllageError(
                ENERGY_LOGGER_RUNS,
                name=name,
                since=running.since if running else "just now",
                file=running.file if running else file,
            ) from None
        yield


def _print_message(message: dict[str, Any]) -> None:
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()


def _detach() -> None:
    """Whoever started us is not kept waiting, and a full pipe does not keep us."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    os.close(nowhere)


if __name__ == "__main__":
    main()
