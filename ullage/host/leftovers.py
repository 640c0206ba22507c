"""What runs that died left on this host: find it by tag, remove it.

Both functions run programs and wait; call them through `asyncio.to_thread` from a loop.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from ullage.common.errors import UllageError
from ullage.host import cgroups, claims, disks, image, paths, storage, user_commands
from ullage.host.network import routes, sockets
from ullage.host.swap import area

LeftoverKind = Literal[
    "crun",
    "lxc",
    "docker",
    "podman",
    "command",
    "process",
    "cgroup",
    "swap",
    "mount",
    "netns",
    "link",
    "route",
    "sockets",
    "state",
    "data",
    "build",
]

_CONTAINER: Final = re.compile(r"ullage-(u[0-9a-f]{7})(?:-.*)?")
_DEVICE: Final = re.compile(r"(u[0-9a-f]{7})(?:[-.].*)?")
_PROCESS: Final = re.compile(r"(\d+)@(\d+) .*")
_NETNS: Final = Path("/run/netns")
_LINKS: Final = Path("/sys/class/net")
_PATIENCE_S: Final = 10.0
_POLL_S: Final = 0.005
_COMMAND_S: Final = 60.0
_LXC_NOT_RUNNING: Final = frozenset({2})


@dataclass(frozen=True)
class Leftover:
    """One thing that carries a tag."""

    kind: LeftoverKind
    name: str
    tag: str
    """Empty for what belongs to no run: a half-built image."""
    uid: int
    """Whose it is."""


def find(tag: str | None = None, *, own: bool = False, force: bool = False) -> list[Leftover]:
    """All leftovers, or those of one tag, in the order in which they can be removed.

    What belongs to a controller that still lives is left out; unless it is this very process and
    `own` is told, or `force`. By the claims of its owner: what others claim says nothing of it.
    """
    if tag is not None:
        paths.check_tag(tag)
    leftovers = [
        leftover for finder in _FINDERS for leftover in finder() if tag in {None, leftover.tag}
    ]
    if force:
        return leftovers
    owners = {(leftover.tag, leftover.uid) for leftover in leftovers if leftover.tag}
    living = {
        (its_tag, uid)
        for its_tag, uid in owners
        if claims.lives(its_tag, uid) and not (own and claims.claimed_here(its_tag))
    }
    return [leftover for leftover in leftovers if (leftover.tag, leftover.uid) not in living]


def remove(leftovers: Iterable[Leftover]) -> list[tuple[Leftover, str]]:
    """Remove them, in the order given; what is gone already is no error.

    It must be the order of `find`: a directory goes only after what is mounted in it.
    Returns those that could not be removed, each with the reason.
    """
    failures = []
    for leftover in leftovers:
        try:
            _REMOVERS[leftover.kind](leftover)
        except UllageError as error:
            failures.append((leftover, error.message))
        except subprocess.SubprocessError as error:
            failures.append((leftover, str(error)))
        except OSError as error:
            failures.append((leftover, error.strerror or str(error)))
    return failures


# --- containers -----------------------------------------------------------------------------------
def _find_crun() -> Iterator[Leftover]:
    yield from _containers("crun", Path("/run/crun"))


def _remove_crun(leftover: Leftover) -> None:
    root, _, name = leftover.name.rpartition("/")
    try:
        _run("crun", "--root", root, "delete", "--force", name)
    except subprocess.SubprocessError:
        # A `crun run` that still waited for it has removed it in the same moment.
        if Path(leftover.name).exists():
            raise


def _find_lxc() -> Iterator[Leftover]:
    yield from _containers("lxc", Path("/var/lib/lxc"))


def _remove_lxc(leftover: Leftover) -> None:
    root, _, name = leftover.name.rpartition("/")
    _run("lxc-stop", "-P", root, "-n", name, "--kill", fine=_LXC_NOT_RUNNING)
    disks.remove_tree(Path(leftover.name))


def _containers(runtime: Literal["crun", "lxc"], default: Path) -> Iterator[Leftover]:
    """Both keep a directory for each container; ours below the state of its instance."""
    ours = [root for state in _tagged(paths.state_root()) for root in state.glob(f"*/{runtime}")]
    for root in [default, *ours]:
        for path in _listed(root):
            if match := _CONTAINER.fullmatch(path.name):
                yield Leftover(runtime, str(path), match[1], _owner(path))


def _find_docker() -> Iterator[Leftover]:
    yield from _find_daemon("docker")


def _find_podman() -> Iterator[Leftover]:
    # Asked by a plain user it starts a process that stays, so only who has used it is asked for.
    store = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share") / "containers"
    if os.geteuid() == 0 or store.is_dir():
        yield from _find_daemon("podman")


def _find_daemon(program: Literal["docker", "podman"]) -> Iterator[Leftover]:
    every = _lines(program, "ps", "--all", "--filter", "name=ullage-u", "--format", "{{.Names}}")
    for name in every:
        if match := _CONTAINER.fullmatch(name.strip()):
            yield Leftover(program, name.strip(), match[1], os.geteuid())


def _remove_daemon(leftover: Leftover) -> None:
    try:
        _run(leftover.kind, "rm", "--force", leftover.name)
    except subprocess.SubprocessError:
        if leftover.kind != "podman":
            raise
        # With its monitor killed, the first try only finds out that the container is dead.
        _run(leftover.kind, "rm", "--force", leftover.name)


def _find_user_commands() -> Iterator[Leftover]:
    for removal in user_commands.records():
        yield Leftover("command", removal.name, removal.tag, os.geteuid())


def _remove_user_command(leftover: Leftover) -> None:
    for removal in user_commands.records():
        if (removal.tag, removal.name) == (leftover.tag, leftover.name):
            user_commands.remove(removal)


# --- processes and cgroups ------------------------------------------------------------------------
def _find_processes() -> Iterator[Leftover]:
    groups = [cgroups.Group.find(tag) for tag in cgroups.tags()]
    members = {pid: group for group in groups for pid in group.pids()}
    spared = _ancestors()
    for directory in Path("/proc").iterdir():
        if not directory.name.isdigit() or int(directory.name) in spared:
            continue
        pid = int(directory.name)
        group = members.get(pid)
        tag = _tag_in_environment(directory) if group is None else Path(group.path).name
        # In a group it is its maker's, whoever it has become since.
        uid = _user(directory) if group is None else _owner(*group.directories)
        born = claims.process_start_time(pid)
        if tag is not None and born is not None:
            yield Leftover("process", f"{pid}@{born} {_command_name(directory)}", tag, uid)


def _ancestors() -> set[int]:
    """This process and its parents: whoever called us is no leftover."""
    family, pid = set(), os.getpid()
    while pid > 0 and pid not in family:
        family.add(pid)
        pid = _parent(pid)
    return family


def _parent(pid: int) -> int:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0
    return int(stat.rpartition(")")[2].split()[1])


def _tag_in_environment(directory: Path) -> str | None:
    with contextlib.suppress(OSError):
        for variable in (directory / "environ").read_bytes().split(b"\0"):
            name, _, value = variable.partition(b"=")
            if name == b"ULLAGE_TAG" and paths.TAG.fullmatch(value.decode("ascii", "replace")):
                return value.decode("ascii")
    return None


def _user(directory: Path) -> int:
    """The user whose rights a process has; its directory need not be theirs. -1: it has gone."""
    with contextlib.suppress(OSError):
        status = (directory / "status").read_text(encoding="utf-8", errors="replace")
        for line in status.splitlines():
            if line.startswith("Uid:"):
                return int(line.split()[2])
    return -1


def _command_name(directory: Path) -> str:
    try:
        name = (directory / "comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return "?"
    return "".join(c if c.isprintable() else "?" for c in name)


def _remove_process(leftover: Leftover) -> None:
    match = _PROCESS.fullmatch(leftover.name)
    if match is None:
        raise ValueError(leftover.name)
    pid, born = int(match[1]), int(match[2])
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        # The handle is of one process for ever; is it still the one that was found?
        if claims.process_start_time(pid) == born:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
            if not select.select([handle], [], [], _PATIENCE_S)[0]:
                raise OSError(errno.EBUSY, f"still alive after {_PATIENCE_S:g} s")
    finally:
        os.close(handle)


def _find_cgroups() -> Iterator[Leftover]:
    for tag in sorted(cgroups.tags()):
        owner = _owner(*cgroups.Group.find(tag).directories)
        yield Leftover("cgroup", f"/{cgroups.ROOT}/{tag}", tag, owner)


def _remove_cgroup(leftover: Leftover) -> None:
    group = cgroups.Group.find(leftover.tag)
    _wait(group.kill_once)
    _wait(group.remove_once)


# --- mounts, network, directories -----------------------------------------------------------------
def _find_mounts() -> Iterator[Leftover]:
    data = _tagged(paths.data_root())
    roots = {root: root.name for root in (*_tagged(paths.state_root()), *data)}
    roots |= {room: root.name for root in data for room in storage.rooms(root.name)}
    for path in reversed(disks.points()):  # what was mounted last goes first
        for root, tag in roots.items():
            if path.is_relative_to(root):
                yield Leftover("mount", str(path), tag, _owner(root))


def _find_swap() -> Iterator[Leftover]:
    """Root's alone: nobody else can give a host swap, whatever a note of theirs says."""
    for root in _tagged(paths.state_root()):
        if _owner(root) == 0 and (noted := area.noted(root.name)) is not None:
            yield Leftover("swap", str(noted), root.name, 0)


