"""Swap for a run: what is refused, and a real area of compressed memory or in a file."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import ValidationError

from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.common.files import put
from ullage.host import claims, leftovers, paths
from ullage.host.cgroups import Group, Limits
from ullage.host.swap import area as room
from ullage.host.swap import zram
from ullage.host.swap.request import SwapRequest, VmSwapRequest, allow, areas, verify

HEAD = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"
MIB = 1 << 20


def request(on: str, size: str = "64MiB") -> SwapRequest:
    return SwapRequest.model_validate({"on": on, "size": size})


@pytest.fixture(autouse=True)
def free_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A host without swap, whoever else works on it."""
    file = tmp_path / "swaps"
    file.write_text(HEAD)
    monkeypatch.setattr(room, "_SWAPS", file)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(room, "_of_memory", list)
    return file


def refused(requests: dict[str, SwapRequest]) -> str:
    with pytest.raises(UllageError) as caught:
        room.check(requests)
    assert caught.value.kind is errors.SWAP_UNUSABLE
    return caught.value.message


def test_what_a_plan_may_say() -> None:
    assert str(request("zram")) == "64MiB on zram"
    assert request("/mnt").on == Path("/mnt")
    for on, size in (("mnt", "64MiB"), ("zram", "1MiB"), ("", "64MiB")):
        with pytest.raises(ValidationError):
            request(on, size)


def test_a_vm_keeps_less_than_it_may_need_and_has_room_for_the_rest() -> None:
    """With too little its QEMU would be killed; with all of it resident nothing would swap."""
    swap = VmSwapRequest.model_validate({"on": "zram", "size": "1GiB", "resident": "256MiB"})
    assert str(swap) == "1GiB on zram, 256MiB resident"
    assert swap.kept_bytes(512 * MIB) == 256 * MIB
    assert request("zram").kept_bytes(512 * MIB) == 512 * MIB
    request("zram").refuse_wrong("box", 1 << 40)
    for needed in (256 * MIB + 1, 1280 * MIB):
        swap.refuse_wrong("vm", needed)
    for needed in (256 * MIB, 1280 * MIB + 1):
        with pytest.raises(UllageError, match="`swap` has 256MiB resident and 1GiB") as caught:
            swap.refuse_wrong("vm", needed)
        assert caught.value.kind is errors.SWAP_SIZE
    with pytest.raises(ValidationError):
        VmSwapRequest.model_validate({"on": "zram", "size": "1GiB", "resident": "16MiB"})


def test_one_place_for_all(tmp_path: Path) -> None:
    """The kernel takes of several areas whichever it likes: figures would be of both."""
    text = refused({"a": request(str(tmp_path)), "b": request("zram")})
    assert f"a swaps to {tmp_path} and b to zram" in text
    room.check({})
    room.check({"a": request(str(tmp_path)), "b": request(str(tmp_path), "32MiB")})


