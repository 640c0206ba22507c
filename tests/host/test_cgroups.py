from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.environments.containers.base import thaw_if_there
from ullage.host import cgroups
from ullage.host.cgroups import Group, Hierarchy, Limits

FORK = "while :; do sleep 0.01 & wait; done"


def members(group: Group, script: str) -> subprocess.Popen[bytes]:
    """A shell that has joined the group, and is known to be in it."""
    join = f'for d in "$@"; do echo $$ > "$d/cgroup.procs"; done; echo in; {script}'
    argv = ["sh", "-c", join, "sh", *map(str, group.directories)]
    # Without a buffer, which would keep what it says next from `communicate`.
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, bufsize=0)
    assert process.stdout is not None
    assert process.stdout.readline() == b"in\n"
    return process


def remains(tag: str) -> list[Path]:
    places = [h.path / "ullage" / tag for h in cgroups.hierarchies()]
    return [place for place in places if place.exists()]


@pytest.fixture(params=["as it is", "version 2 only"])
def trees(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Sequence[Hierarchy]:
    """The host's own trees; and of a hybrid host once more only the new one."""
    every = cgroups.hierarchies()
    if request.param == "version 2 only":
        every = [hierarchy for hierarchy in every if hierarchy.version == 2]
        if not every:
            pytest.skip("no version 2 tree here")
        monkeypatch.setattr(cgroups, "hierarchies", lambda: every)
    return every


@pytest.fixture
def group(tag: str, trees: Sequence[Hierarchy]) -> Iterator[Group]:
    created = Group.create(tag, "native-0", Limits())
    yield created
    asyncio.run(created.kill_all())
    asyncio.run(created.remove())
    assert remains(tag) == []


def cpu_ticks(pid: int) -> list[str]:
    """`utime` and `stime`, fields 14 and 15; others change in a frozen process too (proc(5))."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]


@pytest.mark.root
def test_freeze_and_thaw(group: Group) -> None:
    async def use() -> None:
        before = process.pid in group.pids()
        for _ in range(3):
            await group.freeze()
            frozen = cpu_ticks(process.pid)
            await asyncio.sleep(0.05)
            assert cpu_ticks(process.pid) == frozen
            await group.thaw()
        assert before

    with members(group, FORK) as process:
        asyncio.run(use())
        assert process.poll() is None
        process.kill()


@contextlib.contextmanager
def no_descriptors() -> Iterator[None]:
    """This process can open nothing more, and closes nothing that was forgotten."""
    gc.collect()
    gc.disable()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken: list[int] = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 256), hard))
    try:
        with contextlib.suppress(OSError):
            while True:
                taken.append(os.open("/dev/null", os.O_RDONLY))
        yield
    finally:
        for fd in taken:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        gc.enable()


def stands_still(pid: int) -> bool:
    """Is it frozen? What forks without end uses CPU time else."""
    before = cpu_ticks(pid)
    time.sleep(0.2)
    return cpu_ticks(pid) == before


def moves(pid: int) -> bool:
    """It uses CPU time, once the others let it."""
    return any(not stands_still(pid) for _ in range(100))


@pytest.fixture
def spinning(group: Group) -> Iterator[int]:
    """The process id of a member that uses all the CPU time that it gets."""
    with members(group, "while :; do :; done") as process:
        yield process.pid
        asyncio.run(group.kill_all())


@pytest.mark.root
def test_without_descriptors_nobody_is_frozen_who_cannot_be_thawed(
    group: Group, spinning: int
) -> None:
    with asyncio.Runner() as runner:
        runner.get_loop()
        with no_descriptors(), pytest.raises(UllageError):
            runner.run(group.freeze())
        assert moves(spinning)
        runner.run(group.freeze())
        assert stands_still(spinning)
        with no_descriptors():
            runner.run(group.thaw())
        assert moves(spinning)


@pytest.mark.root
def test_a_freeze_that_fails_in_the_middle_is_undone(
    group: Group, spinning: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is cancelled, after the kernel was told and before it is known that all stand still."""

    async def cancel(*_: object) -> None:
        raise asyncio.CancelledError

    monkeypatch.setattr(cgroups, "_until", cancel)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(group.freeze())
    monkeypatch.undo()
    assert moves(spinning)


@pytest.mark.root
def test_without_descriptors_a_group_is_neither_killed_nor_removed(
    group: Group, spinning: int
) -> None:
    with asyncio.Runner() as runner:
        runner.run(group.freeze())
        with no_descriptors():
            for action in (group.kill_all, group.remove):
                with pytest.raises(UllageError) as caught:
                    runner.run(action())
                assert caught.value.kind is errors.CGROUP_DENIED
        assert spinning in group.pids()
        runner.run(group.kill_all())
        assert group.pids() == set()


@pytest.mark.root
def test_a_group_that_goes_while_it_is_thawed_is_no_traceback(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As LXC's monitor removes it, when the container has died."""

    def turned_then_gone(switch: cgroups._Switch, frozen: bool) -> None:
        turn(switch, frozen)
        switch.place.rmdir()

    turn = cgroups._Switch.turn

    with monkeypatch.context() as patched, pytest.raises(UllageError) as caught:
        patched.setattr(cgroups._Switch, "turn", turned_then_gone)
        asyncio.run(group.thaw())
    assert caught.value.kind is errors.CGROUP_DENIED
    asyncio.run(thaw_if_there(group))


def test_a_parent_that_another_run_removes_is_made_again(
    tag: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever removes a group removes the parents that it leaves empty: ours, just made."""
    tree = Hierarchy(tmp_path / "tree", 1, frozenset({"freezer"}))
    tree.path.mkdir()
    monkeypatch.setattr(cgroups, "hierarchies", lambda: [tree])
    mkdir, removed = Path.mkdir, list[Path]()

    def after_another(place: Path, exist_ok: bool) -> None:
        if place.name == tag and not removed:
            place.parent.rmdir()
            removed.append(place.parent)
        mkdir(place, exist_ok=exist_ok)

    monkeypatch.setattr(Path, "mkdir", after_another)
    created = Group.create(tag, "native-0", Limits())
    assert removed
    assert all(place.is_dir() for place in created.directories)


@pytest.mark.root
@pytest.mark.parametrize("frozen", [False, True])
def test_kill_all_ends_who_forks_and_who_is_frozen(group: Group, frozen: bool) -> None:
    async def use() -> None:
        if frozen:
            await group.freeze()
        await group.kill_all()
        assert group.pids() == set()

    with members(group, f"({FORK}) & ({FORK}) & {FORK}") as process:
        asyncio.run(use())
        assert process.wait(10) == -9


@pytest.mark.root
def test_remove_takes_nested_groups_along(group: Group, tag: str) -> None:
    for directory in group.directories:
        (directory / "a" / "b").mkdir(parents=True)
    group_ = Group.find(tag, "native-0")
    assert set(group.directories) <= set(group_.directories)
    assert tag in cgroups.tags()
    asyncio.run(group_.remove())
    assert remains(tag) == []
    assert tag not in cgroups.tags()
    asyncio.run(group_.remove())
    asyncio.run(group_.kill_all())


@pytest.mark.root
def test_a_group_in_use_is_not_removed(group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroups, "_PATIENCE_S", 0.05)
    with members(group, "exec sleep 100") as process:
        with pytest.raises(UllageError) as caught:
            asyncio.run(group.remove())
        process.kill()
    assert caught.value.kind is errors.CGROUP_STUCK


@pytest.mark.root
def test_limits_hold(tag: str) -> None:
    limits = Limits(cpu_ids=(0,), cpu_quota=0.5, memory_bytes=64 << 20)
    missing = limits.controllers - cgroups.available()
    if missing:
        pytest.skip(f"no controller {missing} here")
    created = Group.create(tag, "native-0", limits)
    try:
        # One process, so that it is the one that the kernel kills.
        eat = f"nproc; exec {sys.executable} -c 'bytearray(128 << 20); print(\"survived\")'"
        with members(created, eat) as process:
            out, _ = process.communicate(timeout=60)
        assert out == b"1\n"
        assert process.returncode == -9
        assert created.memory_kills() == 1
        texts = "".join(
            file.read_text()
            for directory in created.directories
            for name in ("cpu.cfs_quota_us", "cpu.max")
            if (file := directory / name).exists()
        )
        assert texts.split()[0] == "50000"
    finally:
        asyncio.run(created.kill_all())
        asyncio.run(created.remove())
    assert remains(tag) == []


@pytest.mark.root
def test_a_limit_that_the_kernel_refuses(tag: str) -> None:
    if "cpuset" not in cgroups.available():
        pytest.skip("no controller cpuset here")
    with pytest.raises(UllageError) as caught:
        Group.create(tag, "native-0", Limits(cpu_ids=(4000,)))
    assert caught.value.kind is errors.CGROUP_DENIED
    assert "cpuset.cpus to 4000" in caught.value.message
    assert remains(tag) == []


def test_a_missing_controller_is_named(tag: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroups, "hierarchies", list)
    with pytest.raises(UllageError) as caught:
        Group.create(tag, "native-0", Limits(memory_bytes=1))
    assert caught.value.kind is errors.CGROUP_MISSING
    assert "freezer, memory" in caught.value.message


def test_version_2_files(tag: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This host's new tree has no controllers, so plain files stand for it."""
    tree = Hierarchy(tmp_path / "tree", 2, frozenset({"cpu", "cpuset", "memory", "freezer"}))
    leaf = tree.path / "ullage" / tag / "vm-0"
    leaf.mkdir(parents=True)
    for place in (tree.path, leaf.parent.parent, leaf.parent):
        (place / "cgroup.subtree_control").write_text("")
    (leaf / "memory.swap.max").write_text("max")
    monkeypatch.setattr(cgroups, "hierarchies", lambda: [tree])
    Group.create(tag, "vm-0", Limits(cpu_ids=(0, 3), cpu_quota=1.5, memory_bytes=4096))
    contents = {file.name: file.read_text() for file in leaf.iterdir()}
    assert contents == {
        "cpuset.cpus": "0,3",
        "cpu.max": "150000 100000",
        "memory.max": "4096",
        "memory.swap.max": "0",
    }
    assert (leaf.parent / "cgroup.subtree_control").read_text() == "+cpu +cpuset +memory"
    (leaf / "cpuset.cpus.effective").write_text("0-1,3\n")
    assert Group.find(tag, "vm-0").limits() == Limits((0, 1, 3), 1.5, 4096)
    for name, text in (("cpu.max", "max 100000\n"), ("memory.max", "max\n")):
        (leaf / name).write_text(text)
    assert Group.find(tag, "vm-0").limits() == Limits((0, 1, 3), None, None)
    assert Group.find(tag, "vm-0").memory_kills() == 0
    (leaf / "memory.events").write_text("oom 2\noom_kill 3\noom_group_kill 0\n")
    assert Group.find(tag, "vm-0").memory_kills() == 3
    assert Group.find(tag, "vm-0").swapped_bytes() is None, "it may not"
    (leaf / "memory.swap.current").write_text("8192\n")
    assert Group.find(tag, "vm-0").swapped_bytes() is None, "it may not, whatever is left"
    (leaf / "memory.current").write_text("1024\n")
    assert Group.find(tag, "vm-0").allow_swap(2048, 16384) == 2048 + 16384
    assert (leaf / "memory.max").read_text() == "2048", "less than it had"
    assert Group.find(tag, "vm-0").swapped_bytes() == 8192
    assert Group.find(tag, "vm-0").returned_bytes() is None
    (leaf / "memory.stat").write_text("anon 1\nworkingset_refault_anon 3\n")
    assert Group.find(tag, "vm-0").returned_bytes() == 3 * os.sysconf("SC_PAGE_SIZE")


def version_2_group(tag: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of 8 KiB, with a limit of as much; and the order in which it is written to."""
    tree = Hierarchy(tmp_path / "tree", 2, frozenset({"memory"}))
    leaf = tree.path / "ullage" / tag / "vm-0"
    leaf.mkdir(parents=True)
    for name in ("memory.max", "memory.current"):
        (leaf / name).write_text("8192")
    (leaf / "memory.high").write_text("max")
    (leaf / "memory.swap.max").write_text("0")
    monkeypatch.setattr(cgroups, "hierarchies", lambda: [tree])
    return leaf


def test_version_2_swaps_before_it_has_a_limit_that_kills(
    tag: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leaf = version_2_group(tag, tmp_path, monkeypatch)
    written: list[str] = []

    def write(file: Path, text: str) -> None:
        written.append(f"{file.name} {text}")
        file.write_text(text)
        if len(written) == 3:  # the kernel may need a second time
            (leaf / "memory.current").write_text(text)

    monkeypatch.setattr(cgroups, "_write", write)
    assert Group.find(tag, "vm-0").allow_swap(2048, 16384) == 2048 + 16384
    assert written == [
        "memory.swap.max 16384",
        "memory.high 2048",
        "memory.high 2048",
        "memory.max 2048",
        "memory.high max",
    ]


def test_version_2_does_not_kill_what_cannot_be_swapped(
    tag: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As version 1 says it."""
    leaf = version_2_group(tag, tmp_path, monkeypatch)
    with pytest.raises(UllageError, match=r"memory\.max to 2048.*busy") as caught:
        Group.find(tag, "vm-0").allow_swap(2048, 16384)
    assert caught.value.kind is errors.CGROUP_DENIED
    assert (leaf / "memory.max").read_text() == "8192"
    assert (leaf / "memory.high").read_text() == "max"


def test_version_1_tells_what_is_swapped(
    tag: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = Hierarchy(tmp_path / "memory", 1, frozenset({"memory"}))
    leaf = tree.path / "ullage" / tag / "vm-0"
    leaf.mkdir(parents=True)
    monkeypatch.setattr(cgroups, "hierarchies", lambda: [tree])
    assert Group.find(tag, "vm-0").swapped_bytes() is None
    limits = "hierarchical_memory_limit 4096\nhierarchical_memsw_limit {}\n"
    for limit, swapped in ((4096, None), (8192, 1024)):
        (leaf / "memory.stat").write_text(f"cache 1\n{limits.format(limit)}total_swap 1024\n")
        assert Group.find(tag, "vm-0").swapped_bytes() == swapped
    assert Group.find(tag, "vm-0").returned_bytes() is None
    with (leaf / "memory.stat").open("a") as stat:
        stat.write("workingset_refault_anon 1\ntotal_workingset_refault_anon 2\n")
    assert Group.find(tag, "vm-0").returned_bytes() == 2 * os.sysconf("SC_PAGE_SIZE")


MOUNTINFO = """\
25 30 0:23 / /proc rw - proc proc rw
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
33 31 0:30 / /sys/fs/cgroup/with\\040blank rw - cgroup cgroup rw,xattr,name=systemd
99 31 0:29 / /var/lib/other/cpu rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
34 31 0:31 / TREE rw,nosuid - cgroup2 cgroup2 rw,nsdelegate
"""


def test_what_is_mounted_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cgroup.controllers").write_text("cpuset io memory hugetlb\n")
    mountinfo = tmp_path / "mountinfo"
    mountinfo.write_text(MOUNTINFO.replace("TREE", str(tmp_path)))
    monkeypatch.setattr(cgroups, "_MOUNTINFO", mountinfo)
    assert cgroups.hierarchies() == [
        Hierarchy(Path("/sys/fs/cgroup/cpu,cpuacct"), 1, frozenset({"cpu"})),
        Hierarchy(Path("/sys/fs/cgroup/with blank"), 1, frozenset()),
        Hierarchy(tmp_path, 2, frozenset({"cpuset", "memory", "freezer"})),
    ]
    assert cgroups.available() == {"cpu", "cpuset", "memory", "freezer"}


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../x", "-x", "a\n", "x" * 65])
def test_a_name_is_no_path(tag: str, name: str) -> None:
    with pytest.raises(ValueError, match="not a name"):
        cgroups.cgroup_path(tag, name)
    assert cgroups.cgroup_path(tag, "vm-0") == f"/ullage/{tag}/vm-0"


@pytest.mark.root
def test_groups_that_root_inside_nested_deeper_than_we_recurse_are_removed(tag: str) -> None:
    group = Group.create(tag, "native-0", Limits())
    _, place = group._places[0]
    for _ in range(sys.getrecursionlimit() + 100):
        place /= "g"
        place.mkdir()
    inner = Group("/deep", [(group._places[0][0], place)])
    process = members(inner, "exec sleep 1000")
    try:
        assert process.pid in group.pids()
        asyncio.run(group.kill_all())
    finally:
        process.kill()
        process.wait()
    asyncio.run(group.remove())
    assert remains(tag) == []
