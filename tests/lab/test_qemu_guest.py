"""Real guests, emulated: boots, networks, disks, clones, death, and KVM one level down."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import sys
import tarfile
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

import ullage
from ullage.environments.agent.client import AgentClient, Command
from ullage.environments.base import Instance, InstanceSpec
from ullage.environments.qemu.options import QemuOptions
from ullage.environments.qemu.provider import Qemu
from ullage.host import claims, guest_kernel, image, paths
from ullage.host.cgroups import Group
from ullage.host.network.bridge import Network

pytestmark = [pytest.mark.lab, pytest.mark.root]
GIB = 1 << 30


@pytest.fixture
def live(
    tag: str, agent_binary: Path
) -> Callable[[dict[str, object], int, Callable[[list[Instance], Network], Awaitable[None]]], None]:
    """Boots clones on a bridge, lets the test look, and sees that nothing is left."""

    def run(
        fields: dict[str, object],
        count: int,
        look: Callable[[list[Instance], Network], Awaitable[None]],
    ) -> None:
        asyncio.run(_live(tag, agent_binary, fields, count, look))
        assert Group.find(tag).directories == []
        assert not list(Path("/sys/class/net").glob(f"{tag}-*"))
        assert not [p for p in paths.data_dir(tag).rglob("*") if p.is_file()]

    return run


async def _live(
    tag: str,
    agent: Path,
    fields: dict[str, object],
    count: int,
    look: Callable[[list[Instance], Network], Awaitable[None]],
) -> None:
    claims.claim(tag, "lab")
    provider = Qemu(QemuOptions.model_validate(fields | {"accel": "tcg"}))
    await provider.check()
    built = await image.build(["iperf3", *provider.packages()])
    network = await Network.create(tag)
    try:
        specs = [_spec(tag, agent, built, network, number) for number in range(count)]
        instances = await asyncio.gather(*map(provider.create, specs))
        try:
            await look(instances, network)
        finally:
            await asyncio.gather(*(instance.destroy() for instance in instances))
        assert not any(instance.alive for instance in instances)
    finally:
        await network.destroy()


def _spec(tag: str, agent: Path, built: image.Image, network: Network, number: int) -> InstanceSpec:
    name = f"vm-{number}"
    state, data = paths.state_dir(tag) / name, paths.data_dir(tag) / name
    state.mkdir()
    data.mkdir()
    return InstanceSpec(
        tag=tag,
        name=name,
        cpu_ids=(0, 1),
        cpu_quota=None,
        memory_bytes=GIB,
        image=built,
        agent=agent,
        state_dir=state,
        data_dir=data,
        network=network,
    )


async def inside(agent: AgentClient, *argv: str) -> str:
    done, stdout, stderr = await agent.run(Command(argv=argv, timeout_s=300))
    assert done.status == 0, (argv, stdout, stderr)
    return stdout.decode()


async def ping(root: Path, address: str) -> bool:
    """From the host, with the image's own program: a host need not have one."""
    process = await asyncio.create_subprocess_exec(
        "chroot", root, "ping", "-nqc3", "-i0.2", "-W5", address, stdout=asyncio.subprocess.DEVNULL
    )
    return await process.wait() == 0


Live = Callable[
    [dict[str, object], int, Callable[[list[Instance], Network], Awaitable[None]]], None
]