def test_what_this_host_cannot_do(
    tmp_path: Path, free_host: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "no such directory" in refused({"a": request(str(tmp_path / "none"))})
    monkeypatch.setattr(zram, "_CONTROL", tmp_path / "none")
    assert "`modprobe zram`" in refused({"a": request("zram")})
    free_host.write_text(f"{HEAD}/dev/sda2 partition 1048572 0 -2\n")
    assert "swaps already, to /dev/sda2" in refused({"a": request("zram")})
    free_host.unlink()
    assert "built without swap" in refused({"a": request("zram")})
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "only root" in refused({"a": request("zram")})


def test_what_an_instance_must_see() -> None:
    one = f"{HEAD}/dev/zram0 partition {64 * 1024} 0 -2\n"
    place = Path("/dev/zram0")
    verify(one, "box-0", 64 * MIB, place)
    for text, size, seen in (
        (HEAD, 64, "no swap"),
        (one, 128, "64MiB"),
        (one + "/dev/sda2 partition 1048572 0 -3\n", 64, "/dev/sda2"),
        ("nonsense", 64, "no swap"),
        # Of the machine's own: not what the plan says, however large.
        (f"{HEAD}/dev/sda2 partition 8388608 0 -2\n", 64, "8GiB on /dev/sda2"),
    ):
        with pytest.raises(UllageError) as caught:
            verify(text, "box-0", size * MIB, place)
        assert caught.value.kind is errors.LIMIT_NOT_APPLIED
        assert seen in caught.value.message
    with pytest.raises(UllageError, match="one of the run"):
        verify(one, "box-0", 64 * MIB, None)
    assert areas("x\na b c d e\n") == []
    assert areas(f"{HEAD}/mnt/a\\040b/swap file 1024 0 -2\n")[0].path == "/mnt/a b/swap"


@pytest.fixture
def tag(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.undo()
    tag = paths.new_tag()
    claims.claim(tag, "test")
    yield tag
    assert leftovers.remove(leftovers.find(tag, own=True)) == []


def live(path: Path) -> bool:
    return str(path) in {area.path for area in areas(Path("/proc/swaps").read_text())}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system that can hold a swap file, wherever the tests run."""
    file, place = tmp_path / "ext4", tmp_path / "disk"
    with file.open("wb") as image:
        image.truncate(96 * MIB)
    place.mkdir()
    subprocess.run(["mkfs.ext4", "-q", file], check=True)
    subprocess.run(["mount", "-o", "loop", file, place], check=True)
    yield place
    subprocess.run(["umount", place], check=True)


@pytest.mark.root
@pytest.mark.parametrize("on", ["zram", "file"])
def test_an_area_comes_and_goes(disk: Path, tag: str, on: str) -> None:
    """And `clean` finds it after the worst of deaths."""
    place: str | Path = "zram" if on == "zram" else disk
    if on == "zram" and not Path("/sys/class/zram-control").is_dir():
        pytest.skip("this kernel has no zram")
    room.turn_on(tag, place, 32 * MIB)
    area = room.noted(tag)
    assert area is not None
    assert live(area)
    (left,) = [one for one in leftovers.find(tag, own=True) if one.kind == "swap"]
    assert left.name == str(area)
    if on == "zram":
        assert leftovers.remove([left]) == []
    else:
        room.end(tag)
        assert room.noted(tag) is None
    assert not live(area)
    assert not area.exists()
    room.end(tag)


def zrams() -> set[str]:
    if not zram.there():
        pytest.skip("this kernel has no zram")
    return zram.names()


@pytest.mark.root
def test_what_another_run_swaps_to_by_now_stays(tag: str) -> None:
    """A run was killed between giving its device back and forgetting its note."""
    zrams()
    room.turn_on(tag, "zram", 32 * MIB)
    area = room.noted(tag)
    assert area is not None
    killed = paths.new_tag()
    claims.claim(killed, "test")
    (paths.state_dir(killed) / room.NOTE).write_text(str(area))
    (left,) = [one for one in leftovers.find(killed, own=True) if one.kind == "swap"]
    assert leftovers.remove([left]) == []
    assert live(area) and room.noted(tag) == area and room.noted(killed) is None
    assert leftovers.remove(leftovers.find(killed, own=True)) == []


@pytest.mark.root
@pytest.mark.parametrize("name", ["add", "set_size"])
def test_a_device_of_a_run_that_was_killed_while_it_made_it(
    tag: str, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Before its number was noted, or when it had a size and no more."""
    before = zrams()

    class KilledError(BaseException):
        pass

    step = getattr(zram, name)

    def killed(*words: object) -> None:
        step(*words)
        raise KilledError

    monkeypatch.setattr(zram, name, killed)
    for undo in ("_turn_off", "_forget"):  # who was killed undoes nothing
        monkeypatch.setattr(room, undo, lambda *_: None)
    with pytest.raises(KilledError):
        room.turn_on(tag, "zram", 32 * MIB)
    monkeypatch.undo()
    assert len(zram.names()) == len(before) + 1
    (left,) = [one for one in leftovers.find(tag, own=True) if one.kind == "swap"]
    assert leftovers.remove([left]) == []
    assert zram.names() == before and room.noted(tag) is None


@pytest.mark.root
def test_no_device_stays_where_its_note_has_no_room(
    tag: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = zrams()

    def full(file: Path, data: bytes) -> None:
        if data.startswith(b"/dev/"):
            raise OSError(28, "No space left on device", str(file))
        put(file, data)

    monkeypatch.setattr("ullage.host.swap.area.put", full)
    with pytest.raises(UllageError, match="No space left") as caught:
        room.turn_on(tag, "zram", 32 * MIB)
    assert caught.value.kind is errors.SWAP_UNUSABLE
    assert zram.names() == before and room.noted(tag) is None


def test_what_others_noted_or_had_before_is_not_nameless(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ULLAGE_STATE_DIR", str(tmp_path / "state"))
    removed: list[str] = []
    for tag, note in (("u0000001", "zram\nzram0"), ("u0000002", "/dev/zram1")):
        paths.state_dir(tag).mkdir(parents=True)
        (paths.state_dir(tag) / room.NOTE).write_text(note)
    monkeypatch.setattr(zram, "names", lambda: {"zram0", "zram1", "zram2"})
    monkeypatch.setattr(zram, "remove", lambda path: removed.append(str(path)))
    room.end("u0000001")
    assert removed == ["/dev/zram2"]
    assert room.noted("u0000001") is None


@pytest.mark.root
def test_a_group_may_swap_so_much(tag: str) -> None:
    group = Group.create(tag, "box-0", Limits(memory_bytes=64 * MIB))
    try:
        if group.allow_swap(64 * MIB, 0) is None:
            pytest.skip("this kernel does not limit swap by cgroup")
        allow(group, "box-0", 64 * MIB, 32 * MIB)
        allow(group, "box-0", 16 * MIB, 80 * MIB)
        assert group.limits().memory_bytes == 16 * MIB
        assert group.swapped_bytes() == 0
        with pytest.raises(UllageError) as caught:
            allow(Group(group.path, []), "box-0", 64 * MIB, 32 * MIB)
        assert caught.value.kind is errors.LIMIT_NOT_APPLIED
        assert "no limit" in caught.value.message
    finally:
        group.remove_once()


TOUCHED_TWICE = """\
import sys
sys.stdin.readline()
pages = bytearray(48 << 20)
for turn in "up", "again":
    for at in range(0, len(pages), 4096):
        pages[at] = pages[at] + 1
    print(turn, flush=True)
    sys.stdin.readline()
"""


@pytest.mark.root
def test_what_comes_back_from_swap_is_counted(tag: str) -> None:
    """Memory that is squeezed stays in swap until its program asks for it, and then is counted."""
    zrams()
    group = Group.create(tag, "box-0", Limits(memory_bytes=128 * MIB))
    try:
        if group.allow_swap(128 * MIB, 0) is None or group.returned_bytes() is None:
            pytest.skip("this kernel does not limit swap by cgroup, or does not count it")
        room.turn_on(tag, "zram", 128 * MIB)
        argv = [sys.executable, "-c", TOUCHED_TWICE]
        with subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as program:
            assert program.stdin is not None and program.stdout is not None
            try:
                for directory in group.directories:
                    (directory / "cgroup.procs").write_text(str(program.pid))
                print("", file=program.stdin, flush=True)  # what it has before is not the group's
                assert program.stdout.readline() == "up\n"
                allow(group, "box-0", 24 * MIB, 128 * MIB)
                assert (group.swapped_bytes() or 0) > 0
                squeezed = group.returned_bytes()
                print("", file=program.stdin, flush=True)
                assert program.stdout.readline() == "again\n"
                back = group.returned_bytes()
            finally:
                program.kill()
    finally:
        group.remove_once()
    assert squeezed is not None and back is not None and back - squeezed > 8 * MIB
