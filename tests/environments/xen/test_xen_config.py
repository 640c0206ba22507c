"""The configuration that `xl` gets."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ullage.environments.xen.config import BlockDevice, Domain, Vif, configuration, vif_script
from ullage.host.guest_kernel import GuestKernel

DOMAIN = Domain(
    name="ullage-u0000000-vm-0",
    uuid="5d0e3f37-2f64-4d0c-9c1c-f7fd6c0f5c11",
    mode="pvh",
    cpu_ids=(0, 2),
    cpu_quota=None,
    memory_bytes=512 << 20,
    kernel=GuestKernel(
        "6.1", "linux-image 6.1", Path("/k/vmlinux"), Path("/k/initrd"), Path("/k/z")
    ),
    words=("console=hvc0", "quiet"),
    disks=(BlockDevice(Path("/d/root"), "qcow2"), BlockDevice(Path("/d/vm-0, data"), "raw")),
    vif=Vif("u0000000-v2", "02:00:00:00:00:02", "u0000000-br", Path("/run/vif")),
    channel=Path("/run/vm-0/agent.sock"),
)


def fields(domain: Domain) -> dict[str, Any]:
    """As the file says them; each is on a line of its own."""
    pairs = (line.split(" = ", 1) for line in configuration(domain).splitlines())
    return {name: json.loads(value) for name, value in pairs}


def test_a_domain_is_the_vm_of_the_plan() -> None:
    assert fields(DOMAIN) == {
        "name": "ullage-u0000000-vm-0",
        "uuid": "5d0e3f37-2f64-4d0c-9c1c-f7fd6c0f5c11",
        "type": "pvh",
        "vcpus": 2,
        "cpus": "0,2",
        "memory": 512,
        "maxmem": 512,
        "kernel": "/k/vmlinux",
        "ramdisk": "/k/initrd",
        "cmdline": "console=hvc0 quiet",
        "disk": [
            "format=qcow2,vdev=xvde,access=rw,backendtype=qdisk,target=/d/root",
            "format=raw,vdev=xvdf,access=rw,backendtype=qdisk,target=/d/vm-0, data",
        ],
        "vif": ["type=vif,mac=02:00:00:00:00:02,bridge=u0000000-br,script=/run/vif"],
        "channel": [
            "connection=pty,name=ullage.nothing",
            "connection=socket,path=/run/vm-0/agent.sock,name=ullage.agent",
        ],
        "on_poweroff": "destroy",
        "on_reboot": "destroy",
        "on_crash": "destroy",
    }


def test_without_a_workload_on_the_network_it_has_no_nic() -> None:
    assert fields(replace(DOMAIN, vif=None))["vif"] == []


@pytest.mark.parametrize(("quota", "cap"), [(0.5, 50), (1.5, 150), (None, None)])
def test_a_part_of_a_cpu_is_a_cap(quota: float | None, cap: int | None) -> None:
    assert fields(replace(DOMAIN, cpu_quota=quota)).get("cap") == cap


def test_a_whole_machine_has_no_screen() -> None:
    assert fields(replace(DOMAIN, mode="hvm"))["vnc"] == 0
    assert fields(replace(DOMAIN, mode="hvm"))["kernel"] == "/k/z", "QEMU loads it there"
    assert "vnc" not in fields(replace(DOMAIN, mode="pv"))


def test_its_nic_is_plugged_in_by_a_script_that_asks_nobody() -> None:
    assert DOMAIN.vif
    script = vif_script(DOMAIN.vif)
    assert 'ip link set dev "$vif" name u0000000-v2\n' in script
    assert "ip link set dev u0000000-v2 master u0000000-br up\n" in script
    assert script.endswith('xenstore-write "$XENBUS_PATH/hotplug-status" connected\n')
    done = subprocess.run(["sh", "-c", script, "vif", "offline"], check=False)
    assert done.returncode == 0, "that it goes needs nothing of us"