@pytest.mark.parametrize(
    ("mode", "links", "nic"), [("balance-rr", 2, "virtio"), ("balance-xor", 3, "e1000")]
)
def test_nics_that_are_one(live: Live, mode: str, links: int, nic: str) -> None:
    names = [f"link{number}" for number in range(links)]

    async def sent(agent: AgentClient) -> list[int]:
        files = [f"/sys/class/net/{name}/statistics/tx_packets" for name in names]
        return [int(text) for text in (await inside(agent, "cat", *files)).split()]

    async def look(instances: list[Instance], network: Network) -> None:
        vm, peer = instances
        assert peer.address is not None
        assert mode in await inside(vm.agent, "cat", "/sys/class/net/eth0/bonding/mode")
        assert await inside(vm.agent, "cat", "/sys/class/net/eth0/bonding/slaves") == (
            " ".join(names) + "\n"
        )
        await inside(vm.agent, "ping", "-nqc3", "-i0.2", "-W5", network.gateway)
        await inside(peer.agent, "iperf3", "-s", "-D")
        before = await sent(vm.agent)
        await inside(vm.agent, "iperf3", "-c", peer.address, "-t2", "-P8")
        moved = [after - first for after, first in zip(await sent(vm.agent), before, strict=True)]
        assert sum(count > sum(moved) / 20 for count in moved) > 1, moved
        if mode == "balance-rr":
            assert min(moved) > 0.9 * max(moved)

    aggregation = {"mode": mode, "links": links}
    live({"nic": nic, "aggregation": aggregation}, 2, look)


@pytest.mark.parametrize("machine", ["q35", "pc"])
@pytest.mark.parametrize(
    ("nic", "driver", "disk"),
    [
        ("virtio", "virtio_net", {"format": "raw", "cache": "none"}),
        ("e1000", "e1000", {"format": "qcow2", "size": "2GiB", "cache": "writeback"}),
        ("e1000e", "e1000e", {"bus": "nvme", "aio": "native"}),
        ("vmxnet3", "vmxnet3", {"bus": "scsi", "aio": "io_uring"}),
    ],
)
def test_nics_and_disks(
    live: Live, machine: str, nic: str, driver: str, disk: dict[str, object]
) -> None:
    async def look(instances: list[Instance], network: Network) -> None:
        (vm,) = instances
        assert vm.spec.image is not None
        assert vm.address is not None
        assert await ping(vm.spec.image.root, vm.address)
        await inside(vm.agent, "ping", "-nqc3", "-i0.2", "-W5", network.gateway)
        modules = await inside(vm.agent, "ls", "/sys/class/net/eth0/device/driver/module/drivers")
        assert driver in modules
        size = await inside(vm.agent, "df", "--output=size", "-B1", "/data")
        assert int(size.split()[-1]) > 0.9 * ((disk.get("size") == "2GiB" and 2) or 4) * GIB
        argv = ("dd", "if=/dev/zero", "of=/data/f", "bs=1M", "count=64", "oflag=direct")
        await inside(vm.agent, *argv)
        clock = await inside(
            vm.agent, "cat", "/sys/devices/system/clocksource/clocksource0/current_clocksource"
        )
        assert clock.strip() in {"tsc", "hpet"}
        assert vm.agent.facts["cpus_online"] == 2

    live({"nic": nic, "disk": disk, "machine": machine}, 1, look)


def test_several_queues_and_no_offloads(live: Live) -> None:
    async def look(instances: list[Instance], network: Network) -> None:
        (vm,) = instances
        queues = await inside(vm.agent, "ls", "/sys/class/net/eth0/queues")
        assert [name for name in queues.split() if name.startswith("rx")] == ["rx-0", "rx-1"]
        features = await inside(vm.agent, "cat", "/sys/class/net/eth0/device/features")
        # Bits 0 and 1, checksums left to the other side; 7 to 14, segmentation. Virtio 1.1, 5.1.3.
        assert features[0:2] == "00"
        assert "1" not in features[7:15]
        assert features[22] == "1", "VIRTIO_NET_F_MQ"
        await inside(vm.agent, "ping", "-nqc3", "-i0.2", "-W5", network.gateway)

    live({"queues": 2, "offloads": False}, 1, look)


def test_systemd_boots(live: Live) -> None:
    async def look(instances: list[Instance], network: Network) -> None:
        (vm,) = instances
        assert vm.agent.facts["init"] is False
        state = await inside(vm.agent, "systemctl", "is-system-running")
        assert state == "running\n"
        await inside(vm.agent, "touch", "/etc/written")
        await inside(vm.agent, "ping", "-nqc3", "-i0.2", "-W5", network.gateway)

    live({"boot": "systemd"}, 1, look)


