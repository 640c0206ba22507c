"""Control groups, version 1, version 2 or both at once: limits, freezer, kill.

What is mounted where is read from /proc/self/mountinfo and never assumed. A group is one path,
`/ullage/TAG/NAME`, in every hierarchy that it needs; other runtimes are given the same path, so
that the freezer and `ullage clean` find what they made.
Sources: Documentation/admin-guide/cgroup-v1/*.rst and cgroup-v2.rst of the Linux kernel.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import re
import signal
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ullage.common import commands, errors
from ullage.common.errors import UllageError
from ullage.common.text import unescape
from ullage.host.paths import TAG, check_tag

ROOT: Final = "ullage"
"""The directory of all our groups in each hierarchy."""

_MOUNTINFO: Final = Path("/proc/self/mountinfo")
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._~-]{0,63}")
_CONTROLLERS: Final = frozenset({"cpu", "cpuset", "memory", "freezer"})
_PERIOD_US: Final = 100_000
_UNLIMITED_BYTES: Final = 1 << 62
"""Version 1 says no limit by a number as large as it goes."""
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_PATIENCE_S: Final = 10.0
_SHORT_POLL_S: Final = 0.0001
_SHORT_POLLS: Final = 10
_CAME_BACK: Final = "workingset_refault_anon"
"""Pages that were swapped and are needed again; `pswpin` is in newer kernels of version 2 only."""
_IN_USE: Final = {errno.EBUSY, errno.ENOTEMPTY}
_GONE: Final = {errno.ENOENT, errno.ENODEV}
_SHORT: Final = {errno.EMFILE, errno.ENFILE, errno.ENOMEM}
"""Without descriptors nothing can be seen, which does not mean that nothing is there."""
_TRIES: Final = 10
_V1_STATES: Final = {True: "FROZEN", False: "THAWED"}
_STATE_BYTES: Final = 4096


@dataclass(frozen=True)
class Hierarchy:
    """One mounted cgroup tree."""

    path: Path
    version: int
    controllers: frozenset[str]
    """Those of `cpu`, `cpuset`, `memory`, `freezer` that it can use."""


@dataclass(frozen=True)
class Limits:
    """What the processes of a group may use; None: as much as there is."""

    cpu_ids: tuple[int, ...] | None = None
    cpu_quota: float | None = None
    """CPUs' worth of time in each period of 100 ms."""
    memory_bytes: int | None = None

    @property
    def controllers(self) -> set[str]:
        """What is needed to set them."""
        limits = {"cpuset": self.cpu_ids, "cpu": self.cpu_quota, "memory": self.memory_bytes}
        return {controller for controller, limit in limits.items() if limit is not None}


def hierarchies() -> list[Hierarchy]:
    """All cgroup trees of this host, each once."""
    trees: dict[str, Hierarchy] = {}
    for line in _MOUNTINFO.read_text(encoding="utf-8").splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split()
        device, path = fields[2], Path(unescape(fields[4]))
        kind, options = after.split()[0], after.split()[-1]
        if kind == "cgroup2":
            trees.setdefault(device, Hierarchy(path, 2, _v2_controllers(path)))
        elif kind == "cgroup":
            controllers = frozenset(options.split(",")) & _CONTROLLERS
            trees.setdefault(device, Hierarchy(path, 1, controllers))
    return list(trees.values())


def available() -> set[str]:
    """The controllers that can be used here: of `cpu`, `cpuset`, `memory`, `freezer`."""
    return {name for hierarchy in hierarchies() for name in hierarchy.controllers}


