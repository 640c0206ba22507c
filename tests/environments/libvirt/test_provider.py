"""The libvirt provider: what a plan may say, and a real VM from a real libvirtd."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from tests.environments import containerkit as kit
from tests.support.libvirtkit import Libvirtd
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.environments.base import InstanceSpec
from ullage.environments.libvirt import connection
from ullage.environments.libvirt.options import LibvirtOptions
from ullage.environments.libvirt.provider import Libvirt
from ullage.environments.qemu.provider import QemuInstance
from ullage.host import user_commands
from ullage.nodes import doctor


def options(**fields: Any) -> LibvirtOptions:
    return LibvirtOptions.model_validate(fields)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"uri": "lxc:///system"}, "write `provider: lxc`"),
        ({"uri": "xen:///system"}, "write `provider: xen`"),
        ({"uri": "vbox:///session"}, "of libvirt's drivers only `qemu`"),
        ({"uri": "qemu:///session"}, "VMs of one user have no tap"),
        ({"uri": "qemu+tcp://me:secret@far/system"}, "a password does not belong"),
        ({"uri": "qemu"}, "String should match"),
        ({"network": "user"}, "Input should be"),
        ({"disk": {"bus": "nvme"}}, "write `provider: qemu`"),
        ({"hugepages": "2MiB"}, "`hugepages` is of `provider: qemu` alone"),
        (
            {"swap": {"on": "zram", "size": "1GiB", "resident": "256MiB"}},
            "`swap` is of `provider: qemu` alone",
        ),
        ({"vcpus": "pinned"}, "`vcpus` is of `provider: qemu` alone"),
        ({"nic": "e1000", "vhost": True}, "`vhost` is of a virtio NIC"),
    ],
)
def test_what_libvirt_cannot_do_is_refused_in_the_plan(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError) as caught:
        options(**fields)
    assert says in str(caught.value)


def test_what_it_can_do_is_taken() -> None:
    assert options().uri == "qemu:///system"
    for uri in ("qemu+ssh://root@localhost/system", "qemu:///system?socket=/run/l/libvirt-sock"):
        assert options(uri=uri).uri == uri


def test_it_needs_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(UllageError) as caught:
        asyncio.run(Libvirt(options()).check_at_once())
    assert caught.value.kind is errors.HOST_NEEDS_ROOT


@pytest.mark.root
def test_without_libvirtd_it_says_what_to_start(tmp_path: Path) -> None:
    provider = Libvirt(options(uri=f"qemu:///system?socket={tmp_path}/none"))
    with pytest.raises(UllageError) as caught:
        asyncio.run(provider.check_at_once())
    assert caught.value.kind is errors.HOST_NO_ANSWER


@pytest.mark.root
def test_who_has_no_libvirt_misses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def away(uri: str) -> None:
        raise UllageError(errors.HOST_NO_ANSWER, what=uri, reason="no socket", command="start it")

    monkeypatch.setattr(connection, "_open", away)
    row = asyncio.run(doctor._provider(Libvirt))
    assert (row.what, row.state) == ("provider libvirt", "limited")
    assert "no socket" in row.detail


SMALL = {"accel": "tcg", "boot_deadline_s": 240, "disk": {"size": "64MiB"}}


OFFLOADS = (0, 1, *range(7, 15))
"""Bits of virtio 1.2, 5.1.3: checksums and segmentation, of either side."""


async def features(vm: QemuInstance) -> str:
    """The bits of virtio that guest and host have agreed on, the lowest first."""
    return (await kit.sh(vm, "cat /sys/class/net/eth0/device/features"))[1].strip()


@pytest.mark.root
def test_a_real_vm(daemon: Libvirtd) -> None:
    provider = Libvirt(options(uri=daemon.uri, offloads=False, **SMALL))

    async def scenario() -> None:
        async with kit.running(provider) as run:
            spec = replace(run.spec("vm-0"), cpu_quota=0.9)
            vm = await run.create(spec)
            assert isinstance(vm, QemuInstance)
            assert daemon.domains() == [f"ullage-{run.tag}-vm-0"]
            assert provider.label() == "libvirt-tcg (emulated)"
            assert provider.treatments()["made by"].startswith("libvirt ")
            assert vm.agent.facts["cpus_online"] == 1
            agreed = await features(vm)
            assert agreed[5] == "1"  # a MAC of its own
            assert {agreed[bit] for bit in OFFLOADS} == {"0"}
            done, _ = await kit.sh(vm, "echo x > /etc/x")
            assert done.status != 0  # the root is the image's, and read-only
            gateway = run.network.gateway
            assert (await kit.sh(vm, f"ping -nqc3 -i0.2 -W5 {gateway}"))[0].status == 0
            await _stands_still_while_frozen(vm)
            assert await vm.memory_kills() == 0
            await vm.destroy()
            await vm.destroy()
            assert daemon.domains() == []
            _remove_rooms(spec)
            assert run.tag not in {removal.tag for removal in user_commands.records()}

    asyncio.run(scenario())


def _remove_rooms(spec: InstanceSpec) -> None:
    """Which the engine has made, and it alone removes; nothing is in them."""
    spec.state_dir.rmdir()
    spec.data_dir.rmdir()


async def _stands_still_while_frozen(vm: QemuInstance) -> None:
    def used() -> int:
        fields = Path(f"/proc/{vm.pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    await vm.freeze()
    before = used()
    await asyncio.sleep(0.5)
    assert used() - before <= 5  # hundredths of a second; its monitor still runs
    await vm.thaw()
    assert (await kit.sh(vm, "true"))[0].status == 0


@pytest.mark.root
def test_a_vm_without_a_network_has_no_nic(daemon: Libvirtd) -> None:
    provider = Libvirt(options(uri=daemon.uri, **SMALL))

    async def scenario() -> None:
        async with kit.running(provider) as run:
            spec = replace(run.spec("vm-0"), network=None)
            vm = await run.create(spec)
            assert vm.address is None
            assert (await kit.sh(vm, "ls /sys/class/net"))[1].split() == ["lo"]
            await vm.destroy()
            _remove_rooms(spec)

    asyncio.run(scenario())
