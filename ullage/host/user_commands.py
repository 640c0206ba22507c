"""Instances that only commands of the user's can list and remove.

Each has a record until it is really gone, so that `ullage clean` can remove it after the worst of
deaths, and whoever must do it by hand is told how. A record lies beside the state of the runs and
is gone, like that, after a boot; of an instance on another machine it lies beside their data. All
functions wait; call them through `asyncio.to_thread` from a loop.
"""

from __future__ import annotations

import os
import re
import selectors
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ullage.common.commands import tail
from ullage.common.errors import INSTANCE_NOT_REMOVED, UllageError
from ullage.common.files import put
from ullage.common.quantities import format_bytes
from ullage.common.regular import open_regular
from ullage.host import paths

_FOLDER: Final = "commands"
_MODULE: Final = re.compile(r"(-W \S+ )?-m ullage(\.\S+)?( .*)?")
_PATIENCE_S: Final = 20.0
_AGAIN_S: Final = 1.0
_LONGEST: Final = 64 << 10
_LONGEST_NAMES: Final = 16 << 20
_PIECE: Final = 1 << 16


class Removal(BaseModel):
    """How one instance is looked for and removed: argument lists, ready to run."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tag: str
    name: str
    """What the platform calls it."""
    listing: tuple[str, ...]
    destroy: tuple[tuple[str, ...], ...]
    deadline_s: float
    """For each command."""
    lasting: bool = Field(False, exclude_if=lambda lasting: not lasting)
    """It outlives a boot of this host, and so must this record."""
    may_come_until: float | None = Field(None, exclude_if=lambda until: until is None)
    """Its platform may still carry out a request to make it that nobody has answered: until then,
    by the wall clock. None: nothing comes any more."""

    @property
    def path(self) -> Path:
        return _folder(self.lasting) / f"{paths.check_tag(self.tag)}.{self.name}.json"

    @property
    def may_come(self) -> bool:
        """May there still be one that nobody has seen yet?"""
        return self.may_come_until is not None and time.time() < self.may_come_until

    @property
    def by_hand(self) -> str:
        """What to type."""
        return " && ".join(shlex.join(argv) for argv in self.destroy)


def module(name: str) -> tuple[str, ...]:
    """Runs a module of ours, which its own package has loaded already: what Python says of that
    would be the first words of a failure."""
    return sys.executable, "-W", "ignore::RuntimeWarning:runpy", "-m", name


def keep(removal: Removal) -> None:
    """Write its record: before anything of the instance is made."""
    removal.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    put(removal.path, removal.model_dump_json().encode())
    if removal.lasting:
        _sync(removal.path.parent)


def records() -> Iterator[Removal]:
    """Those of our own that can be understood. What another user wrote is never run."""
    for path in sorted(
        path for lasting in (False, True) for path in _folder(lasting).glob("*.json")
    ):
        with suppress(OSError, ValidationError, ValueError):
            removal = Removal.model_validate_json(_own_text(path))
            if removal.path == path:
                yield removal


def names(listing: Sequence[str], deadline_s: float) -> set[str]:
    """The last part of each line that the command prints: `pod/NAME` is NAME."""
    return {line.strip().rpartition("/")[2] for line in _run(listing, deadline_s).splitlines()}


def remove(removal: Removal) -> None:
    """Run its commands, see that it is gone, and forget it. INSTANCE_NOT_REMOVED.

    What a command says of something that is gone already is no failure. A platform that is still
    busy with what a killed run began is asked again; of one that may still come the record stays.
    """
    deadline = time.monotonic() + _PATIENCE_S
    while (reason := _why_still_there(removal)) is not None:
        if time.monotonic() > deadline:
            raise UllageError(
                INSTANCE_NOT_REMOVED, name=removal.name, reason=reason, command=removal.by_hand
            )
        time.sleep(_AGAIN_S)
    if removal.may_come_until is not None and removal.may_come:
        left_s = removal.may_come_until - time.time()
        raise UllageError(
            INSTANCE_NOT_REMOVED,
            name=removal.name,
            reason=f"its platform may still make it; look again in {left_s:.0f} s",
            command=removal.by_hand,
        )
    forget(removal)


def forget(removal: Removal) -> None:
    """It is gone: nothing is to be removed any more."""
    removal.path.unlink(missing_ok=True)


def _why_still_there(removal: Removal) -> str | None:
    reason = f"`{removal.listing[0]}` still lists it"
    for argv in removal.destroy:
        try:
            _run(argv, removal.deadline_s)
        except (OSError, subprocess.SubprocessError) as error:
            reason = str(error)
    try:
        there = removal.name in names(removal.listing, removal.deadline_s)
    except (OSError, subprocess.SubprocessError) as error:
        return f"nobody can tell whether it is gone: {error}"
    return reason if there else None


def _folder(lasting: bool) -> Path:
    return (paths.data_root() if lasting else paths.state_root()) / _FOLDER


def _sync(folder: Path) -> None:
    """What is in it is there after a loss of power too."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _own_text(path: Path) -> bytes:
    with open_regular(path, _LONGEST) as file:
        if os.fstat(file.fileno()).st_uid != os.geteuid():
            raise PermissionError(path)
        return file.read()


def _run(argv: Sequence[str], deadline_s: float) -> str:
    """What it prints. SubprocessError with the end of what it said when it fails or never ends."""
    with subprocess.Popen(
        _startable(argv),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        try:
            out, err = _read(process, deadline_s)
        finally:
            process.kill()  # it has ended already, or nobody reads it any more
    if process.returncode:
        last_words = tail(err.decode(errors="replace")) or f"exit status {process.returncode}"
        raise subprocess.SubprocessError(f"{argv[0]}: {last_words}")
    return out.decode(errors="replace")


def _startable(argv: Sequence[str]) -> Sequence[str]:
    """By our own Python, where the ullage that wrote a command of its own has been moved away."""
    own = _MODULE.fullmatch(" ".join(argv[1:5])) is not None
    return (sys.executable, *argv[1:]) if own and not Path(argv[0]).exists() else argv


def _read(process: subprocess.Popen[bytes], deadline_s: float) -> tuple[bytes, bytes]:
    """All of its output, and the end of its messages: neither is kept to any length."""
    until = time.monotonic() + deadline_s
    assert process.stdout is not None and process.stderr is not None
    out, err = bytearray(), bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ, out)
        selector.register(process.stderr, selectors.EVENT_READ, err)
        while selector.get_map():
            ready = selector.select(max(0.0, until - time.monotonic()))
            if not ready:
                raise subprocess.TimeoutExpired(process.args, deadline_s)
            for key, _ in ready:
                piece = os.read(key.fd, _PIECE)
                key.data.extend(piece)
                if not piece:
                    selector.unregister(key.fileobj)
            del err[:-_PIECE]
            if len(out) > _LONGEST_NAMES:
                most = format_bytes(_LONGEST_NAMES)
                raise subprocess.SubprocessError(f"it printed over {most}")
    process.wait(max(0.0, until - time.monotonic()))
    return bytes(out), bytes(err)