def cgroup_path(tag: str, name: str) -> str:
    """The path of a group below the root of each hierarchy, to hand to other runtimes."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"not a name: {name!r}")
    return f"/{ROOT}/{check_tag(tag)}/{name}"


def tags() -> set[str]:
    """The tags that have a group somewhere."""
    roots = [hierarchy.path / ROOT for hierarchy in hierarchies()]
    return {
        place.name
        for root in roots
        if root.is_dir()
        for place in root.iterdir()
        if TAG.fullmatch(place.name)
    }


class Group:
    """One group, in every hierarchy where it exists; with the groups below it."""

    def __init__(self, path: str, places: Sequence[tuple[Hierarchy, Path]]) -> None:
        self.path = path
        self._places = list(places)
        self._switch: _Switch | None = None

    @classmethod
    def create(cls, tag: str, name: str, limits: Limits) -> Group:
        """Make the group and set its limits.

        Root's is always one to the CPU scheduler too, as a container is: on a busy host each of
        its processes would else have a share of its own. CGROUP_MISSING when the host lacks a
        controller that a limit or the freezer needs, CGROUP_DENIED when the kernel refuses. Nothing
        is left behind then.
        """
        group = cls(cgroup_path(tag, name), [])
        needed = {"freezer", *limits.controllers}
        if os.geteuid() == 0:
            needed |= {"cpu"} & available()
        try:
            # Version 1 first: where both can freeze, other runtimes use the old freezer.
            for hierarchy in sorted(hierarchies(), key=lambda h: h.version):
                controllers = needed & hierarchy.controllers
                needed -= controllers
                if controllers:
                    place = hierarchy.path / group.path.lstrip("/")
                    group._places.append((hierarchy, place))
                    _make(hierarchy, place, controllers)
            if needed:
                raise UllageError(errors.CGROUP_MISSING, controller=", ".join(sorted(needed)))
            group._limit(limits)
        except UllageError:
            group.remove_once()
            raise
        return group

    @classmethod
    def find(cls, tag: str, name: str | None = None) -> Group:
        """The group as it is now, whoever made it; without a name all groups of the tag.

        It may be nowhere: then it has no processes, and there is nothing to remove.
        """
        path = f"/{ROOT}/{check_tag(tag)}" if name is None else cgroup_path(tag, name)
        places = [(h, h.path / path.lstrip("/")) for h in hierarchies()]
        return cls(path, [(h, place) for h, place in places if place.is_dir()])

    @property
    def directories(self) -> list[Path]:
        """Where it is; a process that writes itself to `cgroup.procs` of each has joined."""
        return [place for _, place in self._places]

    def pids(self) -> set[int]:
        """The processes in it and in the groups below it."""
        pids: set[int] = set()
        for directory in self._every_directory():
            try:
                pids.update(map(int, (directory / "cgroup.procs").read_text().split()))
            except OSError as error:  # a directory that has just gone has no processes
                _raise_if_short(error)
        return pids

    def holds(self, pid: int) -> bool:
        """True when the process itself is in it, wherever it is."""
        for place in self.directories:
            try:
                if str(pid) not in (place / "cgroup.procs").read_text().split():
                    return False
            except OSError:
                return False
        return bool(self._places)

    def limits(self) -> Limits:
        """The limits that the kernel says it has."""
        cpus = self._setting("cpuset", "cpuset.effective_cpus", "cpuset.cpus.effective")
        quota = self._setting("cpu", "cpu.cfs_quota_us", "cpu.max").split()
        period = self._setting("cpu", "cpu.cfs_period_us", "cpu.max").split()
        memory = self._setting("memory", "memory.limit_in_bytes", "memory.max")
        return Limits(
            cpu_ids=_cpu_list(cpus) if cpus else None,
            cpu_quota=int(quota[0]) / int(period[-1]) if quota and quota[0].isdecimal() else None,
            memory_bytes=int(memory)
            if memory.isdecimal() and int(memory) < _UNLIMITED_BYTES
            else None,
        )

    def allow_swap(self, memory_bytes: int, swap_bytes: int) -> int | None:
        """Let it have so much memory and so much swap: the limit of both that it has then.

        What it has in memory beyond that is swapped now. None: there is no limit. CGROUP_DENIED.
        """
        for hierarchy, place in self._places:
            both, swap = place / "memory.memsw.limit_in_bytes", place / "memory.swap.max"
            # First where it may go, then what it may keep.
            if hierarchy.version == 1 and both.exists():
                _write(both, str(memory_bytes + swap_bytes))
                _write(place / "memory.limit_in_bytes", str(memory_bytes))
            elif swap.exists():
                _write(swap, str(swap_bytes))
                _shrink(place, memory_bytes)
        both_now = self._setting("memory", "memory.memsw.limit_in_bytes", "memory.swap.max")
        if not both_now.isdecimal() or int(both_now) >= _UNLIMITED_BYTES:
            return None
        memory = self.limits().memory_bytes
        v2 = any(h.version == 2 and "memory" in h.controllers for h, _ in self._places)
        return int(both_now) + (memory or 0 if v2 else 0)

    def swapped_bytes(self) -> int | None:
        """What of its memory is in swap now; None: it may not swap, or the kernel does not tell."""
        stat = _counts(self._setting("memory", "memory.stat", "memory.stat"))
        if "hierarchical_memsw_limit" in stat:
            able = stat["hierarchical_memsw_limit"] > stat["hierarchical_memory_limit"]
            return stat["total_swap"] if able else None
        most = self._setting("memory", "memory.swap.max", "memory.swap.max")
        swapped = self._setting("memory", "memory.swap.current", "memory.swap.current")
        return int(swapped) if most != "0" and swapped.isdecimal() else None

    def returned_bytes(self) -> int | None:
        """What came back from swap since it was made, each page each time; None: not told."""
        stat = _counts(self._setting("memory", "memory.stat", "memory.stat"))
        # Version 1 tells of the group alone and, as version 2 does, with those below it.
        pages = stat.get(f"total_{_CAME_BACK}", stat.get(_CAME_BACK))
        return None if pages is None else pages * _PAGE_BYTES

    def memory_kills(self) -> int:
        """How many processes the kernel has killed in it, as its memory ran out; 0: not told."""
        text = self._setting("memory", "memory.oom_control", "memory.events")
        return _counts(text).get("oom_kill", 0)

    def _setting(self, controller: str, v1: str, v2: str) -> str:
        """What a file of the controller says; nothing where there is no such file."""
        for hierarchy, place in self._places:
            if controller in hierarchy.controllers:
                file = place / (v1 if hierarchy.version == 1 else v2)
                if file.is_file():
                    return _read(file).strip()
        return ""

    async def freeze(self) -> None:
        """Stop every process in it; CGROUP_STUCK when one does not stop, and then all run on."""
        try:
            await self._set_frozen(True)
        except BaseException:
            if self._switch is not None:
                with contextlib.suppress(UllageError):
                    self._switch.turn(False)
            raise

    async def thaw(self) -> None:
        """Let them run on."""
        await self._set_frozen(False)

    async def kill_all(self) -> None:
        """Kill every process in it, frozen or not; CGROUP_STUCK when one does not die."""
        await _until(self.kill_once, self.path, "empty of processes")

    async def remove(self) -> None:
        """Remove it, the groups below it, and the parents that are empty then.

        Its processes must be gone. CGROUP_STUCK when the kernel does not let it go.
        """
        await _until(self.remove_once, self.path, "removable")

    def _limit(self, limits: Limits) -> None:
        for hierarchy, place in self._places:
            v1 = hierarchy.version == 1
            if limits.cpu_ids is not None and "cpuset" in hierarchy.controllers:
                _write(place / "cpuset.cpus", ",".join(map(str, limits.cpu_ids)))
            if limits.cpu_quota is not None and "cpu" in hierarchy.controllers:
                quota_us = round(limits.cpu_quota * _PERIOD_US)
                if v1:
                    _write(place / "cpu.cfs_period_us", str(_PERIOD_US))
                    _write(place / "cpu.cfs_quota_us", str(quota_us))
                else:
                    _write(place / "cpu.max", f"{quota_us} {_PERIOD_US}")
            if limits.memory_bytes is not None and "memory" in hierarchy.controllers:
                _limit_memory(place, v1, limits.memory_bytes)

    def _freezer(self) -> tuple[Hierarchy, Path]:
        """The place whose freezer holds the processes; the old one where there are both."""
        able = [(h, place) for h, place in self._places if "freezer" in h.controllers]
        if not able:
            raise UllageError(errors.CGROUP_MISSING, controller="freezer")
        return min(able, key=lambda place: place[0].version)

    async def _set_frozen(self, frozen: bool) -> None:
        if self._switch is None:
            self._switch = _Switch(*self._freezer())
        switch = self._switch

        def reached() -> bool:
            if switch.hierarchy.version == 1:
                # A process that forks meanwhile can leave the group FREEZING until told again.
                switch.turn(frozen)
            return switch.is_(frozen)

        if switch.hierarchy.version == 2:
            switch.turn(frozen)
        await _until(reached, self.path, "frozen" if frozen else "thawed")

    def kill_once(self) -> bool:
        """Kill who is in it now; True when nobody was. `kill_all` does it until then."""
        with _opened(directory / "freezer.state" for directory in self._every_directory()) as fds:
            try:
                if os.getpid() not in self.pids():
                    _try_each(fds, b"FROZEN")  # so that nobody forks faster than we kill
                with _opened(place / "cgroup.kill" for place in self.directories) as kills:
                    _try_each(kills, b"1")
                pids = self.pids() - {os.getpid()}
                for pid in pids:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            finally:
                _try_each(fds, b"THAWED")  # in version 1 the frozen die only then
        return not pids

    def remove_once(self) -> bool:
        """Remove what can be removed now; True when nothing is left. See `remove`."""
        gone = True
        for directory in self._every_directory():
            try:
                directory.rmdir()
            except FileNotFoundError:
                continue
            except OSError as error:
                if error.errno not in _IN_USE:
                    raise _denied("removal", directory, error) from error
                gone = False
        for hierarchy, place in self._places if gone else ():
            _remove_empty_parents(hierarchy, place)
        return gone

    def _every_directory(self) -> list[Path]:
        """The group's directories and all below, the deepest first."""
        directories: list[Path] = []
        unread = [place for place in self.directories if place.is_dir()]
        while unread:  # not by recursion: root inside may nest groups of its own as it likes
            directory = unread.pop()
            directories.append(directory)
            try:
                with os.scandir(directory) as entries:
                    unread += [
                        Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)
                    ]
            except OSError as error:
                _raise_if_short(error)
        return directories[::-1]