def test_roots_of_their_own(live: Live) -> None:
    """Each is a file of its VM's, that its QEMU has open, and not the image's."""

    async def look(instances: list[Instance], network: Network) -> None:
        assert network.gateway
        for vm in instances:
            (pid,) = Group.find(vm.spec.tag, vm.name).pids()
            files = {fd.resolve() for fd in Path(f"/proc/{pid}/fd").iterdir()}
            assert vm.spec.image is not None
            assert vm.spec.data_dir / f"{vm.name}-root.raw" in files
            assert vm.spec.image.disk_path("raw") not in files
            await inside(vm.agent, "sha256sum", "/bin/bash")

    live({"disk": {"root": "own"}}, 2, look)


def test_clones_death_and_freezing(live: Live) -> None:
    async def look(instances: list[Instance], network: Network) -> None:
        assert len({vm.address for vm in instances}) == 3
        first, second, third = instances
        assert second.address is not None
        await inside(first.agent, "ping", "-nqc3", "-i0.2", "-W5", second.address)
        await second.freeze()
        await first.agent.run(Command(argv=("true",)))
        before = second.agent.clock.offset_ns
        await asyncio.sleep(2)
        await second.thaw()
        # The VM's clock stood still; ours did not.
        assert second.agent.clock.offset_ns - before > 1_900_000_000
        await inside(second.agent, "true")
        (pid,) = Group.find(third.spec.tag, third.name).pids()
        os.kill(pid, signal.SIGKILL)
        while third.alive:
            await asyncio.sleep(0.01)
        assert first.alive
        await inside(first.agent, "true")

    live({}, 3, look)


def test_kvm_one_level_down(tag: str, agent_binary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The probe finds KVM that works: inside an emulated CPU with AMD-V."""
    inner = asyncio.run(guest_kernel.guest_kernel(agent_binary))
    monkeypatch.setattr(guest_kernel, "MODULES", (*guest_kernel.MODULES, "kvm_amd"))

    async def probe() -> str:
        claims.claim(tag, "lab")
        provider = Qemu(QemuOptions.model_validate({"accel": "tcg", "network": "user"}))
        await provider.check()
        built = await image.build(["python3", "qemu-system-x86"])
        network = await Network.create(tag)
        spec = _spec(tag, agent_binary, built, network, 0)
        vm = await provider.create(spec)
        try:
            return await _probe_inside(vm.agent, inner)
        finally:
            await vm.destroy()
            await network.destroy()

    assert asyncio.run(probe()) == "Probe(works=True, reason='a guest booted with KVM')\n"


async def _probe_inside(agent: AgentClient, inner: guest_kernel.GuestKernel) -> str:
    await inside(agent, "mkdir", "/data/py")
    await agent.put(await asyncio.to_thread(_library), "/data/library.tar")
    await agent.put(inner.kernel, "/data/kernel")
    await agent.put(inner.initrd, "/data/initrd")
    await inside(agent, "tar", "-xf", "/data/library.tar", "-C", "/data/py")
    program = (
        "import asyncio, pathlib\n"
        "from ullage.environments.qemu.probe import kvm\n"
        "from ullage.host.guest_kernel import GuestKernel\n"
        "where = pathlib.Path('/data')\n"
        "kernel = GuestKernel('6', 'inner 6', where / 'kernel', where / 'initrd')\n"
        "print(asyncio.run(kvm(kernel)))\n"
    )
    env = {"PYTHONPATH": "/data/py", "ULLAGE_CACHE_DIR": "/data/cache"}
    command = Command(argv=("python3", "-c", program), env=env, timeout_s=280)
    done, stdout, stderr = await agent.run(command)
    assert done.status == 0, stderr.decode()
    return stdout.decode()


def _library() -> bytes:
    """ullage and what its provider imports, for the Python inside."""
    package = Path(ullage.__file__).parent
    site = next(Path(p) for p in sys.path if p.endswith("site-packages"))
    names = ("pydantic", "pydantic_core", "qemu", "annotated_types", "typing_inspection")
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.add(package, "ullage")
        archive.add(site / "typing_extensions.py", "typing_extensions.py")
        for name in names:
            archive.add(site / name, name)
    return buffer.getvalue()
