"""`docs/plans/hyper-v.yaml`, as it is in the docs but for the host, the disks and the sizes.

On a double: its guests are this host's kernel and CPUs, and their Windows is Wine (not Windows).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from testing.hyperv.host import HypervDouble, hyperv_host
from tests.lab.runkit import finished
from ullage.analysis.overhead import analyse
from ullage.analysis.sentences import answer

pytestmark = [
    pytest.mark.lab,
    pytest.mark.root,
    pytest.mark.timeout(900),
    pytest.mark.usefixtures("agent_binary"),
]

SHIPPED = Path(__file__).parents[2] / "docs/plans/hyper-v.yaml"
DISKS = {"debian12.vhdx": False, "server2022.vhdx": True}


@pytest.fixture
def double() -> Iterator[HypervDouble]:
    """A host with the two parent disks of the plan."""
    with hyperv_host() as host:
        images = host.folder / "c/images"
        disk = json.loads((images / "debian.vhdx").read_text())
        for name, windows in DISKS.items():
            (images / name).write_text(json.dumps({**disk, "windows": windows}))
        yield host


def small(double: HypervDouble) -> str:
    """The plan, with the double's way to its guests, who see the whole host, and little work."""
    text = SHIPPED.read_text(encoding="utf-8")
    fields = double.plan()
    host = f"{{host}}\n    ssh_config: {fields['ssh_config']}"
    key = text.partition("    host_key: ")[2].partition("\n")[0]
    changes = {
        "{cpus: 1, memory: 2GiB}": (1, f"{{cpus: {double.state['cpus']}, memory: host}}"),
        "Administrator@hv1": (2, host.format(host=fields["host"])),
        "/root/.ssh/guest": (2, fields["key"]),
        key: (2, fields["host_key"]),
        "user: Administrator\n": (1, "user: root\n"),
        "events: 10000}": (1, "events: 5}"),
        "time_s: 10\n": (1, "time_s: 1\n"),
        "[16KiB, 32KiB, 64KiB, 128KiB, 256KiB, 512KiB, 1MiB]": (1, "[16KiB, 1MiB]"),
        "total_size: 100GiB": (1, "total_size: 8MiB"),
        "block_size: 400MiB": (1, "block_size: 32KiB"),
        "blocks: {min: 6, max: 40}": (1, "blocks: {min: 3, max: 3}\nseed: 5"),
    }
    for shipped, (count, ours) in changes.items():
        assert text.count(shipped) == count, shipped
        text = text.replace(shipped, ours)
    return text


def test_every_sentence_names_both_systems(double: HypervDouble, tmp_path: Path) -> None:
    status, folder = finished(tmp_path, small(double))
    assert status == 0
    of_windows = [trial for trial in folder.trials if trial.environment == "windows"]
    assert len(of_windows) == 6 * 3
    assert {trial.status for trial in folder.trials} == {"ok"}
    print("\n".join(answer(analyse(folder))))
    sentences = [line for line in answer(analyse(folder)) if "hyperv (Windows)" in line]
    text = " ".join(sentences).lower()
    for name in ("cpu", "block_size 16kib", "block_size 1mib", "files", "scheduler", "locks"):
        assert name in text
    for sentence in sentences:
        assert "Wine 8.0 (not Windows) against Debian 12, as the plan allows" in sentence
    assert double.left() == []
