"""Who owns a run's tag: the process that works on the run, found alive or dead by whoever looks."""

from __future__ import annotations

import json
import os
import socket
import uuid
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from ullage.common.errors import RUN_IN_USE, UllageError
from ullage.host.paths import TAG, check_tag, data_dir, state_dir, state_root

_CONTROLLER: Final = "controller.json"
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_START_TIME_FIELD: Final = 22
_MAX_CONTROLLER_BYTES: Final = 64 * 1024
_UNIX_SOCKETS: Final = Path("/proc/net/unix")

_claimed: Final[dict[str, socket.socket]] = {}


@dataclass(frozen=True)
class Controller:
    """The process that works on a run, named so that a reused process id is not taken for it."""

    pid: int
    start_time: int
    """Field 22 of /proc/PID/stat: clock ticks since boot."""
    boot_id: str
    run: str
    """Path of the run folder."""

    @property
    def alive(self) -> bool:
        """True while that very process runs."""
        return self.boot_id == boot_id() and process_start_time(self.pid) == self.start_time


def claim(tag: str, run: str | Path) -> Controller:
    """Make this process the controller of the tag: private directories, with its name in them.

    The claim ends with the process. RUN_IN_USE when another process holds it.
    """
    if tag not in _claimed:
        _claimed[tag] = _hold(tag, run)
    controller = Controller(
        pid=os.getpid(),
        start_time=process_start_time(os.getpid()) or 0,
        boot_id=boot_id(),
        run=str(run),
    )
    for directory in (state_dir(tag), data_dir(tag)):
        directory.mkdir(parents=True, exist_ok=True)
        directory.chmod(0o700)
    path = state_dir(tag) / _CONTROLLER
    unfinished = path.with_suffix(".new")
    unfinished.write_text(json.dumps(asdict(controller)), encoding="utf-8")
    unfinished.replace(path)
    return controller


def claimed_here(tag: str) -> bool:
    """Is this very process the controller of the tag?"""
    return tag in _claimed


def lives(tag: str) -> bool:
    """Does a controller of the tag live, whoever's it is and wherever it keeps its state?"""
    owner = controller(tag)
    if owner is not None and owner.alive:
        return True
    address = f"@{_socket_name(tag)}"
    lines = _UNIX_SOCKETS.read_text(encoding="utf-8", errors="replace").splitlines()
    return any(line.endswith(f" {address}") for line in lines)


def living(but: str) -> list[str]:
    """Run folders that other controllers work on here now; `but` is the tag of our own."""
    root = state_root()
    tags = (
        [path.name for path in root.iterdir() if TAG.fullmatch(path.name)] if root.is_dir() else []
    )
    owners = [controller(tag) for tag in sorted(tags) if tag != but]
    return [owner.run for owner in owners if owner is not None and owner.alive]


def controller(tag: str) -> Controller | None:
    """Who claimed the tag; None when nobody did or the file cannot be understood."""
    try:
        with (state_dir(tag) / _CONTROLLER).open("rb") as file:
            fields = json.loads(file.read(_MAX_CONTROLLER_BYTES))
        return Controller(
            pid=int(fields["pid"]),
            start_time=int(fields["start_time"]),
            boot_id=str(fields["boot_id"]),
            run=str(fields["run"]),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _hold(tag: str, run: str | Path) -> socket.socket:
    """A socket in the abstract namespace: seen by all users, and gone with its process."""
    claim_socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        claim_socket.bind(f"\0{_socket_name(tag)}")
    except OSError as error:
        claim_socket.close()
        owner = controller(tag)
        pid = owner.pid if owner is not None else "unknown"
        raise UllageError(RUN_IN_USE, pid=pid, path=run) from error
    return claim_socket


def _socket_name(tag: str) -> str:
    return f"ullage/{check_tag(tag)}"


def boot_id() -> str:
    """Names this boot of the kernel."""
    return _BOOT_ID.read_text(encoding="ascii").strip()


def boot_id_seen_by(pids: Iterable[int]) -> str | None:
    """The same as a process of this kernel sees it: LXC mounts another over it for each container.

    None when none of them can be asked.
    """
    for pid in pids:
        try:
            seen_id = Path(f"/proc/{pid}/root{_BOOT_ID}").read_bytes()[:64].decode("ascii").strip()
            return str(uuid.UUID(seen_id))
        except (OSError, ValueError):
            continue
    return None


def process_start_time(pid: int) -> int | None:
    """When the process started, in clock ticks since boot; None when it is gone or a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The name in parentheses may itself hold blanks and parentheses: count after the last one.
    fields = stat.rpartition(")")[2].split()
    if not fields or fields[0] in {"Z", "X"}:
        return None
    return int(fields[_START_TIME_FIELD - 3])