class _Switch:
    """The freezer of a group: its files stay open, so that who is frozen can always be thawed."""

    def __init__(self, hierarchy: Hierarchy, place: Path) -> None:
        self.hierarchy, self.place = hierarchy, place
        v1 = hierarchy.version == 1
        self._name = "freezer.state" if v1 else "cgroup.freeze"
        with contextlib.ExitStack() as undo:
            self._control = _open(place / self._name, os.O_RDWR)
            undo.callback(os.close, self._control)
            self._events = self._control if v1 else _open(place / "cgroup.events", os.O_RDONLY)
            undo.pop_all()
        for fd in {self._control, self._events}:
            weakref.finalize(self, os.close, fd)

    def turn(self, frozen: bool) -> None:
        """Tell the kernel; it may take a while."""
        text = _V1_STATES[frozen] if self.hierarchy.version == 1 else str(int(frozen))
        try:
            os.pwrite(self._control, text.encode(), 0)
        except OSError as error:
            raise _denied(f"{self._name} to {text}", self.place, error) from error

    def is_(self, frozen: bool) -> bool:
        """Has the kernel done it?"""
        try:
            text = os.pread(self._events, _STATE_BYTES, 0).decode("ascii", "replace")
        except OSError as error:
            raise _denied(self._name, self.place, error) from error
        if self.hierarchy.version == 1:
            return text.strip() == _V1_STATES[frozen]
        return f"frozen {int(frozen)}" in text.splitlines()


