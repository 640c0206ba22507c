"""Two disks in one run: `/data` of native, containers and a VM on file systems of their own."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.dockerkit import daemon
from tests.lab.runkit import ran
from tests.lab.traces import left_by
from ullage.host import storage

pytestmark = [pytest.mark.lab, pytest.mark.root]

PLAN = """\
name: disks
baseline: first
resources: {{cpus: 1, memory: 256MiB}}
environments:
  first: {{provider: native, disk: {{path: {first}}}}}
  second: {{provider: native, disk: {{path: {second}}}}}
  crun: {{provider: oci, disk: {{path: {second}}}}}
  lxc: {{provider: lxc, disk: {{path: {second}}}}}
  vm:
    provider: qemu
    accel: tcg
    boot_deadline_s: 400
    disk: {{path: {second}, size: 64MiB, aio: io_uring}}
    vary: {{disk.bus: [virtio, scsi, sata, nvme]}}
workloads:
  - {{name: sysbench-fileio, time_s: 1, total_size: 16MiB, files: 1}}
blocks: {{min: 1, max: 1}}
"""


@pytest.fixture
def disks(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """Two mounted file systems, each on a loop device of its own."""
    points = []
    try:
        for name in ("first", "second"):
            image, point = tmp_path / f"{name}.img", tmp_path / name
            with image.open("xb") as file:
                file.truncate(1 << 30)
            subprocess.run(["mkfs.ext4", "-q", str(image)], check=True)
            point.mkdir()
            subprocess.run(["mount", "-o", "loop", str(image), str(point)], check=True)
            points.append(point)
        yield points[0], points[1]
    finally:
        for point in points:
            subprocess.run(["umount", str(point)], check=True)


def test_an_environment_stands_on_its_disk(tmp_path: Path, disks: tuple[Path, Path]) -> None:
    first, second = disks
    folder = ran(tmp_path, PLAN.format(first=first, second=second))
    assert [(t.trial, t.environment, t.reason) for t in folder.trials if t.status != "ok"] == []
    standing = {e.key: e.treatments.get("data on") for e in folder.resolved.environments}
    for key, words in standing.items():
        path = first if key.startswith("first") else second
        assert words == f"{path}: {storage.disk(path)}", key
        assert "/dev/loop" in str(words)
    buses = [e.treatments["disk"] for e in folder.resolved.environments if e.provider == "qemu"]
    assert [words.partition(",")[0] for words in buses] == [
        "virtio-blk",
        "virtio-scsi",
        "AHCI",
        "NVMe",
    ]
    assert all(words.endswith("io_uring") for words in buses)
    assert left_by(folder.path.parent) == []
    for path in disks:
        assert [entry.name for entry in path.iterdir()] == ["lost+found"]


FULL = """\
name: full
baseline: native
resources: {{cpus: 1, memory: 256MiB}}
environments:
  native: {{provider: native}}
  crun: {{provider: oci, disk: {{path: {small}}}}}
  vm:
    provider: qemu
    accel: tcg
    boot_deadline_s: 400
    disk: {{path: {small}, size: 4GiB}}
    vary: {{disk.bus: [virtio, scsi, sata, nvme]}}
workloads:
  - {{name: sysbench-fileio, time_s: 1, total_size: 1536MiB, files: 1}}
blocks: {{min: 1, max: 1}}
"""


def test_a_disk_that_fills_fails_the_trials_and_halts_nobody(
    tmp_path: Path, disks: tuple[Path, Path]
) -> None:
    small, _ = disks
    folder = ran(tmp_path, FULL.format(small=small), (3,))
    for trial in folder.trials:
        assert (trial.status == "ok") == trial.environment.startswith("native"), trial.reason
    assert left_by(folder.path.parent) == []
    assert [entry.name for entry in small.iterdir()] == ["lost+found"]


DEVICES = """\
name: devices
baseline: first
resources: {{cpus: 1, memory: 256MiB}}
environments:
  first: {{provider: native, disk: {{path: {first}, file_system: xfs}}}}
  crun: {{provider: oci, disk: {{path: {first}, file_system: xfs}}}}
  lxc: {{provider: lxc, disk: {{path: {second}}}}}
