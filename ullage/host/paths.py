"""Where ullage keeps its things, and who owns them.

Each run has a tag. Everything that a run makes outside its run folder carries the tag, so that
`ullage clean` can find it after the worst of deaths.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import socket
import uuid
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from ullage.common.errors import RUN_IN_USE, UllageError

TAG: Final = re.compile(r"u[0-9a-f]{7}")
"""A run's tag. Use `fullmatch`."""

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


def state_root() -> Path:
    """The directory above every run's state: in memory, gone after a boot."""
    if told := os.environ.get("ULLAGE_STATE_DIR"):
        return Path(told)
    if os.geteuid() == 0:
        return Path("/run/ullage")
    if runtime := os.environ.get("XDG_RUNTIME_DIR"):
        return Path(runtime) / "ullage"
    return _home("XDG_STATE_HOME", ".local/state") / "ullage" / "run"


def data_root() -> Path:
    """The directory above every run's data directories: on a real disk."""
    if told := os.environ.get("ULLAGE_DATA_DIR"):
        return Path(told)
    if os.geteuid() == 0:
        return Path("/var/lib/ullage/data")
    return _home("XDG_STATE_HOME", ".local/state") / "ullage" / "data"


def cache_dir() -> Path:
    """Where images and downloads are kept between runs."""
    if told := os.environ.get("ULLAGE_CACHE_DIR"):
        return Path(told)
    if os.geteuid() == 0:
        return Path("/var/cache/ullage")
    return _home("XDG_CACHE_HOME", ".cache") / "ullage"


def state_dir(tag: str) -> Path:
    """Sockets, configurations and console logs of one run; `claim` makes it."""
    return state_root() / check_tag(tag)


def data_dir(tag: str) -> Path:
    """Files that the workloads of one run read and write; `claim` makes it."""
    return data_root() / check_tag(tag)


def check_tag(tag: str) -> str:
    """The tag itself; ValueError when it is none, so that it can never be a path."""
    if not TAG.fullmatch(tag):
        raise ValueError(f"not a tag: {tag!r}")
    return tag


def new_tag() -> str:
    """A tag that no run on this host uses."""
    while True:
        tag = "u" + secrets.token_hex(4)[:7]
        if not state_dir(tag).exists() and not data_dir(tag).exists():
            return tag


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
    found = controller(tag)
    if found is not None and found.alive:
        return True
    held = f"@{_socket_name(tag)}"
    lines = _UNIX_SOCKETS.read_text(encoding="utf-8", errors="replace").splitlines()
    return any(line.endswith(f" {held}") for line in lines)


def living(but: str) -> list[str]:
    """Run folders that other controllers work on here now; `but` is the tag of our own."""
    root = state_root()
    tags = (
        [path.name for path in root.iterdir() if TAG.fullmatch(path.name)] if root.is_dir() else []
    )
    found = [controller(tag) for tag in sorted(tags) if tag != but]
    return [each.run for each in found if each is not None and each.alive]


def controller(tag: str) -> Controller | None:
    """Who claimed the tag; None when nobody did or the file cannot be understood."""
    try:
        with (state_dir(tag) / _CONTROLLER).open("rb") as file:
            found = json.loads(file.read(_MAX_CONTROLLER_BYTES))
        return Controller(
            pid=int(found["pid"]),
            start_time=int(found["start_time"]),
            boot_id=str(found["boot_id"]),
            run=str(found["run"]),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _hold(tag: str, run: str | Path) -> socket.socket:
    """A socket in the abstract namespace: seen by all users, and gone with its process."""
    held = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        held.bind(f"\0{_socket_name(tag)}")
    except OSError as error:
        held.close()
        found = controller(tag)
        pid = found.pid if found is not None else "unknown"
        raise UllageError(RUN_IN_USE, pid=pid, path=run) from error
    return held


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
            said = Path(f"/proc/{pid}/root{_BOOT_ID}").read_bytes()[:64].decode("ascii").strip()
            return str(uuid.UUID(said))
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


def _home(variable: str, otherwise: str) -> Path:
    return Path(os.environ.get(variable) or Path.home() / otherwise)
