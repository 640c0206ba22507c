"""Machines of a Hyper-V host: ullage's own script, with a real sshd on both sides of it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from testing.hyperv import cmdlets
from testing.hyperv.host import HypervDouble
from tests.environments import containerkit as kit
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.common.quantities import memory_bytes
from ullage.environments.agent.client import Command
from ullage.environments.base import Instance, InstanceSpec
from ullage.environments.hyperv import machine
from ullage.environments.hyperv import provider as hyperv_provider
from ullage.environments.hyperv.answers import Names
from ullage.environments.hyperv.host import HypervHost
from ullage.environments.hyperv.options import HypervOptions
from ullage.environments.hyperv.provider import Hyperv
from ullage.host import user_commands

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("agent_binary")]


def provider(hyperv: HypervDouble, **more: Any) -> Hyperv:
    fields = hyperv.plan(**more)
    del fields["provider"]
    return Hyperv(HypervOptions.model_validate(fields))


def spec(run: kit.Run, hyperv: HypervDouble) -> InstanceSpec:
    """A machine of the whole host."""
    cpu_ids = tuple(range(hyperv.state["cpus"]))
    return replace(run.spec(), cpu_ids=cpu_ids, memory_bytes=memory_bytes(), network=None)


@asynccontextmanager
async def running(hyperv: HypervDouble, **more: Any) -> AsyncIterator[tuple[kit.Run, Instance]]:
    async with kit.running(provider(hyperv, **more)) as run:
        yield run, await run.create(spec(run, hyperv))
    assert hyperv.left() == []
    assert [r for r in user_commands.records() if r.tag == run.tag] == []


@kit.in_a_loop
async def test_made_used_suspended_and_removed(hyperv: HypervDouble) -> None:
    async with running(hyperv, secure_boot="linux") as (run, instance):
        (vm,) = hyperv.state["vms"].values()
        assert vm["Name"] == f"ullage-{run.tag}-c-0"
        assert vm["Notes"] == f"ullage {run.tag}"
        assert vm["percent"] == 100
        assert vm["secure"] == ["On", "MicrosoftUEFICertificateAuthority"]
        assert (await kit.sh(instance, "cat /etc/debian_version"))[1].startswith("12")
        await instance.freeze()
        assert next(iter(hyperv.state["vms"].values()))["State"] == "Paused"
        inside = cmdlets.inside(vm)
        assert inside and all(_state(pid) == "T" for pid in inside)
        assert instance.agent.pid is not None
        assert _state(instance.agent.pid) == "T", "our ssh asks nobody meanwhile"
        assert await instance.why_gone() is None, "we have suspended it"
        await instance.thaw()
        assert _state(instance.agent.pid) != "T"
        assert b"ServerAliveInterval=5" in Path(f"/proc/{instance.agent.pid}/cmdline").read_bytes()
        assert (await kit.sh(instance, "echo x > /data/file; cat /data/file"))[1] == "x"
        await instance.destroy()
        assert hyperv.left() == []
        assert await instance.why_gone() is None, "we have removed it ourselves"


@kit.in_a_loop
async def test_one_larger_than_its_host_is_refused_before_it_is_made(hyperv: HypervDouble) -> None:
    for fields in ({"cpus": 1}, {"memory": 1 << 30}):
        before = hyperv.state
        hyperv.change(**fields)
        tested = provider(hyperv)
        async with kit.running(tested) as run:
            await tested.check()
            large = replace(spec(run, hyperv), cpu_ids=(0, 1), memory_bytes=2 << 30)
            with pytest.raises(UllageError) as caught:
                await run.create(large)
        assert caught.value.kind is errors.HYPERV_NO_ROOM
        assert "New-VM" not in hyperv.state["calls"]
        hyperv.change(cpus=before["cpus"], memory=before["memory"])


@kit.in_a_loop
async def test_a_windows_guest_needs_our_agent_for_windows(
    hyperv: HypervDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> Path:
        raise UllageError(errors.AGENT_BINARY_MISSING, places="nowhere")

    monkeypatch.setattr(hyperv_provider, "windows_binary", missing)
    await provider(hyperv).check()
    with pytest.raises(UllageError) as caught:
        await provider(hyperv, guest="windows").check()
    assert caught.value.kind is errors.AGENT_BINARY_MISSING


@pytest.mark.lab
@kit.in_a_loop
async def test_one_that_dies_in_silence_is_noticed(hyperv: HypervDouble) -> None:
    """Its host says that it runs; nothing in it does."""
    async with running(hyperv) as (_, instance):
        (vm,) = hyperv.state["vms"].values()
        for pid in cmdlets.inside(vm):
            os.kill(pid, signal.SIGSTOP)
        with pytest.raises(UllageError) as caught:
            await asyncio.wait_for(instance.agent.run(Command(("true",))), 120)
        assert caught.value.kind is errors.AGENT_LOST
        assert await instance.why_gone() is None
        for pid in cmdlets.inside(vm):
            os.kill(pid, signal.SIGCONT)


@pytest.mark.lab
@kit.in_a_loop
async def test_a_suspended_one_is_removed(hyperv: HypervDouble) -> None:
    async with running(hyperv) as (_, instance):
        await instance.freeze()


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.mark.lab
@kit.in_a_loop
async def test_one_that_was_taken_away(hyperv: HypervDouble) -> None:
    async with running(hyperv) as (_, instance):
        assert await instance.why_gone() is None
        (vm,) = hyperv.state["vms"].values()
        cmdlets.end(vm)
        hyperv.change(vms={vm["Id"]: {**vm, "State": "Off"}})
        error = await instance.why_gone()
        assert error is not None and error.kind is errors.HYPERV_STATE
        assert "Off" in error.message


async def refused(hyperv: HypervDouble, **more: Any) -> UllageError:
    """Why none could be made; nothing is left of it."""
    with pytest.raises(UllageError) as caught:
        async with running(hyperv, **more):
            pass
    assert hyperv.left() == []
    return caught.value


@pytest.mark.parametrize(
    ("cmdlet", "identifier", "category", "words", "kind"),
    [
        (
            "Start-VM",
            "OperationFailed,Microsoft.HyperV.PowerShell.Commands.StartVM",
            "NotSpecified",
            "Nicht genügend Arbeitsspeicher (0x800705AA).",
            errors.HYPERV_NO_ROOM,
        ),
        (
            "New-VM",
            "AccessDenied,Microsoft.HyperV.PowerShell.Commands.NewVM",
            "PermissionDenied",
            "You do not have the required permission to complete this task.",
            errors.HYPERV_CREDENTIALS,
        ),
        (
            "Set-VMProcessor",
            "InvalidParameter,Microsoft.HyperV.PowerShell.Commands.SetVMProcessor",
            "InvalidArgument",
            "The value of Count is out of range\x1b[31m",
            errors.HYPERV_REFUSED,
        ),
        (
            "Import-Module",
            "Modules_ModuleNotFound,Microsoft.PowerShell.Commands.ImportModuleCommand",
            "ResourceUnavailable",
            "The specified module 'Hyper-V' was not loaded",
            errors.HYPERV_LACKS,
        ),
    ],
)
@kit.in_a_loop
async def test_a_refusal_in_the_hosts_own_words(
    hyperv: HypervDouble,
    cmdlet: str,
    identifier: str,
    category: str,
    words: str,
    kind: errors.ErrorKind,
) -> None:
    hyperv.change(trouble={cmdlet: {"id": identifier, "category": category, "words": words}})
    error = await refused(hyperv)
    assert error.kind is kind
    assert words.partition("\x1b")[0] in error.message
    assert "\x1b" not in error.message


@kit.in_a_loop
async def test_what_the_host_lacks(hyperv: HypervDouble) -> None:
    error = await refused(hyperv, switch="nowhere")
    assert error.kind is errors.HYPERV_LACKS
    assert "the switch nowhere; it has Default Switch, lab" in error.message
    error = await refused(hyperv, parent="C:\\images\\none.vhdx")
    assert error.kind is errors.HYPERV_LACKS
    assert "the parent disk C:\\images\\none.vhdx" in error.message
    error = await refused(hyperv, key="/no/such/key")
    assert error.kind is errors.HYPERV_NO_KEY


@kit.in_a_loop
async def test_a_guest_without_integration_services(hyperv: HypervDouble) -> None:
    hyperv.change(no_integration=True)
    error = await refused(hyperv, deadline_s=1)
    assert error.kind is errors.HYPERV_NO_HEARTBEAT
    assert "its state is Disabled" in error.message


@kit.in_a_loop
async def test_a_guest_that_answers_nobody(hyperv: HypervDouble) -> None:
    hyperv.change(dead=True)
    error = await refused(hyperv, deadline_s=5)
    assert error.kind is errors.HYPERV_NOT_UP
    assert "Connection refused" in error.message


@kit.in_a_loop
async def test_another_host_key(hyperv: HypervDouble) -> None:
    other = (hyperv.folder / "user.pub").read_text().strip()
    assert (await refused(hyperv, host_key=other)).kind is errors.HYPERV_GUEST_KEY


@kit.in_a_loop
async def test_fewer_processors_than_were_asked_for(hyperv: HypervDouble) -> None:
    hyperv.change(stingy=1)
    assert (await refused(hyperv)).kind is errors.LIMIT_NOT_APPLIED


@pytest.mark.lab
@kit.in_a_loop
async def test_one_that_does_not_stand_still(hyperv: HypervDouble) -> None:
    hyperv.change(suspended="Saved")
    async with running(hyperv) as (_, instance):
        with pytest.raises(UllageError) as caught:
            await instance.freeze()
        assert caught.value.kind is errors.HYPERV_STATE
        assert "is Saved" in caught.value.message


@kit.in_a_loop
async def test_a_network_of_this_hosts(hyperv: HypervDouble) -> None:
    async with kit.running(provider(hyperv)) as run:
        with pytest.raises(UllageError) as caught:
            await run.create(replace(spec(run, hyperv), network=run.network))
        assert caught.value.kind is errors.HYPERV_NETWORK
    assert "New-VM" not in hyperv.state["calls"]


@kit.in_a_loop
async def test_one_that_comes_after_nobody_answered(
    hyperv: HypervDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows' sshd lets what it began run on: the record stays until nothing can come any more."""
    looks: list[tuple[str, ...]] = [(), ("late",), ()]

    async def ask(_: HypervHost, operation: str, *__: object, **fields: object) -> Names:
        if operation == "make":
            facts = {"host": "hv1", "operation": "make", "reason": "it said nothing"}
            raise UllageError(errors.HYPERV_NO_ANSWER, **facts)
        names = looks.pop(0) if len(looks) > 1 else looks[0]
        return Names(names=(str(fields["name"]),) if names else ())

    monkeypatch.setattr(machine, "CALL_S", 1.0)
    monkeypatch.setattr(machine, "_SETTLED_S", 0.5)
    async with kit.running(provider(hyperv)) as run:
        monkeypatch.setattr(HypervHost, "ask", ask)
        wanted = spec(run, hyperv)
        fields = {name: value for name, value in hyperv.plan().items() if name != "provider"}
        late = machine.HypervMachine(HypervOptions.model_validate(fields), wanted)
        with pytest.raises(UllageError):
            await late.make()
        await late.remove()
        assert looks == [()]
        assert [r for r in user_commands.records() if r.tag == run.tag] == []
        wanted.state_dir.rmdir()
        wanted.data_dir.rmdir()