async def _until(reached: Callable[[], bool], path: str, state: str) -> None:
    """Look often at first, as most changes take microseconds, then ever less often."""
    began = time.monotonic()
    for _ in range(_SHORT_POLLS):
        if reached():
            return
        # The event loop's own timer is no finer than 1 ms; all of these together last as long.
        time.sleep(_SHORT_POLL_S)  # noqa: ASYNC251
    while not reached():
        waited_s = time.monotonic() - began
        if waited_s > _PATIENCE_S:
            raise UllageError(errors.CGROUP_STUCK, path=path, state=state, seconds=_PATIENCE_S)
        await asyncio.sleep(commands.poll_interval_s(waited_s))


def _make(hierarchy: Hierarchy, place: Path, controllers: set[str]) -> None:
    """Make the directory and its parents, ready for the wanted controllers.

    Another run that ends may remove a parent between that and its child: it was empty.
    """
    for _ in range(_TRIES - 1):
        try:
            return _make_once(hierarchy, place, controllers)
        except UllageError as error:
            if not (isinstance(error.__cause__, OSError) and error.__cause__.errno in _GONE):
                raise
    return _make_once(hierarchy, place, controllers)


def _make_once(hierarchy: Hierarchy, place: Path, controllers: set[str]) -> None:
    steps = [hierarchy.path]
    for part in place.relative_to(hierarchy.path).parts:
        parent, directory = steps[-1], steps[-1] / part
        if hierarchy.version == 2:
            _enable(parent, controllers - {"freezer"})
        try:
            directory.mkdir(exist_ok=True)
        except OSError as error:
            raise _denied("a group", directory, error) from error
        if hierarchy.version == 1 and "cpuset" in controllers:
            # An old cpuset is born empty, and nobody can enter it before both are set.
            for name in ("cpuset.cpus", "cpuset.mems"):
                if not _read(directory / name).strip():
                    _write(directory / name, _read(parent / name).strip())
            # Groups that a container engine makes below are born full then.
            _write(directory / "cgroup.clone_children", "1")
        steps.append(directory)


