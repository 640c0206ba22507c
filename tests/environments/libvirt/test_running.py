"""Domains of a real libvirtd, and what may befall them and it. Their guest only says `HI`."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.environments.qemukit import MIB, machine
from tests.support.libvirtkit import Libvirtd, libvirtd, sockets
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.environments.libvirt import connection
from ullage.environments.libvirt.connection import Connection
from ullage.environments.libvirt.domain import domain_xml
from ullage.environments.libvirt.running import LibvirtDomain, identity
from ullage.host import leftovers, user_commands
from ullage.host.cgroups import Limits
from ullage.meters.base import Scene
from ullage.meters.process_groups import members

pytestmark = pytest.mark.root
UUID: Final = "5d0e3f37-2f64-4d0c-9c1c-f7fd6c0f5c11"


@pytest.fixture
def own_daemon(tmp_path: Path) -> Iterator[Libvirtd]:
    """For who kills it."""
    (tmp_path / "libvirtd").mkdir()
    with libvirtd(tmp_path / "libvirtd") as running:
        yield running


@asynccontextmanager
async def prepared(daemon: Libvirtd, tag: str, folder: Path) -> AsyncIterator[LibvirtDomain]:
    client = await Connection.open(daemon.uri)
    ours = identity(daemon.uri, UUID, f"ullage-{tag}-vm-0", tag)
    vm = LibvirtDomain("vm-0", "tcg", folder / "console.log", client, ours)
    try:
        yield vm
    finally:
        await vm.kill()
        await client.close()


async def start(vm: LibvirtDomain, tag: str, folder: Path) -> None:
    xml = domain_xml(
        machine(folder),
        name=f"ullage-{tag}-vm-0",
        uuid=UUID,
        limits=Limits((0,), None, 512 * MIB),
        sockets=sockets(folder),
    )
    await vm.start(xml, sockets(folder))
    await vm.cont()


async def said_hi(folder: Path) -> None:
    log = folder / "console.log"
    while not log.exists() or not log.read_bytes().endswith(b"HI"):
        await asyncio.sleep(0.01)


@asynccontextmanager
async def up(daemon: Libvirtd, tag: str, folder: Path) -> AsyncIterator[LibvirtDomain]:
    async with prepared(daemon, tag, folder) as vm:
        await start(vm, tag, folder)
        await said_hi(folder)
        yield vm


def state(daemon: Libvirtd) -> str:
    return daemon.virsh("domstate", UUID).strip()


def test_it_is_suspended_resumed_and_gone(daemon: Libvirtd, tag: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with up(daemon, tag, tmp_path) as vm:
            assert (tmp_path / "console.log").read_bytes().endswith(b"HI")
            assert b"qemu" in Path(f"/proc/{vm.pid}/cmdline").read_bytes()
            for _ in range(2):  # the engine thaws who was never frozen
                await vm.cont()
                assert state(daemon) == "running"
            for _ in range(2):
                await vm.stop()
                assert state(daemon) == "paused"
            await vm.cont()
            assert state(daemon) == "running"
            scene = Scene(tag, ("vm-0",))
            assert members(scene)[vm.pid] == "hypervisor"  # in libvirt's cgroup, not in ours
            with pytest.raises(UllageError) as caught:
                await vm.agent(0.5)
            assert caught.value.kind is errors.VM_NEVER_BOOTED
            await vm.kill()
            await vm.kill()
            assert not Path(f"/proc/{vm.pid}").exists()
        assert daemon.domains() == []
        assert tag not in {removal.tag for removal in user_commands.records()}

    asyncio.run(scenario())


def test_its_death_is_told_by_an_event(daemon: Libvirtd, tag: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with up(daemon, tag, tmp_path) as vm:
            agent = asyncio.create_task(vm.agent(120))
            await asyncio.sleep(0)
            os.kill(vm.pid, signal.SIGKILL)
            with pytest.raises(UllageError) as caught:
                await agent
            assert caught.value.kind is errors.VM_FAILED
            assert "QEMU ended while the VM booted: its hypervisor failed (" in caught.value.message
            with pytest.raises(UllageError) as frozen:
                await vm.stop()
            assert frozen.value.kind is errors.VM_FAILED

    asyncio.run(scenario())


def test_a_domain_that_has_our_name_is_left_alone(
    daemon: Libvirtd, tag: str, tmp_path: Path
) -> None:
    name, theirs = f"ullage-{tag}-vm-0", "0a0e3f37-2f64-4d0c-9c1c-f7fd6c0f5c11"
    xml = tmp_path / "theirs.xml"
    xml.write_text(
        f"<domain type='qemu'><name>{name}</name><uuid>{theirs}</uuid><memory>65536</memory>"
        "<os><type arch='x86_64'>hvm</type></os></domain>"
    )
    daemon.virsh("define", str(xml))

    async def scenario() -> None:
        async with prepared(daemon, tag, tmp_path) as vm:
            with pytest.raises(UllageError) as caught:
                await vm.refuse_taken_name()
            assert caught.value.kind is errors.LIBVIRT_NAME_TAKEN
            assert theirs in caught.value.message

    asyncio.run(scenario())
    assert daemon.domains() == [name]
    daemon.virsh("undefine", theirs)


def test_libvirtd_dies_and_comes_back(own_daemon: Libvirtd, tag: str, tmp_path: Path) -> None:
    """Its VM runs on: nothing is lost, and nothing is left."""

    async def scenario() -> None:
        async with up(own_daemon, tag, tmp_path) as vm:
            own_daemon.kill()
            with pytest.raises(UllageError) as frozen:
                await vm.stop()
            assert frozen.value.kind is errors.LIBVIRT_GONE
            assert "`suspend` failed" in frozen.value.message
            with pytest.raises(UllageError) as removed:
                await vm.kill()
            assert removed.value.kind is errors.INSTANCE_NOT_REMOVED
            assert f"destroy {UUID}" in removed.value.hint
            assert Path(f"/proc/{vm.pid}").exists()
            own_daemon.start()
            await vm.stop()
            assert state(own_daemon) == "paused"

    asyncio.run(scenario())
    assert own_daemon.domains() == []


def test_a_libvirtd_that_hangs(
    own_daemon: Libvirtd, tag: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_ALIVE_EVERY_S", 1)
    monkeypatch.setattr(connection, "_MISSED", 1)

    async def scenario() -> None:
        async with up(own_daemon, tag, tmp_path) as vm:
            own_daemon.signal(signal.SIGSTOP)
            try:
                with pytest.raises(UllageError) as caught:
                    await vm.stop()
                assert caught.value.kind is errors.LIBVIRT_GONE
                assert "keepalive" in caught.value.message
            finally:
                own_daemon.signal(signal.SIGCONT)
            await vm.stop()

    asyncio.run(scenario())


def test_what_a_killed_run_left_is_cleaned(daemon: Libvirtd, tag: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with up(daemon, tag, tmp_path) as vm:
            left = await asyncio.to_thread(leftovers.find, tag)
            assert [item.name for item in left if item.kind == "command"] == [f"ullage-{tag}-vm-0"]
            assert await asyncio.to_thread(leftovers.remove, left) == []
            assert daemon.domains() == []
            assert not Path(f"/proc/{vm.pid}").exists()

    asyncio.run(scenario())


def test_who_is_cancelled_waits_for_what_is_being_made() -> None:
    """Else a domain would come up after it had been looked for in vain."""
    domains: list[str] = []
    began, go_on = threading.Event(), threading.Event()

    def make() -> None:
        began.set()
        assert go_on.wait(60)
        domains.append("vm-0")

    async def scenario() -> None:
        call = asyncio.create_task(connection._in_thread("qemu:///system", make))
        await asyncio.to_thread(began.wait, 60)
        call.cancel()
        asyncio.get_running_loop().call_later(0.2, go_on.set)
        with pytest.raises(asyncio.CancelledError):
            await call
        assert domains == ["vm-0"]

    asyncio.run(scenario())


def test_who_is_cancelled_leaves_no_error_behind() -> None:
    """One of a run whose other environments had failed was printed with its traceback."""
    unheard: list[str] = []
    began, go_on = threading.Event(), threading.Event()

    def fail() -> None:
        began.set()
        assert go_on.wait(60)
        raise ValueError("its disk has gone meanwhile")

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: unheard.append(str(context)))
        call = asyncio.create_task(connection._in_thread("qemu:///system", fail))
        await asyncio.to_thread(began.wait, 60)
        call.cancel()
        loop.call_later(0.2, go_on.set)
        await asyncio.wait({call})
        assert call.cancelled()
        del call
        gc.collect()

    asyncio.run(scenario())
    assert unheard == []


def test_no_libvirtd(tmp_path: Path) -> None:
    with pytest.raises(UllageError) as caught:
        asyncio.run(Connection.open(f"qemu:///system?socket={tmp_path}/none"))
    assert caught.value.kind is errors.HOST_NO_ANSWER
    assert caught.value.hint == "start it: systemctl start libvirtd"


def test_a_libvirtd_without_an_answer(
    own_daemon: Libvirtd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_CALL_S", 1.0)
    own_daemon.signal(signal.SIGSTOP)
    try:
        with pytest.raises(UllageError) as caught:
            asyncio.run(Connection.open(own_daemon.uri))
    finally:
        own_daemon.signal(signal.SIGCONT)
    assert caught.value.kind is errors.HOST_NO_ANSWER
    assert "no answer within 1 s" in caught.value.message


def test_who_asks_for_a_password_gets_none(tmp_path: Path) -> None:
    """libvirt's own test driver asks as a remote hypervisor would."""
    xml = tmp_path / "node.xml"
    xml.write_text("<node><auth><user password='secret'>somebody</user></auth></node>")
    with pytest.raises(UllageError) as caught:
        asyncio.run(Connection.open(f"test://{xml}"))
    assert caught.value.kind is errors.LIBVIRT_PASSWORD
    assert "nobody is there to type" in caught.value.message


