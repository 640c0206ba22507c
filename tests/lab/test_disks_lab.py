"""Two disks in one run: `/data` of native, containers and a VM on file systems of their own."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

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