@pytest.mark.lab
@kit.in_a_loop
async def test_who_cleans_while_it_is_made_does_not_forget_it(hyperv: HypervDouble) -> None:
    """A killed controller leaves a PowerShell that loads its module, and makes it after that."""
    async with kit.running(provider(hyperv)) as run:
        hyperv.change(slow={"Import-Module": 6})
        making = asyncio.ensure_future(run.create(spec(run, hyperv)))
        while hyperv.state["slow"]:
            await asyncio.sleep(0.05)
        (record,) = [r for r in user_commands.records() if r.tag == run.tag]
        with pytest.raises(UllageError, match="may still make it") as caught:
            await asyncio.to_thread(user_commands.remove, record)
        assert caught.value.kind is errors.INSTANCE_NOT_REMOVED
        assert hyperv.left() == [], "it was too early"
        instance = await making
        (record,) = [r for r in user_commands.records() if r.tag == run.tag]
        assert not record.may_come, "it was answered"
        await instance.destroy()


@pytest.mark.lab
@kit.in_a_loop
async def test_removal_without_the_run(hyperv: HypervDouble) -> None:
    """As `ullage clean` does it: by the record, in a process of its own."""
    async with running(hyperv) as (run, _):
        (record,) = [r for r in user_commands.records() if r.tag == run.tag]
        listed = subprocess.run(record.listing, capture_output=True, text=True, check=True)
        assert set(listed.stdout.split()) == {record.name}
        await asyncio.to_thread(user_commands.remove, record)
        assert hyperv.left() == []
        assert record.destroy[0][0] == sys.executable


@pytest.mark.lab
@kit.in_a_loop
async def test_a_guest_with_windows(hyperv: HypervDouble) -> None:
    """The agent for Windows, put there and started as in a Windows; here Wine runs it."""
    parent = hyperv.folder / "c/images/debian.vhdx"
    parent.write_text(json.dumps({**json.loads(parent.read_text()), "windows": True}))
    async with running(hyperv, guest="windows") as (run, instance):
        assert run.provider.label() == "hyperv (Windows)"
        assert "Windows of" in (run.provider.userland() or "")
        assert str(instance.agent.facts["os"]).endswith("(not Windows)")
        command = Command(("cmd", "/c", "echo", "hi"), cwd="C:/")
        done, out, _ = await instance.agent.run(command)
        assert (done.status, out) == (0, b"hi\r\n")
        await instance.freeze()
        await instance.thaw()
        assert (await instance.agent.run(command))[1] == b"hi\r\n"
