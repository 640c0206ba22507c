"""A Linux that one reaches by ssh: the same bytes as everywhere, and nothing left of them."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from testing.ssh.machine import UserMachine
from tests.environments import containerkit as kit
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.common.quantities import memory_bytes
from ullage.environments.agent.client import Command
from ullage.environments.base import Instance, InstanceSpec
from ullage.environments.clouds import keys, ssh
from ullage.environments.ssh.options import SshOptions
from ullage.environments.ssh.provider import Ssh
from ullage.host import user_commands

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("agent_binary")]


def provider(machine: UserMachine, **more: Any) -> Ssh:
    fields = machine.fields(**more)
    del fields["provider"]
    return Ssh(SshOptions.model_validate(fields))


def whole(run: kit.Run) -> InstanceSpec:
    """One instance that is as large as the machine."""
    cpu_ids = tuple(range(len(os.sched_getaffinity(0))))
    return replace(run.spec(), cpu_ids=cpu_ids, memory_bytes=memory_bytes(), network=None)


@asynccontextmanager
async def running(machine: UserMachine, **more: Any) -> AsyncIterator[tuple[kit.Run, Instance]]:
    async with kit.running(provider(machine, **more)) as run:
        yield run, await run.create(whole(run))
    assert machine.left() == []
    assert [r for r in user_commands.records() if r.tag == run.tag] == []


async def refused(machine: UserMachine, **more: Any) -> UllageError:
    """Why nothing runs there; nothing is left of it."""
    with pytest.raises(UllageError) as caught:
        async with running(machine, **more):
            pass
    assert machine.left() == []
    return caught.value


@pytest.mark.lab
@kit.in_a_loop
async def test_used_cut_off_and_removed(linux: UserMachine) -> None:
    async with running(linux) as (run, instance):
        assert run.provider.label() == f"ssh {linux.machine.address}"
        assert run.provider.userland() is None
        assert (await kit.sh(instance, "cat /etc/debian_version"))[1].startswith("12")
        assert (await kit.sh(instance, "echo x > /data/file; cat /data/file"))[1] == "x"
        assert (await kit.sh(instance, "touch /here"))[0].status != 0
        await instance.freeze()
        await instance.thaw()
        # By the record, as `ullage clean` would list it.
        (record,) = [r for r in user_commands.records() if r.tag == run.tag]
        listed = subprocess.run(record.listing, capture_output=True, text=True, check=True)
        assert listed.stdout.split() == linux.left() == [record.name]
        process = await instance.agent.spawn(Command(("sleep", "60")))
        await process.started()
        assert linux.hang_up() > 0
        with pytest.raises(UllageError) as caught:
            await process.wait()
        assert caught.value.kind is errors.AGENT_LOST
        why = await instance.why_gone()
        assert why is not None and why.kind is errors.SSH_LOST
        assert "restarted" in why.message
        await asyncio.to_thread(user_commands.remove, record)
        assert linux.left() == []


@contextmanager
def device(file: Path) -> Iterator[str]:
    argv = ["losetup", "--find", "--show", "--read-only", str(file)]
    loop = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()
    try:
        yield loop
    finally:
        subprocess.run(["losetup", "--detach", loop], check=True)


@pytest.mark.lab
@kit.in_a_loop
async def test_one_that_has_the_image_on_a_disk(
    linux: UserMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was booted from an exported disk, and is a machine that stays."""
    with device(await kit.image().disk("raw")) as loop:
        monkeypatch.setattr(ssh, "_IMAGE_DEVICE", loop)
        async with running(linux) as (_, instance):
            assert f"{loop} / ext4" in (await kit.sh(instance, "cat /proc/mounts"))[1]


@kit.in_a_loop
async def test_an_agent_whose_sshd_has_heard_of_no_end(linux: UserMachine) -> None:
    """Our ssh gave up, and no word of it arrived: the old program would run beside a new trial."""
    async with running(linux) as (_, instance):
        assert await instance.why_gone() is None, "nothing is wrong with it"
        process = await instance.agent.spawn(Command(("sleep", "86")))
        await process.started()
        assert linux.runs("sleep", "86")
        with linux.deaf():
            transport = instance.agent.pid
            assert transport is not None
            os.kill(transport, signal.SIGKILL)
            with pytest.raises(UllageError):
                await process.wait()
            why = await instance.why_gone()
            assert why is None, "ssh was ended here, and nothing was restarted there"
            await instance.destroy()
            assert linux.left() == [] and not linux.runs("sleep", "86")


@kit.in_a_loop
async def test_one_that_asks_for_a_password(linux: UserMachine) -> None:
    error = await refused(linux, key=str(linux.keys / "host"))
    assert error.kind is errors.SSH_CREDENTIALS
    assert "Permission denied" in error.message


@kit.in_a_loop
async def test_who_has_another_host_key(linux: UserMachine) -> None:
    other = (linux.keys / "user.pub").read_text().strip()
    assert (await refused(linux, host_key=other)).kind is errors.SSH_HOST_KEY


@kit.in_a_loop
async def test_nobody_there_and_no_key_here(linux: UserMachine) -> None:
    error = await refused(linux, port=2)
    assert error.kind is errors.SSH_UNREACHABLE
    assert "Connection refused" in error.message
    assert (await refused(linux, key="/no/such/key")).kind is errors.SSH_NO_KEY


@kit.in_a_loop
async def test_a_linux_that_is_to_be_a_windows(linux: UserMachine) -> None:
    error = await refused(linux, system="windows")
    assert error.kind is errors.SSH_OTHER_SYSTEM
    assert "is not the Windows that the plan says: it is Linux" in error.message


@pytest.mark.lab
@kit.in_a_loop
async def test_a_machine_of_another_size(linux: UserMachine) -> None:
    async with kit.running(provider(linux)) as run:
        with pytest.raises(UllageError) as caught:
            await run.create(replace(whole(run), memory_bytes=memory_bytes() // 2))
        assert caught.value.kind is errors.LIMIT_NOT_APPLIED
        assert linux.left() == []


@kit.in_a_loop
async def test_a_network_of_this_hosts(linux: UserMachine) -> None:
    async with kit.running(provider(linux)) as run:
        with pytest.raises(UllageError) as caught:
            await run.create(replace(whole(run), network=run.network))
        assert caught.value.kind is errors.SSH_NETWORK


def test_a_port_of_its_own(tmp_path: Path) -> None:
    keys.known_hosts(tmp_path / "known", "hv1", ("ssh-ed25519 AAAA",), 2222)
    assert (tmp_path / "known").read_text() == "[hv1]:2222 ssh-ed25519 AAAA\n"