def _remove_swap(leftover: Leftover) -> None:
    area.end(leftover.tag)


def _remove_mount(leftover: Leftover) -> None:
    if Path(leftover.name) in disks.points():
        _run("umount", "--lazy", "--no-canonicalize", leftover.name)


def _find_netns() -> Iterator[Leftover]:
    yield from _named("netns", _NETNS)


def _find_links() -> Iterator[Leftover]:
    yield from _named("link", _LINKS)


def _named(kind: Literal["netns", "link"], directory: Path) -> Iterator[Leftover]:
    for path in _listed(directory):
        if match := _DEVICE.fullmatch(path.name):
            yield Leftover(kind, path.name, match[1], 0)


def _remove_netns(leftover: Leftover) -> None:
    if (_NETNS / leftover.name).exists():
        _run("ip", "netns", "delete", leftover.name)


def _remove_link(leftover: Leftover) -> None:
    path = _LINKS / leftover.name
    if not path.exists():
        return
    try:
        _run("ip", "link", "delete", "dev", leftover.name)
    except subprocess.SubprocessError:
        if path.exists():  # else it went with its peer or its namespace meanwhile
            raise


def _find_routes() -> Iterator[Leftover]:
    for tag in routes.tags():
        yield Leftover("route", "to other machines", tag, _owner(paths.state_dir(tag)))


