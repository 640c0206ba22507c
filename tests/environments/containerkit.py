"""What the tests of container providers share: a run of one network, and what it must not leave."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import cache, wraps
from pathlib import Path
from typing import Any

import pytest

from ullage.common import errors
from ullage.environments.agent import client
from ullage.environments.agent.client import Command, ProgramEnd
from ullage.environments.base import Instance, InstanceSpec, Provider
from ullage.host import cgroups, claims, paths
from ullage.host.image import Image, build
from ullage.host.network import bridge
from ullage.host.network.bridge import Network
from ullage.host.network.iproute import within

MIB = 1 << 20
BUSY = ("sh", "-c", "while :; do :; done")


@cache
def image() -> Image:
    """The base image: kept in the cache, so only the first test of all waits for it."""
    images: list[Image] = []
    # A thread of its own: tests call this from within a running event loop.
    thread = threading.Thread(target=lambda: images.append(asyncio.run(build(()))))
    thread.start()
    thread.join()
    return images[0]


def bare_spec(**fields: Any) -> InstanceSpec:
    """A specification that nothing is made from."""
    nowhere = Path("/nowhere")
    bare = InstanceSpec(
        tag="u0000000",
        name="c-0",
        cpu_ids=(0,),
        cpu_quota=None,
        memory_bytes=256 * MIB,
        image=None,
        agent=nowhere,
        state_dir=nowhere,
        data_dir=nowhere,
        network=None,
    )
    return replace(bare, **fields)


@dataclass
class Run:
    """One run: a tag, a bridge, and the instances that a test makes."""

    tag: str
    network: Network
    provider: Provider
    instances: list[Instance]

    def spec(self, name: str = "c-0", *, host: bool = False) -> InstanceSpec:
        state, data = paths.state_dir(self.tag) / name, paths.data_dir(self.tag) / name
        state.mkdir(exist_ok=True)
        data.mkdir(exist_ok=True)
        return InstanceSpec(
            tag=self.tag,
            name=name,
            cpu_ids=(0,),
            cpu_quota=None,
            memory_bytes=256 * MIB,
            image=None if host else image(),
            agent=client.binary(),
            state_dir=state,
            data_dir=data,
            network=self.network,
        )

    async def create(self, spec: InstanceSpec | None = None) -> Instance:
        instance = await self.provider.create(spec or self.spec())
        self.instances.append(instance)
        return instance


def in_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """The test, as pytest can call it."""

    @wraps(test)
    def run(**fixtures: Any) -> None:
        asyncio.run(test(**fixtures))

    return run


@asynccontextmanager
async def running(provider: Provider) -> AsyncIterator[Run]:
    tag = paths.new_tag()
    claims.claim(tag, "/nowhere")
    try:
        await provider.check()
        run = Run(tag, await Network.create(tag), provider, [])
        try:
            yield run
        finally:
            for instance in run.instances:
                await instance.destroy()
            remains = leftovers(tag)
            await run.network.destroy()
    finally:
        for directory in (paths.state_dir(tag), paths.data_dir(tag)):
            subprocess.run(["rm", "-rf", directory], check=True)
    assert remains == []


def leftovers(tag: str) -> list[str]:
    """Everything of the run that is still there, but for what the run itself made."""
    remains = [str(p) for p in Path("/run/netns").glob(f"{tag}*")]
    remains += [p.name for p in Path("/sys/class/net").glob(f"{tag}*") if p.name != f"{tag}-br"]
    remains += [str(d) for d in cgroups.Group.find(tag).directories]
    remains += [line for line in Path("/proc/mounts").read_text().splitlines() if tag in line]
    for directory in (paths.state_dir(tag), paths.data_dir(tag)):
        remains += [str(p) for p in directory.glob("*") if p.name != "controller.json"]
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if tag.encode() in (process / "cmdline").read_bytes():
                remains.append((process / "cmdline").read_text())
    return remains


CONTROLLER = """
import asyncio, sys
from dataclasses import replace
from tests.environments import containerkit as kit
from ullage import environments

async def main():
    provider = environments.get(sys.argv[1])
    async with kit.running(provider(provider.options_model())) as run:
        image = replace(kit.image(), writable=bool(sys.argv[2]))
        await run.create(replace(run.spec(), image=image))
        print(run.tag, flush=True)
        await asyncio.sleep(1000)

asyncio.run(main())
"""


def tag_of_a_killed_controller(provider: str, *, writable: bool = False) -> str:
    """Let another process make an instance, and kill it; `clean` must follow."""
    with subprocess.Popen(
        [sys.executable, "-c", CONTROLLER, provider, "writable" if writable else ""],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    ) as controller:
        assert controller.stdout is not None
        tag = controller.stdout.readline().strip()
        controller.kill()
    return paths.check_tag(tag)


async def clean(tag: str) -> None:
    """What `ullage clean` has to do for a container: no runtime is asked."""
    group = cgroups.Group.find(tag)
    await group.kill_all()
    await group.remove()
    await bridge.remove(tag)
    for directory in (paths.state_dir(tag), paths.data_dir(tag)):
        shutil.rmtree(directory)


async def sh(instance: Instance, script: str, timeout_s: float = 60) -> tuple[ProgramEnd, str]:
    command = Command(argv=("sh", "-c", script), timeout_s=timeout_s)
    finished, out, err = await instance.agent.run(command)
    return finished, (out + err).decode().strip()


def refused(address: str) -> bool:
    """True when the kernel at that address answers: nobody listens there."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as tcp:
        tcp.settimeout(5)
        try:
            tcp.connect((address, 9))
        except ConnectionRefusedError:
            return True
    return False


