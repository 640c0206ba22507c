"""Who owns a run's tag: the process that works on the run, found alive or dead by whoever looks.

A claim is a lock on a file, which the kernel drops with the process, in a directory that nobody but
its user can write or read: nobody hides what is another's. Files are the same from every network
namespace and every terminal. The file says which process it is, for a child that has inherited the
lock and outlived it.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import fcntl
import json
import os
import pwd
import stat
import struct
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from ullage.common.errors import RUN_IN_USE, UllageError
from ullage.host.paths import TAG, check_tag, data_dir, state_dir, state_root

_CONTROLLER: Final = "controller.json"
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_START_TIME_FIELD: Final = 22
_MAX_CONTROLLER_BYTES: Final = 64 * 1024
_FLOCK: Final = struct.Struct("@hhqqi0q")
"""`struct flock` of fcntl(2): type, whence, start, length, process id."""

_claimed: Final[dict[str, int]] = {}
"""Tag → descriptor that holds the lock, of this process."""


@dataclass(frozen=True)
class ControllerProcess:
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


def claim(tag: str, run: str | Path) -> ControllerProcess:
    """Make this process the controller of the tag: private directories, with its name in them.

    The claim ends with the process. RUN_IN_USE when another process holds it.
    """
    controller = ControllerProcess(
        pid=os.getpid(),
        start_time=process_start_time(os.getpid()) or 0,
        boot_id=boot_id(),
        run=str(run),
    )
    if tag not in _claimed:
        _claimed[tag] = _hold(tag, controller)
        atexit.register(_let_go, tag, os.getpid())
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


def lives(tag: str, uid: int | None = None) -> bool:
    """Does a controller of the tag live, wherever it keeps its state?

    uid: whose it is, and so whose claim counts; None: our own.
    """
    owner = controller(tag)
    if owner is not None and owner.alive:
        return True
    uid = os.geteuid() if uid is None else uid
    return any(_is_held(directory / check_tag(tag), uid) for directory in _places(uid))


def forget_dead() -> None:
    """Remove our own claims whose processes are gone."""
    for directory in _places(os.geteuid()):
        with contextlib.suppress(OSError):
            for path in [path for path in directory.iterdir() if TAG.fullmatch(path.name)]:
                with contextlib.suppress(OSError):
                    _remove_unheld(path)


def living(but: str) -> list[str]:
    """Run folders that other controllers work on here now; `but` is the tag of our own."""
    root = state_root()
    tags = (
        [path.name for path in root.iterdir() if TAG.fullmatch(path.name)] if root.is_dir() else []
    )
    owners = [controller(tag) for tag in sorted(tags) if tag != but]
    return [owner.run for owner in owners if owner is not None and owner.alive]


def controller(tag: str) -> ControllerProcess | None:
    """Who claimed the tag; None when nobody did or the file cannot be understood."""
    try:
        with (state_dir(tag) / _CONTROLLER).open("rb") as file:
            return _controller(file.read(_MAX_CONTROLLER_BYTES))
    except OSError:
        return None


def _controller(text: bytes) -> ControllerProcess | None:
    try:
        fields = json.loads(text)
        return ControllerProcess(
            pid=int(fields["pid"]),
            start_time=int(fields["start_time"]),
            boot_id=str(fields["boot_id"]),
            run=str(fields["run"]),
        )
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None


def _places(uid: int) -> Iterator[Path]:
    """Where a user's claims are, in the order in which they are tried.

    The same for whoever asks, so nobody's environment counts but our own, at last. A home outlasts
    what logind makes.
    """
    if uid == 0:
        yield Path("/run/ullage/claims")
    else:
        with contextlib.suppress(KeyError):
            yield Path(pwd.getpwuid(uid).pw_dir) / ".local/state/ullage/claims"
        yield Path(f"/run/user/{uid}/ullage/claims")
    if uid == os.geteuid():
        yield state_root() / "claims"


def _hold(tag: str, controller: ControllerProcess) -> int:
    """The descriptor of the locked file."""
    fd, path = _open_first(tag)
    if not _lock(fd) or not _is_still(fd, path):
        os.close(fd)
        raise UllageError(RUN_IN_USE, path=controller.run)
    os.ftruncate(fd, 0)
    os.pwrite(fd, json.dumps({**asdict(controller), "pids": _pid_namespace()}).encode(), 0)
    return fd


def _open_first(tag: str) -> tuple[int, Path]:
    """The file of the claim in the first place where it can be made: ours, and nobody else's."""
    places = list(_places(os.geteuid()))
    for place in places:
        try:
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
            place.chmod(0o700)
            path = place / check_tag(tag)
            return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), path
        except OSError:
            if place == places[-1]:
                raise
    raise AssertionError  # there is a last one


def _lock(fd: int) -> bool:
    """Lock it for good, unless another has: by the open file, so no other use of it unlocks."""
    try:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EAGAIN):
            return False
        raise
    return True


def _is_still(fd: int, path: Path) -> bool:
    """Is it the file of that name, and not one that was removed meanwhile?"""
    try:
        return os.path.samestat(os.fstat(fd), path.lstat())
    except FileNotFoundError:
        return False


def _is_held(path: Path, uid: int) -> bool:
    """Is it locked, by the process that it names or one that we cannot see?"""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != uid:
            return False
        request = _FLOCK.pack(fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0)
        (kind, *_) = _FLOCK.unpack(fcntl.fcntl(fd, fcntl.F_OFD_GETLK, request))
        if kind == fcntl.F_UNLCK:
            return False
        text = os.pread(fd, _MAX_CONTROLLER_BYTES, 0)
    finally:
        os.close(fd)
    owner = _controller(text)
    return owner is None or owner.alive or json.loads(text).get("pids") != _pid_namespace()


def _pid_namespace() -> str:
    """A process id means nothing in another PID namespace."""
    return str(Path("/proc/self/ns/pid").readlink())


def _let_go(tag: str, pid: int) -> None:
    """At the end of the process that made the claim, and not of what it forked."""
    if os.getpid() != pid:
        return
    fd = _claimed.pop(tag)
    for directory in _places(os.geteuid()):
        with contextlib.suppress(OSError):
            if _is_still(fd, directory / tag):
                (directory / tag).unlink()
    os.close(fd)


def _remove_unheld(path: Path) -> None:
    fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if _lock(fd) and _is_still(fd, path):
            path.unlink()
    finally:
        os.close(fd)


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
