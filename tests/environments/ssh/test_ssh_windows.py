"""A Windows that one reaches by ssh: the way is a real sshd's, at its end Wine's cmd.exe."""

from __future__ import annotations

import pytest

from testing.ssh.machine import UserMachine
from tests.environments import containerkit as kit
from tests.environments.ssh.test_ssh_machines import refused, running, whole
from ullage.common import errors
from ullage.environments.agent.client import Command

pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.usefixtures("agent_binary")]


@kit.in_a_loop
async def test_programs_and_files(windows: UserMachine) -> None:
    async with running(windows) as (run, instance):
        assert "(Windows)" in run.provider.label()
        assert "Windows of" in (run.provider.userland() or "")
        agent = instance.agent
        assert str(agent.facts["os"]).endswith("(not Windows)")
        assert instance.data == f"C:/users/root/ullage-{run.tag}-c-0/data"
        command = Command(("cmd", "/c", "cd"), cwd=instance.data)
        done, out, _ = await agent.run(command)
        assert (done.status, out.decode()) == (0, instance.data.replace("/", "\\") + "\r\n")
        await agent.put(b"1\r\n", f"{instance.data}/ümlaut.txt")
        assert await agent.get(f"{instance.data}/ümlaut.txt", 100) == b"1\r\n"
        await instance.freeze()
        await instance.thaw()
        assert (await agent.run(command))[1] == out


@kit.in_a_loop
async def test_a_service_that_restarts(windows: UserMachine) -> None:
    async with running(windows) as (run, instance):
        process = await instance.agent.spawn(Command(("ping", "-n", "60", "127.0.0.1"), cwd="C:/"))
        await process.started()
        assert windows.hang_up() > 0
        with pytest.raises(errors.UllageError) as caught:
            await process.wait()
        assert caught.value.kind is errors.AGENT_LOST
        why = await instance.why_gone()
        assert why is not None and why.kind is errors.SSH_LOST
        await instance.destroy()
        assert windows.left() == []
        again = await run.create(whole(run))
        assert again.alive


@kit.in_a_loop
async def test_what_arrives_is_looked_at(windows: UserMachine) -> None:
    spoil = windows.disk / "spoil"
    spoil.touch()
    try:
        error = await refused(windows)
    finally:
        spoil.unlink()
    assert error.kind is errors.CLOUD_IMAGE_CORRUPT
    assert "the agent" in error.message


@kit.in_a_loop
async def test_a_windows_that_is_to_be_a_linux(windows: UserMachine) -> None:
    error = await refused(windows, system="linux")
    assert error.kind is errors.SSH_OTHER_SYSTEM
    assert "is not the Linux that the plan says" in error.message


@kit.in_a_loop
async def test_a_windows_that_is_too_old(windows: UserMachine) -> None:
    version = windows.disk / "version"
    version.write_text("win81")
    try:
        error = await refused(windows)
    finally:
        version.write_text("win10")
    assert error.kind is errors.SSH_OTHER_SYSTEM
    assert "Windows 6.3, older than 10" in error.message