async def sees_what_it_was_given(provider: Provider) -> None:
    async with running(provider) as run:
        spec = replace(run.spec(), cpu_ids=(1,), cpu_quota=0.5)
        instance = await run.create(spec)
        facts = instance.agent.facts
        assert facts["cpus_allowed"] == [1]
        assert facts["cpu_quota"] == 0.5
        assert facts["memory_limit_bytes"] == 256 * MIB
        assert facts["hostname"] == "c-0"
        assert instance.agent.clock_claims.shared, (
            "it is on this kernel, whatever boot id it is shown"
        )
        touched, printed = await sh(instance, "touch /here")
        assert touched.status != 0
        assert "Read-only file system" in printed
        written, _ = await sh(instance, "echo data > /data/file && touch /tmp/x /run/x /dev/shm/x")
        assert written.status == 0
        assert (spec.data_dir / "file").read_text() == "data\n"
        _, devices = await sh(instance, "ls /sys/class/net | sort | tr '\\n' ' '; id -u")
        assert devices == "eth0 lo 0"
        endpoint = await run.network.namespace("other")
        assert instance.address is not None
        assert within(endpoint.netns_path, lambda: refused(instance.address or ""))
        assert refused(instance.address)
        await run.network.release(endpoint)


async def stands_still_when_frozen(provider: Provider) -> None:
    async with running(provider) as run:
        instance = await run.create()
        count = instance.spec.data_dir / "count"
        script = "i=0; while :; do i=$((i+1)); echo $i > /data/new; mv /data/new /data/count; done"
        await instance.agent.spawn(Command(argv=("sh", "-c", script)))

        async def moves_on_from(before: str) -> None:
            async with asyncio.timeout(20):
                while not count.exists() or count.read_text() == before:
                    await asyncio.sleep(0.01)

        await moves_on_from("")
        await instance.freeze()
        stopped = count.read_text()
        await asyncio.sleep(0.3)
        assert count.read_text() == stopped
        await instance.thaw()
        await moves_on_from(stopped)
        await instance.freeze()  # and it is destroyed as it is


async def memory_limit_bites(provider: Provider) -> None:
    async with running(provider) as run:
        instance = await run.create(replace(run.spec(), memory_bytes=128 * MIB))
        within_limit, _ = await sh(instance, "exec dd if=/dev/zero of=/dev/null bs=32M count=1")
        assert within_limit.status == 0
        beyond, _ = await sh(instance, "exec dd if=/dev/zero of=/dev/null bs=300M count=1")
        assert beyond.signal == 9
        assert not beyond.timed_out
        assert instance.alive


async def cpu_limits_bite(provider: Provider) -> None:
    """CPU seconds over elapsed seconds of two busy programs; the margins are wide."""
    async with running(provider) as run:
        pinned = await run.create()
        assert await share_of_two_busy(pinned) < 1.3
        half = await run.create(replace(run.spec("c-1"), cpu_ids=(0, 1), cpu_quota=0.5))
        assert await share_of_two_busy(half) < 0.75


async def share_of_two_busy(instance: Instance) -> float:
    command = Command(argv=BUSY, timeout_s=2)
    both = await asyncio.gather(*(instance.agent.run(command) for _ in range(2)))
    ends = [finished for finished, _, _ in both]
    usages = [ended.usage for ended in ends if ended.usage is not None]
    used = sum(usage.user_s + usage.system_s for usage in usages)
    elapsed = max(e.end_ns for e in ends) - min(e.start_ns for e in ends)
    return used / (elapsed / 1e9)


async def two_stand_side_by_side(provider: Provider) -> None:
    async with running(provider) as run:
        first, two = await asyncio.gather(run.create(run.spec("c-0")), run.create(run.spec("c-1")))
        assert first.address != two.address
        finished, printed = await sh(first, f"ping -c 1 -W 5 {two.address}")
        assert finished.status == 0, printed
        await first.destroy()
        assert not first.alive
        assert two.alive
        assert (await sh(two, "hostname"))[1] == "c-1"


async def without_a_network_there_is_only_loopback(provider: Provider) -> None:
    async with running(provider) as run:
        instance = await run.create(replace(run.spec(), network=None))
        assert instance.address is None
        _, printed = await sh(instance, "ls /sys/class/net; ping -c 1 127.0.0.1 | grep -c from")
        assert printed.split() == ["lo", "1"]


async def dies_and_is_destroyed_twice(provider: Provider) -> None:
    async with running(provider) as run:
        instance = await run.create()
        await cgroups.Group.find(run.tag, "c-0").kill_all()
        async with asyncio.timeout(20):
            while instance.alive:
                await asyncio.sleep(0.01)
        await instance.destroy()
        await instance.destroy()
        assert leftovers(run.tag) == []
        again = await run.create()
        assert again.alive


def is_refused(
    provider: Provider, message: str, *, host: bool = False, agent: Path | None = None
) -> None:
    """It does not start, says why, and leaves nothing. host: with the host's userland."""

    async def scenario() -> None:
        async with running(provider) as run:
            spec = run.spec(host=host)
            with pytest.raises(errors.UllageError) as caught:
                await run.create(replace(spec, agent=agent or spec.agent))
            assert caught.value.kind is errors.INSTANCE_NOT_STARTED
            assert message in caught.value.message
            assert leftovers(run.tag) == []

    asyncio.run(scenario())


def senseless_agent(folder: Path) -> Path:
    """An agent that ends with `this is no agent`."""
    script = folder / "agent"
    script.write_text("#!/bin/sh\n[ $1 = pause ] && exec sleep 100\necho this is no agent >&2\n")
    script.chmod(0o755)
    return script