def _remove_routes(leftover: Leftover) -> None:
    routes.remove(leftover.tag)


def _find_sockets() -> Iterator[Leftover]:
    for path, tag in sockets.folders():
        yield Leftover("sockets", str(path), tag, _owner(path))


def _find_state() -> Iterator[Leftover]:
    yield from _directories("state", paths.state_root())


def _find_data() -> Iterator[Leftover]:
    for root in _tagged(paths.data_root()):
        for room in storage.rooms(root.name):
            if room.is_dir() and not room.is_symlink() and _owner(room) == _owner(root):
                yield Leftover("data", str(room), root.name, _owner(root))
    yield from _directories("data", paths.data_root())


def _directories(kind: Literal["state", "data"], root: Path) -> Iterator[Leftover]:
    for path in _tagged(root):
        yield Leftover(kind, str(path), path.name, _owner(path))


def _find_builds() -> Iterator[Leftover]:
    for path in image.abandoned():
        yield Leftover("build", str(path), "", _owner(path))


def _remove_directory(leftover: Leftover) -> None:
    disks.remove_tree(Path(leftover.name))


def _tagged(root: Path) -> list[Path]:
    """Directories of runs. A link with such a name does not count, and is never followed."""
    return [
        path
        for path in _listed(root)
        if paths.TAG.fullmatch(path.name) and path.is_dir() and not path.is_symlink()
    ]


def _owner(*places: Path) -> int:
    """The owner of the first of them that exists; root when all have gone."""
    for place in places:
        with contextlib.suppress(OSError):
            return place.lstat().st_uid
    return 0


def _listed(directory: Path) -> list[Path]:
    """What is in it; nothing when it is not there, or another user's."""
    try:
        return sorted(directory.iterdir())
    except OSError:
        return []


# --- helpers --------------------------------------------------------------------------------------
def _lines(program: str, *arguments: str) -> list[str]:
    """What the program prints; nothing when it is not here or cannot do it (no daemon)."""
    if shutil.which(program) is None:
        return []
    try:
        return _run(program, *arguments).splitlines()
    except (subprocess.SubprocessError, OSError):
        return []


def _run(*argv: str, fine: frozenset[int] = frozenset()) -> str:
    """Run it, out of a Ctrl-C's reach.

    SubprocessError with what it said on another status than 0 or a fine one.
    """
    done = subprocess.run(
        argv,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=_COMMAND_S,
        check=False,
        start_new_session=True,
    )
    if done.returncode and done.returncode not in fine:
        raise _CommandFailedError(f"{argv[0]}: {done.stderr.strip()[-400:]}")
    return done.stdout


class _CommandFailedError(subprocess.SubprocessError):
    pass


def _wait(reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not reached():
        if time.monotonic() > deadline:
            raise OSError(errno.EBUSY, f"still in use after {_PATIENCE_S:g} s")
        time.sleep(_POLL_S)


_FINDERS: Final[tuple[Callable[[], Iterator[Leftover]], ...]] = (
    _find_crun,
    _find_lxc,
    _find_docker,
    _find_user_commands,
    _find_cgroups,  # before the processes: it thaws the frozen, who could not die
    _find_processes,
    _find_podman,  # no daemon: it removes a container only once nothing of it lives
    _find_swap,
    _find_mounts,
    _find_netns,
    _find_links,
    _find_routes,
    _find_sockets,
    _find_state,
    _find_data,
    _find_builds,
)
_REMOVERS: Final[dict[LeftoverKind, Callable[[Leftover], None]]] = {
    "crun": _remove_crun,
    "lxc": _remove_lxc,
    "docker": _remove_daemon,
    "podman": _remove_daemon,
    "command": _remove_user_command,
    "process": _remove_process,
    "cgroup": _remove_cgroup,
    "swap": _remove_swap,
    "mount": _remove_mount,
    "netns": _remove_netns,
    "link": _remove_link,
    "route": _remove_routes,
    "sockets": _remove_directory,
    "state": _remove_directory,
    "data": _remove_directory,
    "build": _remove_directory,
}