def _enable(parent: Path, controllers: set[str]) -> None:
    control = parent / "cgroup.subtree_control"
    missing = controllers - set(_read(control).split())
    if missing:
        _write(control, " ".join(f"+{name}" for name in sorted(missing)))


def _limit_memory(place: Path, v1: bool, size: int) -> None:
    """Memory and swap together: a workload that swaps measures the disk."""
    if not v1:
        _write(place / "memory.max", str(size))
        if (place / "memory.swap.max").exists():
            _write(place / "memory.swap.max", "0")
        return
    _write(place / "memory.limit_in_bytes", str(size))
    if (place / "memory.memsw.limit_in_bytes").exists():
        _write(place / "memory.memsw.limit_in_bytes", str(size))


def _shrink(place: Path, size: int) -> None:
    """Limit the memory of a group of version 2 that may have more: CGROUP_DENIED if it keeps it.

    Of a limit below what is there version 1 says that it is busy, and version 2 kills: so what is
    beyond it is swapped first, by a bound that kills nobody.
    """
    bound = place / "memory.high"
    try:
        for _ in range(_TRIES):
            if int(_read(place / "memory.current")) <= size:
                break
            _write(bound, str(size))
        else:
            busy = OSError(errno.EBUSY, os.strerror(errno.EBUSY))
            raise _denied(f"memory.max to {size}", place, busy)
        _write(place / "memory.max", str(size))
    finally:
        _write(bound, "max")


def _counts(text: str) -> dict[str, int]:
    """Of a file of the kernel's with a word and a number in each line."""
    lines = (line.split() for line in text.splitlines())
    return {words[0]: int(words[1]) for words in lines if len(words) == 2 and words[1].isdecimal()}


def _v2_controllers(path: Path) -> frozenset[str]:
    """Of a version 2 tree; it can freeze in every group, that is not a controller there."""
    try:
        controllers = (path / "cgroup.controllers").read_text().split()
    except OSError:
        return frozenset()
    return frozenset({"freezer", *controllers}) & _CONTROLLERS


def _remove_empty_parents(hierarchy: Hierarchy, place: Path) -> None:
    for parent in place.parents:
        if parent == hierarchy.path or not parent.is_relative_to(hierarchy.path):
            return
        try:
            parent.rmdir()
        except OSError:
            return


def _cpu_list(text: str) -> tuple[int, ...]:
    """The kernel's notation, `0-2,5`."""
    cpu_ids: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        cpu_ids += range(int(first), int(last or first) + 1)
    return tuple(cpu_ids)


@contextlib.contextmanager
def _opened(files: Iterable[Path]) -> Iterator[list[int]]:
    """Descriptors for writing of those that are there."""
    with contextlib.ExitStack() as undo:
        fds: list[int] = []
        for file in files:
            try:
                fds.append(os.open(file, os.O_WRONLY | os.O_CLOEXEC))
            except OSError as error:
                _raise_if_short(error)
                continue
            undo.callback(os.close, fds[-1])
        yield fds


def _try_each(fds: Iterable[int], text: bytes) -> None:
    for fd in fds:
        with contextlib.suppress(OSError):  # the group has gone
            os.pwrite(fd, text, 0)


def _raise_if_short(error: OSError) -> None:
    """CGROUP_DENIED when the group could not be looked at; else it has gone."""
    if error.errno in _SHORT:
        raise _denied("a look", Path(str(error.filename)), error) from error


def _open(file: Path, flags: int) -> int:
    try:
        return os.open(file, flags | os.O_CLOEXEC)
    except OSError as error:
        raise _denied(file.name, file.parent, error) from error


def _read(file: Path) -> str:
    try:
        return file.read_text()
    except OSError as error:
        raise _denied(file.name, file.parent, error) from error


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text)
    except OSError as error:
        raise _denied(f"{file.name} to {text}", file.parent, error) from error


def _denied(action: str, path: Path, error: OSError) -> UllageError:
    reason = error.strerror or str(error)
    return UllageError(errors.CGROUP_DENIED, what=action, path=path, reason=reason)
