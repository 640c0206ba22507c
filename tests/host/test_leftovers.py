"""Real leftovers of runs that died, and of one that did not."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.host import cgroups, claims, leftovers, paths
from ullage.host.leftovers import Leftover


def sh(script: str) -> None:
    subprocess.run(["sh", "-ec", script], check=True, timeout=60)


CLAIM = "import sys; from ullage.host import claims; claims.claim(sys.argv[1], '/runs/x'); print()"


def dead_claim(tag: str) -> None:
    """Claim the tag by a process that is no more."""
    subprocess.run([sys.executable, "-c", CLAIM, tag], check=True, timeout=60)
    assert claims.controller(tag) is not None


@contextlib.contextmanager
def claim_of_another(tag: str) -> Iterator[None]:
    """Claim the tag by another process that lives."""
    command = [sys.executable, "-c", f"{CLAIM}; sys.stdout.flush(); sys.stdin.read()", tag]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"\n"
        yield


def kinds(remains: list[Leftover]) -> set[str]:
    return {leftover.kind for leftover in remains}


def sleeper(tag: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sleep", "300"], env={"PATH": "/bin", "ULLAGE_TAG": tag})


@pytest.fixture
def everything(tag: str) -> Iterator[list[subprocess.Popen[bytes]]]:
    """One of each kind that needs nothing but this host's kernel."""
    dead_claim(tag)
    mounted = paths.state_dir(tag) / "vm-0" / "mnt"
    mounted.mkdir(parents=True)
    data = paths.data_dir(tag) / "vm-0"
    data.mkdir()
    group = cgroups.Group.create(tag, "vm-0", cgroups.Limits())
    joined = subprocess.Popen(["sleep", "300"], start_new_session=True)
    for directory in group.directories:
        (directory / "cgroup.procs").write_text(str(joined.pid))
    asyncio.run(group.freeze())
    tagged = sleeper(tag)
    sh(
        f"mount -t tmpfs none {mounted}; mkdir {mounted}/deep; mount --bind {data} {mounted}/deep;"
        f"touch {data}/file;"
        f"ip netns add {tag}-vm-0; ip link add {tag}-br type bridge;"
        f"ip link add {tag}-v2 type veth peer name eth0 netns {tag}-vm-0"
    )
    yield [joined, tagged]
    sh(
        f"ip netns delete {tag}-vm-0; ip link delete {tag}-br; umount {mounted}/deep {mounted}"
        if mounted.is_mount()
        else "true"
    )
    for process in (joined, tagged):
        process.kill()
        process.wait(10)


@pytest.mark.root
def test_everything_is_found_and_removed(
    tag: str, everything: list[subprocess.Popen[bytes]]
) -> None:
    remains = leftovers.find(tag)
    assert kinds(remains) == {"process", "cgroup", "mount", "netns", "link", "state", "data"}
    pids = {int(leftover.name.split("@")[0]) for leftover in remains if leftover.kind == "process"}
    assert pids == {process.pid for process in everything}
    assert {leftover.name for leftover in remains if leftover.kind == "link"} == {
        f"{tag}-br",
        f"{tag}-v2",
    }
    assert leftovers.remove(remains) == []
    assert leftovers.find(tag) == []
    assert [process.wait(10) for process in everything] == [-9, -9]
    assert not Path(f"/run/netns/{tag}-vm-0").exists()
    assert not Path(f"/sys/class/net/{tag}-br").exists()
    assert tag not in cgroups.tags()
    assert not paths.state_dir(tag).exists()
    assert not paths.data_dir(tag).exists()
    assert tag not in Path("/proc/self/mountinfo").read_text()
    # What is gone already is no error.
    assert leftovers.remove(remains) == []


@pytest.mark.root
def test_a_living_controller_is_left_alone(tag: str) -> None:
    claims.claim(tag, "/runs/x")
    group = cgroups.Group.create(tag, "vm-0", cgroups.Limits())
    with sleeper(tag) as process:
        assert leftovers.find(tag) == []
        assert not any(leftover.tag == tag for leftover in leftovers.find())
        own = leftovers.find(tag, own=True)
        assert kinds(own) == {"process", "cgroup", "state", "data"}
        assert leftovers.find(tag, force=True) == own
        assert process.poll() is None
        assert group.directories[0].is_dir()
        assert leftovers.remove(own) == []
        assert process.wait(10) == -9
    assert leftovers.find(tag, force=True) == []


def test_another_living_controller_is_not_own(tag: str) -> None:
    with claim_of_another(tag):
        assert leftovers.find(tag, own=True) == []
        assert kinds(leftovers.find(tag, force=True)) == {"state", "data"}
        with pytest.raises(UllageError) as caught:
            claims.claim(tag, "/runs/y")
        assert caught.value.kind is errors.RUN_IN_USE
    assert kinds(leftovers.find(tag)) == {"state", "data"}