workloads:
  - {{name: sysbench-fileio, time_s: 1, total_size: 16MiB, files: 1}}
blocks: {{min: 1, max: 1}}
"""


@pytest.fixture
def loops(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """Two empty block devices."""
    devices = []
    try:
        for name in ("first", "second"):
            image = tmp_path / f"{name}.img"
            with image.open("xb") as file:
                file.truncate(3 << 30)
            argv = ["losetup", "--find", "--show", str(image)]
            done = subprocess.run(argv, check=True, capture_output=True, text=True)
            devices.append(Path(done.stdout.strip()))
        yield devices[0], devices[1]
    finally:
        for device in devices:
            subprocess.run(["losetup", "--detach", str(device)], check=True)


def test_block_devices_and_file_systems(tmp_path: Path, loops: tuple[Path, Path]) -> None:
    first, second = loops
    folder = ran(tmp_path, DEVICES.format(first=first, second=second))
    assert [(t.trial, t.environment, t.reason) for t in folder.trials if t.status != "ok"] == []
    treatments = {e.key: e.treatments for e in folder.resolved.environments}
    assert treatments["first"]["data on"].startswith(f"xfs on {first}")
    assert treatments["lxc"]["data on"].startswith(f"ext4 on {second}")
    assert left_by(folder.path.parent) == []
    mounted = Path("/proc/mounts").read_text()
    assert str(first) not in mounted and str(second) not in mounted


INSIDE = """\
name: inside
baseline: vm
resources: {{cpus: 1, memory: 256MiB}}
environments:
  vm:
    provider: qemu
    accel: tcg
    boot_deadline_s: 400
    disk: {{path: {device}, size: 1GiB, file_system: {kind}}}
workloads:
  - {{name: sysbench-fileio, time_s: 1, total_size: 16MiB, files: 1}}
blocks: {{min: 1, max: 1}}
"""


@pytest.mark.parametrize("kind", ["xfs", "btrfs"])
def test_a_vm_has_the_file_system_inside(
    tmp_path: Path, loops: tuple[Path, Path], kind: str
) -> None:
    """And the file of its disk stands on one of the same kind."""
    device, _ = loops
    folder = ran(tmp_path, INSIDE.format(device=device, kind=kind))
    assert [(t.trial, t.environment, t.reason) for t in folder.trials if t.status != "ok"] == []
    (vm, *_) = folder.resolved.environments
    assert vm.treatments["disk"].endswith(f"{kind} inside")
    assert vm.treatments["data on"].startswith(f"{kind} on {device}")
    assert left_by(folder.path.parent) == []


ENGINES = """\
name: engines
baseline: native
resources: {{cpus: 1, memory: 256MiB}}
environments:
  native: {{provider: native, disk: {{path: {first}}}}}
  docker: {{provider: oci, runtime: docker, disk: {{path: {second}}}}}
  podman: {{provider: oci, runtime: podman, disk: {{path: {second}}}}}
workloads:
  - {{name: sysbench-fileio, time_s: 1, total_size: 16MiB, files: 1}}
blocks: {{min: 1, max: 1}}
"""


def test_docker_and_podman(tmp_path: Path, disks: tuple[Path, Path]) -> None:
    first, second = disks
    place = tmp_path / "docker"
    place.mkdir()
    with daemon(place):
        folder = ran(tmp_path, ENGINES.format(first=first, second=second))
    assert [(t.trial, t.environment, t.reason) for t in folder.trials if t.status != "ok"] == []
    for key in ("docker", "podman"):
        (record,) = [e for e in folder.resolved.environments if e.key == key]
        assert record.treatments["data on"] == f"{second}: {storage.disk(second)}"
    assert left_by(folder.path.parent) == []
    assert [entry.name for entry in second.iterdir()] == ["lost+found"]
