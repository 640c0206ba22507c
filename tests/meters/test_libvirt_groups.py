"""Where libvirtd puts the processes of a domain: by itself, or by systemd's machined."""

from __future__ import annotations

from pathlib import Path

import pytest

from ullage.meters import process_groups
from ullage.meters.base import Scene
from ullage.meters.process_groups import members

TAG = "u0123456"


@pytest.mark.parametrize(
    "group",
    [
        f"machine/qemu-7-ullage-{TAG}-vm-0.libvirt-qemu/emulator",
        rf"machine.slice/machine-qemu\x2d7\x2dullage\x2d{TAG}\x2dvm\x2d0.scope/libvirt/emulator",
    ],
)
def test_a_domains_group(group: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = tmp_path / "cgroup" / group
    directory.mkdir(parents=True)
    (directory / "cgroup.procs").write_text("10\n")
    process = tmp_path / "proc/10"
    process.mkdir(parents=True)
    (process / "exe").symlink_to("/usr/bin/qemu-system-x86_64")
    monkeypatch.setattr(process_groups, "_roots", lambda: ())
    monkeypatch.setattr(process_groups, "_trees", lambda: (tmp_path / "cgroup",))
    assert members(Scene(TAG, ("vm-0",)), tmp_path / "proc") == {10: "hypervisor"}
    assert members(Scene(TAG, ("vm-01", "vm")), tmp_path / "proc") == {}
