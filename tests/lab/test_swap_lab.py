"""Environments that swap: to compressed memory, to a file, to a device; and swap that is full."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.runkit import ran
from ullage.analysis.doubts import run as doubts
from ullage.host import leftovers
from ullage.host.swap.request import areas
from ullage.runs.reader import RunFolder

pytestmark = [pytest.mark.lab, pytest.mark.root]

PLAN = """\
name: swapping
baseline: native
resources: {{cpus: 1, memory: 96MiB}}
environments:
  native: {{provider: native, swap: {{on: {on}, size: 160MiB}}}}
  oci: {{provider: oci, swap: {{on: {on}, size: 160MiB}}}}
  lxc: {{provider: lxc, swap: {{on: {on}, size: 160MiB}}}}
  little: {{provider: oci, swap: {{on: {on}, size: 16MiB}}}}
  none: {{provider: native}}
workloads: [{{name: command, argv: [dd, if=/dev/zero, of=/dev/null, bs=140M, count=1]}}]
blocks: {{min: 1, max: 1}}
"""


@pytest.fixture
def device(tmp_path: Path) -> Iterator[Path]:
    """A block device of its own: a file on a loop."""
    file = tmp_path / "disk"
    with file.open("wb") as disk:
        disk.truncate(1 << 30)
    argv = ["losetup", "--find", "--show", str(file)]
    loop = subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()
    yield Path(loop)
    subprocess.run(["losetup", "--detach", loop], check=True)


@pytest.fixture
def directory() -> Iterator[Path]:
    """On a disk: what stands in memory cannot be swapped to."""
    place = Path("/var/tmp/ullage-swap-lab")
    place.mkdir()
    yield place
    assert list(place.iterdir()) == []
    shutil.rmtree(place)


def looked_at(place: Path, on: str | Path) -> RunFolder:
    """A run in which all that had swap enough worked, and none of it is left."""
    folder = ran(place, PLAN.format(on=on), statuses=(3,))
    reasons = {trial.environment: trial.reason for trial in folder.trials}
    assert [name for name, reason in sorted(reasons.items()) if reason is not None] == [
        "little",
        "none",
    ]
    full, none = reasons["little"], reasons["none"]
    assert full is not None and none is not None
    assert (full.code, none.code) == ("killed", "killed")
    assert f"ran out of memory, and of swap (16MiB on {on})" in full.message
    assert "ran out of memory; " in none.message
    treatments = {one.key: one.treatments for one in folder.resolved.environments}
    assert treatments["lxc"]["swap"] == f"160MiB on {on}"
    assert "swap" not in treatments["none"]
    for trial in folder.trials:
        if trial.reason is None:
            assert trial.meters["kernel"]["swapped_out"] > 0
    assert areas(Path("/proc/swaps").read_text(encoding="utf-8")) == []
    assert [one for one in leftovers.find() if one.kind == "swap"] == []
    return folder


def test_compressed_memory(tmp_path: Path) -> None:
    looked_at(tmp_path, "zram")


def test_a_file(tmp_path: Path, directory: Path) -> None:
    looked_at(tmp_path, directory)


def test_a_device(tmp_path: Path, device: Path) -> None:
    looked_at(tmp_path, device)
    assert (
        "swap"
        in subprocess.run(
            ["blkid", "-p", str(device)], capture_output=True, text=True, check=True
        ).stdout
    )


VMS = """\
name: swapping-vms
baseline: whole
resources: {cpus: 1, memory: 512MiB}
environments:
  whole: {provider: qemu, accel: tcg}
  little:
    provider: qemu
    accel: tcg
    disk: {path: PATH, size: 300MiB, cache: writeback}
    swap: {on: zram, size: 1GiB, resident: 320MiB}
  roomy: {provider: qemu, accel: tcg, swap: {on: zram, size: 1GiB, resident: 1000MiB}}
workloads:
  - {name: command, as: memory, argv: [dd, if=/dev/zero, of=/dev/null, bs=300M, count=1]}
  - {name: command, as: disk, argv: [dd, if=/dev/zero, of=/data/file, bs=1M, count=150, conv=fsync]}
again: []
blocks: {min: 1, max: 1}
"""


@pytest.fixture
def tmpfs(tmp_path: Path) -> Iterator[Path]:
    """Memory that can be swapped, as a directory."""
    place = tmp_path / "tmpfs"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400M", "tmpfs", place], check=True)
    yield place
    assert list(place.iterdir()) == []
    subprocess.run(["umount", place], check=True)


def test_vms_of_which_a_part_is_swapped(tmp_path: Path, tmpfs: Path) -> None:
    """Memory inside is alike; with a disk in memory too; one that has room says that it has."""
    folder = ran(tmp_path, VMS.replace("PATH", str(tmpfs)), statuses=(0,))
    assert all(trial.status == "ok" for trial in folder.trials) and len(folder.trials) == 8
    for trial in folder.trials:
        swapped = trial.meters["swap"]
        if trial.environment == "little":
            assert swapped["swapped"] > 64 << 20 and swapped["without"] == 0
            assert swapped["returned"] > 0 and swapped["still"] == 0
        elif trial.environment == "roomy":
            assert swapped == {"swapped": 0, "without": 1, "returned": 0, "still": 1}
        else:
            assert swapped == {}
    by_key = {one.key: one for one in folder.resolved.environments}
    assert by_key["little"].treatments["swap"] == "1GiB on zram, 320MiB resident"
    assert "tmpfs" in by_key["little"].treatments["data on"]
    assert {one.nuisances["memory"] for one in by_key.values()} == {"512MiB"}
    (doubt,) = [one for one in doubts.of_run(folder, ()) if one.code == "never-swapped"]
    assert "in 2 trials, of memory in roomy, disk in roomy" in doubt.message.replace(
        "disk in roomy, memory in roomy", "memory in roomy, disk in roomy"
    )
    assert areas(Path("/proc/swaps").read_text(encoding="utf-8")) == []
