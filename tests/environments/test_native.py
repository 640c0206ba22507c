"""Native instances: the real agent, real cgroups, namespaces and roots."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import traceback
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.common.quantities import memory_bytes
from ullage.environments.agent.client import Command
from ullage.environments.base import Instance, InstanceSpec
from ullage.environments.native import Native, NativeOptions
from ullage.host import cgroups, claims, leftovers, paths
from ullage.host.image import Image
from ullage.host.network.bridge import Network

NOBODY = 65534


def spec_of(tag: str, agent: Path, **fields: Any) -> InstanceSpec:
    claims.claim(tag, "/runs/x")
    state, data = paths.state_dir(tag) / "native-0", paths.data_dir(tag) / "native-0"
    state.mkdir(exist_ok=True)
    data.mkdir(exist_ok=True)
    spec = InstanceSpec(
        tag=tag,
        name="native-0",
        cpu_ids=(min(os.sched_getaffinity(0)),),
        cpu_quota=None,
        memory_bytes=256 << 20,
        image=None,
        agent=agent,
        state_dir=state,
        data_dir=data,
        network=None,
    )
    return replace(spec, **fields)


def image_of(root: Path) -> Image:
    return Image(digest="sha256:0", root=root, tar=root, packages={}, dir=root.parent)


def with_instance(spec: InstanceSpec, use: Callable[[Instance], Awaitable[None]]) -> None:
    async def main() -> None:
        provider = Native(NativeOptions())
        await provider.check()
        instance = await provider.create(spec)
        try:
            await use(instance)
        finally:
            await instance.destroy()
            await instance.destroy()
        assert not instance.alive
        assert not spec.data_dir.exists()

    asyncio.run(asyncio.wait_for(main(), 60))


async def say(instance: Instance, script: str) -> str:
    command = Command(("sh", "-c", script), cwd=instance.data)
    finished, stdout, stderr = await instance.agent.run(command)
    assert finished.status == 0, stderr
    return stdout.decode()


@pytest.fixture
def clean(tag: str) -> Iterator[str]:
    """Nothing but the run's own directories may be left in the end."""
    yield tag
    remains = leftovers.find(tag, own=True)
    assert {leftover.kind for leftover in remains} <= {"state", "data"}


@pytest.mark.root
def test_the_host_as_it_is_within_limits(clean: str, agent_binary: Path) -> None:
    spec = spec_of(clean, agent_binary, cpu_quota=0.5)

    async def use(instance: Instance) -> None:
        facts = instance.agent.facts
        assert facts["cpus_allowed"] == list(spec.cpu_ids)
        assert facts["cpu_quota"] == 0.5
        assert facts["memory_limit_bytes"] == spec.memory_bytes
        assert instance.data == str(spec.data_dir)
        await say(instance, "echo x > file")
        assert (spec.data_dir / "file").read_text() == "x\n"

    with_instance(spec, use)


@pytest.mark.root
def test_an_image_is_the_root_and_stays_as_it_is(
    clean: str, agent_binary: Path, tiny_root: Path
) -> None:
    spec = spec_of(clean, agent_binary, image=image_of(tiny_root))
    before = sorted(tiny_root.rglob("*"))

    async def use(instance: Instance) -> None:
        assert instance.data == "/data"
        assert instance.agent.facts["hostname"] == "native-0"
        names = sorted(path.name for path in (tiny_root / "bin").iterdir())
        assert (await say(instance, "ls /bin")).split() == names
        await say(instance, "echo x > /data/file; echo y > /tmp/file")
        assert (spec.data_dir / "file").read_text() == "x\n"
        await say(instance, "! mkdir /new && ! mkdir /bin/new")

    with_instance(spec, use)
    assert sorted(tiny_root.rglob("*")) == before


@pytest.mark.root
def test_an_image_instance_shares_no_memory_and_cannot_mount(
    clean: str, agent_binary: Path, tiny_root: Path
) -> None:
    spec = spec_of(clean, agent_binary, image=image_of(tiny_root))
    leaked = Path("/dev/shm") / clean

    async def use(instance: Instance) -> None:
        await say(instance, f"echo x > {leaked}; cat {leaked}")
        assert not leaked.exists()
        status = await say(instance, "cat /proc/self/status")
        effective = int(status.partition("CapEff:")[2].split()[0], 16)
        assert not effective & (1 << 21 | 1 << 27)  # SYS_ADMIN, MKNOD
        assert effective & (1 << 13)  # NET_RAW: ping

    try:
        with_instance(spec, use)
    finally:
        leaked.unlink(missing_ok=True)


@pytest.mark.root
def test_a_namespace_on_the_bridge(clean: str, agent_binary: Path) -> None:
    async def main() -> None:
        network = await Network.create(clean)
        try:
            spec = spec_of(clean, agent_binary, network=network)
            instance = await Native(NativeOptions()).create(spec)
            try:
                links = await say(instance, "ip -o -4 address show")
                assert instance.address is not None
                assert f"inet {instance.address}/" in links
            finally:
                await instance.destroy()
        finally:
            await network.destroy()

    asyncio.run(asyncio.wait_for(main(), 60))


