"""A plan's image as a disk of a cloud's: booted, with a config drive as OpenStack makes one."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ullage.common.errors import ExitCode
from ullage.environments.agent import client
from ullage.environments.agent.client import Command
from ullage.environments.clouds import boot_disk, keys
from ullage.environments.clouds.calls import Deadline
from ullage.environments.clouds.ssh import PLACE, Shell
from ullage.host import image
from ullage.host.image import Image

pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.usefixtures("agent_binary")]

PLAN = """
name: exported
baseline: native
environments: {native: {provider: native}}
workloads: [{name: sysbench-cpu}]
blocks: {min: 3, max: 3}
"""
FIRMWARE = {
    "bios": (),
    "uefi": ("-drive", "if=pflash,format=raw,readonly=on,file=/usr/share/OVMF/OVMF_CODE.fd"),
}
"""Of a cloud's machine."""

NETWORK = {
    "links": [{"id": "nic", "type": "phy", "ethernet_mac_address": "52:54:00:12:34:56"}],
    "networks": [
        {
            "id": "network0",
            "type": "ipv4",
            "link": "nic",
            "ip_address": "10.0.2.15",
            "netmask": "255.255.255.0",
            "routes": [{"network": "0.0.0.0", "netmask": "0.0.0.0", "gateway": "10.0.2.2"}],
        }
    ],
    "services": [],
}
"""As a cloud without DHCP tells it; the addresses are those of QEMU's own network."""

SERVING = (
    *(f"{PLACE}/agent", "enter", "--cpus", "0", "--root", f"{PLACE}/root"),
    *("--bind", f"{PLACE}/data:/data", "--tmpfs", "/tmp", "--tmpfs", "/run", "--hostname", "c-0"),
)


def config_drive(path: Path, public_key: str, user_data: str) -> None:
    """As in OpenStack's "config drives" documentation: a file system labelled config-2."""
    files = path.parent / "openstack" / "latest"
    files.mkdir(parents=True)
    meta = {"uuid": "75110a6e", "hostname": "exported", "public_keys": {"ullage": public_key}}
    (files / "meta_data.json").write_text(json.dumps(meta))
    (files / "user_data").write_text(user_data)
    (files / "network_data.json").write_text(json.dumps(NETWORK))
    with path.open("xb") as empty:
        empty.truncate(16 << 20)
    for argv in (
        ["/usr/sbin/mkfs.vfat", "-n", "config-2", str(path)],
        ["mcopy", "-s", "-i", str(path), str(files.parent), "::/"],
    ):
        subprocess.run(argv, check=True, capture_output=True)


@contextmanager
def booted(disk: boot_disk.BootDisk, drive: Path, firmware: str) -> Iterator[int]:
    """A machine of that cloud's, with a larger disk; the port that leads to its sshd."""
    larger = drive.with_name("larger.qcow2")
    argv = ["qemu-img", "create", "-q", "-f", "qcow2", "-F", disk.format, "-b", str(disk.path)]
    subprocess.run([*argv, str(larger), "12G"], check=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    with subprocess.Popen(
        [
            *("qemu-system-x86_64", "-nodefaults", "-display", "none", "-m", "1024", "-smp", "2"),
            *("-cpu", "max", "-accel", "tcg,thread=multi", *FIRMWARE[firmware]),
            *("-drive", f"file={larger},if=virtio", "-drive", f"file={drive},format=raw,if=virtio"),
            *("-nic", f"user,model=virtio,hostfwd=tcp:127.0.0.1:{port}-:22"),
            *("-serial", f"file:{drive.with_name('console.log')}"),
        ]
    ) as machine:
        try:
            yield port
        finally:
            machine.kill()


@pytest.fixture(scope="module")
def own() -> Image:
    return asyncio.run(image.build(["sysbench"]))


@pytest.fixture(scope="module")
def disk(own: Image, tmp_path_factory: pytest.TempPathFactory) -> boot_disk.BootDisk:
    target = tmp_path_factory.mktemp("exported") / "disk.qcow2"
    return asyncio.run(boot_disk.export(own, "openstack", target, on_progress=print))


@pytest.mark.parametrize("firmware", sorted(FIRMWARE))
def test_it_boots_and_its_image_need_not_be_sent(
    own: Image,
    disk: boot_disk.BootDisk,
    firmware: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def work() -> None:
        pair, host = [await keys.new_pair(tmp_path / name) for name in ("key", "host-key")]
        drive, known, deadline = tmp_path / "drive", tmp_path / "known_hosts", Deadline(900)
        config_drive(drive, pair.public, keys.cloud_init(host))
        with booted(disk, drive, firmware) as port:
            known.write_text(f"[127.0.0.1]:{port} {host.public}\n")
            shell = Shell("c-0", "127.0.0.1", "debian", pair.private, known, port=port)
            await shell.wait(deadline)
            sent = puts(monkeypatch)
            await shell.furnish(client.binary(), own, deadline)
            assert sent == ["the agent"]
            mounted = await shell.run(["findmnt", "-no", "PARTLABEL,OPTIONS", f"{PLACE}/root"])
            assert mounted.split()[0] == "ullage-image" and mounted.split()[1].startswith("ro")
            gateway = await shell.run(["ip", "route", "show", "default"])
            assert gateway.startswith("default via 10.0.2.2"), "or nobody outside is answered"
            system = await shell.run(["df", "--output=size", "-B1", "/"])
            assert int(system.split()[1]) > 8 << 30, "it has grown"
            await a_program_runs(shell.argv(SERVING))

    asyncio.run(work())


def puts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is sent from now on."""
    sent: list[str] = []
    put = Shell.put

    async def noted(shell: Shell, source: Path, target: str, what: str, deadline: Deadline) -> None:
        sent.append(what)
        await put(shell, source, target, what, deadline)

    monkeypatch.setattr(Shell, "put", noted)
    return sent


async def a_program_runs(argv: list[str]) -> None:
    agent = await client.AgentClient.launch(argv, deadline_s=120)
    try:
        end, stdout, _ = await agent.run(Command(argv=("sysbench", "--version")))
        assert end.status == 0 and stdout.startswith(b"sysbench 1.0")
    finally:
        await agent.bye()


@pytest.mark.usefixtures("own")
def test_told_to_end_it_leaves_nothing(tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text(PLAN)
    argv = [sys.executable, "-m", "ullage", "image", "export", str(plan), "--for", "openstack"]
    with subprocess.Popen([*argv, "--to", str(tmp_path / "disk.qcow2")]) as exporting:
        while not list(tmp_path.glob(".ullage-*/disk.raw")):
            assert exporting.poll() is None
            time.sleep(0.05)
        exporting.send_signal(signal.SIGTERM)
        assert exporting.wait(60) == ExitCode.INTERRUPTED
    assert list(tmp_path.iterdir()) == [plan]