def test_a_living_controller_that_keeps_its_state_elsewhere(
    tag: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with claim_of_another(tag), sleeper(tag) as process:
        monkeypatch.setenv("ULLAGE_STATE_DIR", str(tmp_path / "elsewhere"))
        assert leftovers.find(tag) == []
        assert kinds(leftovers.find(tag, force=True)) == {"process", "data"}
        process.kill()


def test_other_tags_are_not_touched(tag: str) -> None:
    other_tag = paths.new_tag()
    dead_claim(tag)
    dead_claim(other_tag)
    leftovers.remove(leftovers.find(tag))
    assert leftovers.find(tag) == []
    assert kinds(leftovers.find(other_tag)) == {"state", "data"}
    (paths.state_root() / "keep-me").mkdir()
    leftovers.remove(leftovers.find(other_tag))
    assert [path.name for path in paths.state_root().iterdir()] == ["keep-me"]


def test_who_calls_is_no_leftover(tag: str) -> None:
    """A controller may carry its own tag; so may the shell that called it."""
    script = (
        "import json; from ullage.host import leftovers;"
        f"print(json.dumps([one.kind for one in leftovers.find({tag!r}, force=True)]))"
    )
    command = ["sh", "-c", '"$@"; true', "sh", sys.executable, "-c", script]
    environment = {**os.environ, "ULLAGE_TAG": tag}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []


def test_a_link_in_a_data_directory_is_not_followed(tag: str, tmp_path: Path) -> None:
    dead_claim(tag)
    treasure = tmp_path / "treasure"
    treasure.mkdir()
    (treasure / "file").write_text("x")
    (paths.data_dir(tag) / "link").symlink_to(treasure)
    assert leftovers.remove(leftovers.find(tag)) == []
    assert (treasure / "file").read_text() == "x"


@pytest.mark.root
def test_what_is_still_mounted_is_not_removed(tag: str, tmp_path: Path) -> None:
    dead_claim(tag)
    treasure, mounted = tmp_path / "treasure", paths.state_dir(tag) / "mnt"
    treasure.mkdir()
    mounted.mkdir()
    (treasure / "file").write_text("x")
    sh(f"mount --bind {treasure} {mounted}")
    try:
        remains = [leftover for leftover in leftovers.find(tag) if leftover.kind != "mount"]
        ((stays, reason),) = leftovers.remove(remains)
        assert stays.kind == "state"
        assert reason == f"{mounted} is still mounted"
        assert (treasure / "file").read_text() == "x"
    finally:
        sh(f"umount {mounted}")
    assert leftovers.remove(leftovers.find(tag)) == []


def test_a_process_id_that_was_used_again_is_spared(tag: str) -> None:
    with sleeper(tag) as process:
        born = claims.process_start_time(process.pid)
        assert born is not None
        earlier = Leftover("process", f"{process.pid}@{born - 1} (sleep)", tag, os.geteuid())
        assert leftovers.remove([earlier]) == []
        assert process.poll() is None
        process.kill()


@pytest.mark.root
@pytest.mark.skipif(shutil.which("crun") is None, reason="needs crun")
def test_a_crun_container_is_removed(tag: str, tiny_root: Path) -> None:
    dead_claim(tag)
    root, bundle = paths.state_dir(tag) / "vm-0" / "crun", paths.state_dir(tag) / "bundle"
    bundle.mkdir(parents=True)
    root.mkdir(parents=True)
    sh(f"cd {bundle}; crun spec")
    config = json.loads((bundle / "config.json").read_text())
    config["root"]["path"] = str(tiny_root)
    config["process"] |= {"args": ["sleep", "300"], "terminal": False}
    config["linux"]["cgroupsPath"] = cgroups.cgroup_path(tag, "vm-0")
    config["linux"].pop("resources", None)
    config["mounts"] = [mount for mount in config["mounts"] if mount["type"] != "cgroup"]
    (bundle / "config.json").write_text(json.dumps(config))
    name = f"ullage-{tag}-vm-0"
    # As in the provider: the new tree is hidden, which this crun does not stand beside the old.
    crun = f"crun --cgroup-manager=cgroupfs --root {root} run --detach --bundle {bundle} {name}"
    hide = "test ! -d /sys/fs/cgroup/unified || mount -t tmpfs none /sys/fs/cgroup/unified"
    sh(f"unshare --mount sh -ec '{hide}; {crun} </dev/null >/dev/null 2>&1'")
    remains = leftovers.find(tag)
    assert {"crun", "process", "cgroup"} <= kinds(remains)
    assert leftovers.remove(remains) == []
    assert leftovers.find(tag) == []


@pytest.mark.root
def test_each_is_of_its_owner_and_judged_by_the_owners_claims(
    tag: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another user says that the tag lives, and has a process of that tag."""
    dead_claim(tag)
    monkeypatch.setattr(claims, "lives", lambda _, uid: uid == 65534)
    command = ["setpriv", "--reuid", "65534", "--clear-groups", "sleep", "300"]
    with subprocess.Popen(command, env={"PATH": "/bin:/usr/bin", "ULLAGE_TAG": tag}) as process:
        try:
            while Path(f"/proc/{process.pid}/comm").read_text() != "sleep\n":
                time.sleep(0.01)
            assert {(item.kind, item.uid) for item in leftovers.find(tag)} == {
                ("state", 0),
                ("data", 0),
            }
            every = leftovers.find(tag, force=True)
            assert ("process", 65534) in {(item.kind, item.uid) for item in every}
        finally:
            process.kill()