@pytest.mark.root
def test_frozen_it_does_nothing(clean: str, agent_binary: Path) -> None:
    async def use(instance: Instance) -> None:
        process = await instance.agent.spawn(
            Command(("sh", "-c", "while :; do echo; sleep 0.005; done"))
        )
        await process.wait_for_output(b"\n", 10)
        await instance.freeze()
        await asyncio.sleep(0.05)  # what was on its way arrives
        printed = len(process.stdout)
        await asyncio.sleep(0.1)
        assert len(process.stdout) == printed
        await instance.thaw()
        await process.wait_for_output(b"\n" * (printed + 1), 10)
        await instance.freeze()  # and is destroyed frozen

    with_instance(spec_of(clean, agent_binary), use)


@pytest.mark.root
def test_a_killed_instance_can_be_destroyed(clean: str, agent_binary: Path) -> None:
    async def use(instance: Instance) -> None:
        await cgroups.Group.find(clean, "native-0").kill_all()
        with pytest.raises(UllageError):
            await instance.agent.sync()
        assert not instance.alive
        await instance.thaw()

    with_instance(spec_of(clean, agent_binary), use)


@pytest.mark.root
@pytest.mark.parametrize("wrong", ["agent", "image"])
def test_a_failure_leaves_nothing(
    clean: str, agent_binary: Path, tmp_path: Path, wrong: str
) -> None:
    spec = spec_of(clean, agent_binary)
    if wrong == "agent":
        spec = replace(spec, agent=Path("/no/such/agent"))
    else:
        spec = replace(spec, image=image_of(tmp_path / "nowhere"))
    with pytest.raises(UllageError) as caught:
        asyncio.run(Native(NativeOptions()).create(spec))
    assert caught.value.kind is errors.AGENT_NOT_STARTED
    assert "No such file" in caught.value.message
    assert not spec.data_dir.exists()


@pytest.mark.root
def test_a_limit_that_does_not_hold_is_refused(clean: str, agent_binary: Path) -> None:
    # Twice the same CPU is one CPU.
    spec = spec_of(clean, agent_binary, cpu_ids=(0, 0))
    with pytest.raises(UllageError) as caught:
        asyncio.run(Native(NativeOptions()).create(spec))
    assert caught.value.kind is errors.LIMIT_NOT_APPLIED


def as_nobody(work: Callable[[Path], None]) -> None:
    """Do it in a child process that is a plain user, in a directory of its own."""
    home = Path(tempfile.mkdtemp(prefix="ullage-test-"))
    home.chmod(0o777)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setresgid(NOBODY, NOBODY, NOBODY)
                os.setresuid(NOBODY, NOBODY, NOBODY)
            os.environ["ULLAGE_STATE_DIR"] = str(home / "state")
            os.environ["ULLAGE_DATA_DIR"] = str(home / "data")
            work(home)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    shutil.rmtree(home)
    assert status == 0


@pytest.fixture
def public_agent(agent_binary: Path) -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(prefix="ullage-test-"))
    directory.chmod(0o755)
    yield Path(shutil.copy(agent_binary, directory / "agent"))
    shutil.rmtree(directory)


def test_a_plain_user_runs_by_affinity(public_agent: Path) -> None:
    def work(_: Path) -> None:
        spec = spec_of(paths.new_tag(), public_agent, memory_bytes=memory_bytes())

        async def use(instance: Instance) -> None:
            assert instance.agent.facts["cpus_allowed"] == list(spec.cpu_ids)
            assert instance.agent.facts["uid"] != 0
            process = await instance.agent.spawn(Command(("sh", "-c", "sleep 100 & echo $!; wait")))
            await process.wait_for_output(b"\n", 10)
            stat = Path(f"/proc/{int(process.stdout)}/stat")

            async def until_stopped(stopped: bool) -> None:
                # A signal takes its time on a busy machine.
                while (stat.read_text().split()[2] == "T") != stopped:
                    await asyncio.sleep(0.01)

            await instance.freeze()
            await asyncio.wait_for(until_stopped(True), 20)
            await instance.thaw()
            await asyncio.wait_for(until_stopped(False), 20)
            await instance.freeze()

        with_instance(spec, use)

    as_nobody(work)


@pytest.mark.root
def test_a_plain_user_is_refused_what_needs_more(public_agent: Path, tiny_root: Path) -> None:
    def work(_: Path) -> None:
        provider = Native(NativeOptions())
        spec = spec_of(paths.new_tag(), public_agent)
        for limits, kinds in (
            (spec, {errors.CGROUP_DENIED, errors.CGROUP_MISSING}),
            (replace(spec, image=image_of(tiny_root)), {errors.HOST_NEEDS_ROOT}),
        ):
            with pytest.raises(UllageError) as caught:
                asyncio.run(provider.create(limits))
            assert caught.value.kind in kinds

    as_nobody(work)