def test_ssh_asks_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system's own ssh, which knows no key for that host, and has no terminal."""
    ssh = tmp_path / "ssh"
    ssh.write_text(
        f'#!/bin/sh\necho "$@" > {tmp_path}/argv\necho Permission denied >&2; exit 255\n'
    )
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(UllageError) as caught:
        asyncio.run(Connection.open("qemu+ssh://localhost/system"))
    assert caught.value.kind is errors.LIBVIRT_PASSWORD
    assert "BatchMode=yes" in (tmp_path / "argv").read_text()


class Elsewhere:
    """A virConnect to another host."""

    def getHostname(self) -> str:  # noqa: N802 - libvirt's name
        return "far.example.org"


def test_another_host_is_refused() -> None:
    with pytest.raises(UllageError) as caught:
        connection._verify_place("qemu+ssh://far/system", Elsewhere())
    assert caught.value.kind is errors.LIBVIRT_ELSEWHERE
    assert "is the host far" in caught.value.message
    connection._verify_place("qemu:///system", Elsewhere())


def test_without_libvirt_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "libvirt", None)
    connection.library.cache_clear()
    try:
        with pytest.raises(UllageError) as caught:
            connection.library()
    finally:
        monkeypatch.undo()
    assert caught.value.kind is errors.HOST_MISSING
    assert "pip install 'ullage[libvirt]'" in caught.value.hint
