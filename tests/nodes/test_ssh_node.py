"""Another machine, by a double of ssh: what is made there, what it refuses, and its end."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from tests.nodes.nodekit import TAG, Double, double, other_machine
from ullage.common import errors
from ullage.common.errors import ErrorKind, UllageError
from ullage.common.quantities import memory_bytes
from ullage.environments.agent.client import Command
from ullage.environments.native import Native, NativeOptions
from ullage.environments.placement import Resources
from ullage.host.image import Image
from ullage.host.network import sockets
from ullage.meters import Scene
from ullage.nodes import link as links
from ullage.nodes.base import Order
from ullage.nodes.reach.install import install
from ullage.nodes.reach.tree import HOME, runner
from ullage.nodes.ssh import SshNode, of_node

__all__ = ["double"]
pytestmark = [pytest.mark.root, pytest.mark.usefixtures("agent_binary")]
Work = Callable[[SshNode], Coroutine[Any, Any, None]]


def order(name: str = "native-0", cpus: float = 1) -> Order:
    resources = Resources.model_validate({"cpus": cpus, "memory": "256MiB"})
    return Order(Native(NativeOptions()), name, resources, 0, None)


def visited(double: Double, work: Work, *earlier: str) -> SshNode:
    """Do the work on the node, then leave it; nothing is left there."""
    node = double.node(*earlier)
    asyncio.run(visit(node, work))
    waited_for(lambda: not left(double))
    return node


async def visit(node: SshNode, work: Work) -> None:
    try:
        await node.open()
        await work(node)
    finally:
        await node.close()


def left(double: Double) -> list[Path]:
    """Rooms of instances there."""
    return list((double.home / "state").glob("u*/native-*"))


def waited_for(there: Callable[[], bool]) -> None:
    """A node whose answer nobody waits for any more removes what it has by itself."""
    for _ in range(600):
        if there():
            return
        time.sleep(0.1)
    raise AssertionError("something is left")


def refused(double: Double, work: Work) -> UllageError:
    with pytest.raises(UllageError) as caught:
        visited(double, work)
    return caught.value


async def nothing(node: SshNode) -> None:
    """Only come and go."""


def server(double: Double) -> int:
    """Process id of what serves there."""
    tree = str(double.home)
    argv: list[str] = []
    for directory in Path("/proc").iterdir():
        if directory.name.isdigit():
            with contextlib.suppress(OSError):
                argv = (directory / "cmdline").read_bytes().decode(errors="replace").split("\0")
            if "-I" in argv and any(word.startswith(tree) for word in argv):
                return int(directory.name)
    raise AssertionError("nobody serves")


def test_a_node_that_hangs_is_left_all_the_same(
    double: Double, monkeypatch: pytest.MonkeyPatch
) -> None:
    double.install()
    monkeypatch.setattr(links, "SILENCE_S", 0.5)
    monkeypatch.setattr(links, "BEAT_S", 0.1)
    node = double.node()

    async def visit() -> None:
        await node.open()
        stopped = server(double)
        os.kill(stopped, signal.SIGSTOP)
        try:
            async with asyncio.timeout(60):  # of 900 for a request
                await node.close()
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(stopped, signal.SIGKILL)

    asyncio.run(visit())


def test_an_instance_of_another_machine(double: Double) -> None:
    double.install()

    async def work(node: SshNode) -> None:
        offer = await node.check(Native(NativeOptions()))
        assert offer.label == "native" and not offer.emulated
        assert (await node.facts())["root"] is True
        instance = await node.create(order())
        assert instance.data.startswith(str(double.home / "data"))
        done, output, _ = await instance.agent.run(Command(("pwd",), cwd=instance.data))
        assert done.status == 0 and output.decode().strip() == instance.data
        await instance.freeze()
        await instance.thaw()
        async with node.metered(Scene(TAG, ("native-0",))) as readings:
            await instance.agent.run(Command(("sleep", "0.1")))  # of less than a tick none tells
        assert readings["host"]["cpu_time"] > 0
        assert await instance.memory_kills() == 0
        assert instance.alive
        await instance.destroy()
        assert not instance.alive

    visited(double, work)
    # One connection for the requests, one channel for the agent; and the installation before.
    assert [call.split()[1:3] for call in double.calls() if str(runner()) in call] == [
        [str(runner()), "serve"],
        [str(runner()), "attach"],
    ]


def test_folders_that_are_too_deep_for_a_socket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("deep" * 30)
    deep.mkdir()
    there = Double(other_machine(deep))
    monkeypatch.setenv("PATH", f"{deep / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("TMPDIR", str(deep))
    monkeypatch.setenv("ULLAGE_STATE_DIR", str(deep / "state"))
    monkeypatch.setenv("ULLAGE_DATA_DIR", str(deep / "data"))
    there.install()

    async def work(node: SshNode) -> None:
        instance = await node.create(order())
        done, _, _ = await instance.agent.run(Command(("true",)))
        assert done.status == 0
        await instance.destroy()

    visited(there, work)
    own = [of_node(TAG, "a", session) for session in range(4)]
    assert not [path for path, tag in sockets.folders() if tag in (TAG, *own)]


def test_what_was_not_installed(double: Double) -> None:
    assert refused(double, nothing).kind is errors.NODE_NOT_INSTALLED


def test_another_version(double: Double) -> None:
    (double.home / HOME / "of-another-digest").mkdir(parents=True)
    assert refused(double, nothing).kind is errors.NODE_OTHER_VERSION


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.",
         errors.NODE_KEY_CHANGED),
        ("No ED25519 host key is known for a.\nHost key verification failed.",
         errors.NODE_KEY_UNKNOWN),
        ("root@a: Permission denied (publickey,password).", errors.NODE_KEY_REFUSED),
        ("ssh: Could not resolve hostname a: Name or service not known",
         errors.NODE_UNKNOWN_HOST),
        ("ssh: connect to host a port 22: Connection refused", errors.NODE_UNREACHABLE),
        ("sudo: a password is required", errors.NODE_SUDO),
        ("ullage-node: 7: exec: python3.11: not found", errors.NODE_NO_PYTHON),
    ],
)  # fmt: skip
def test_what_ssh_says(double: Double, words: str, kind: ErrorKind) -> None:
    double.refuse(words)
    error = refused(double, nothing)
    assert error.kind is kind and error.message.startswith("a: ") and error.hint
    with pytest.raises(UllageError) as caught:
        double.install()
    assert caught.value.kind is kind


def test_an_installation_that_fails(double: Double) -> None:
    (double.home / ".local").write_text("a file", encoding="utf-8")
    with pytest.raises(UllageError, match=r"Not a directory|File exists") as caught:
        asyncio.run(install(double.target))
    assert caught.value.kind is errors.NODE_INSTALL_FAILED


def test_what_is_denied_there_is_not_the_key(double: Double) -> None:
    """A home that cannot be written, or a program that may not be run."""
    tool = double.home.parent / "bin/mkdir"
    tool.write_text("#!/bin/sh\necho 'mkdir: Permission denied' >&2\nexit 1\n", encoding="ascii")
    tool.chmod(0o755)
    with pytest.raises(UllageError, match="mkdir: Permission denied") as caught:
        asyncio.run(install(double.target))
    assert caught.value.kind is errors.NODE_INSTALL_FAILED
    tool.unlink()
    double.install()
    program = double.home / str(runner())
    program.write_text("#!/bin/sh\necho 'x: Permission denied' >&2\nexit 3\n", encoding="ascii")
    assert refused(double, nothing).kind is errors.NODE_UNREACHABLE


def test_an_installation_leaves_a_living_session_its_files(double: Double) -> None:
    """What is there goes aside in one step: nothing is taken from it file by file."""
    double.install()
    tool = double.home.parent / "bin/mv"
    log = double.home / "moves"
    tool.write_text(f'#!/bin/sh\necho "$@" >> {log}\nexec /bin/mv "$@"\n', encoding="ascii")
    tool.chmod(0o755)
    program = double.home / str(runner())
    before = program.stat().st_ino
    double.install()
    aside, inside = log.read_text(encoding="utf-8").splitlines()
    assert aside.split()[0] == inside.split()[1] == str(runner().parent)
    assert program.stat().st_ino != before
    assert [path.name for path in program.parents[1].iterdir()] == [runner().parent.name]


def test_an_installation_that_cannot_take_its_place_leaves_the_old_one(double: Double) -> None:
    double.install()
    tool = double.home.parent / "bin/mv"
    fails = 'case $1 in */.new-*) echo "mv: No space left on device" >&2; exit 1;; esac'
    tool.write_text(f'#!/bin/sh\n{fails}\nexec /bin/mv "$@"\n', encoding="ascii")
    tool.chmod(0o755)
    with pytest.raises(UllageError, match="No space left") as caught:
        asyncio.run(install(double.target))
    assert caught.value.kind is errors.NODE_INSTALL_FAILED
    program = double.home / str(runner())
    assert program.is_file()
    assert [path.name for path in program.parents[1].iterdir()] == [runner().parent.name]


def test_an_installation_whose_words_have_no_end(double: Double) -> None:
    words = 600_000_000
    (double.home / "refusal").touch()
    os.truncate(double.home / "refusal", words)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(UllageError) as caught:
        double.install()
    assert caught.value.kind is errors.NODE_UNREACHABLE
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < words / 4


def test_what_the_node_refuses(double: Double) -> None:
    double.install()

    async def work(node: SshNode) -> None:
        with pytest.raises(UllageError, match="1000 CPUs") as caught:
            await node.create(order(cpus=1000))
        assert caught.value.kind is errors.NODE_REFUSED
        assert caught.value.facts["error"] == errors.HOST_TOO_SMALL.code
        instance = await node.create(order())
        with pytest.raises(UllageError, match="there is an instance native-0"):
            await node.create(order())
        await instance.destroy()

    visited(double, work)


def test_a_node_that_dies(double: Double) -> None:
    double.install()

    async def work(node: SshNode) -> None:
        instance = await node.create(order())
        sleep = await instance.agent.spawn(Command(("sleep", "60"), timeout_s=90))
        os.kill(server(double), signal.SIGKILL)
        with pytest.raises(UllageError) as caught:
            await sleep.wait()
        assert caught.value.kind is errors.NODE_LOST
        assert await instance.why_gone() is caught.value
        assert not instance.alive and node.lost
        await instance.destroy()  # what is gone already is no failure
        again = await node.create(order())  # reached anew, and cleaned
        assert again.alive and not node.lost
        await again.destroy()

    visited(double, work)


def test_a_node_that_is_silent(double: Double, monkeypatch: pytest.MonkeyPatch) -> None:
    double.install()
    monkeypatch.setattr(links, "SILENCE_S", 1.0)
    monkeypatch.setattr(links, "BEAT_S", 0.1)

    async def work(node: SshNode) -> None:
        os.kill(server(double), signal.SIGSTOP)
        with pytest.raises(UllageError) as caught:
            await node.create(order())
        assert caught.value.kind is errors.NODE_LOST

    visited(double, work)


@pytest.mark.parametrize("op", ["freeze", "destroy", "bye"])
def test_a_node_that_forgets_a_request(
    op: str, double: Double, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says that it is there, every few seconds; nobody waits for the answer for ever."""
    double.install()
    double.lie({"about": "done", "of": op, "lie": "never", "always": True})
    for name in ("TRIAL_S", "LEAVE_S"):
        monkeypatch.setattr(links, name, 1.0)

    async def work(node: SshNode) -> None:
        instance = await node.create(order())
        if op == "freeze":
            with pytest.raises(UllageError) as caught:
                await instance.freeze()
            assert caught.value.kind is errors.NODE_LOST
        await instance.destroy()

    visited(double, work)


def test_an_image_that_stands_still(
    double: Double, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    double.install()
    double.hang()
    monkeypatch.setattr(links, "SEND_S", 1.0)
    error = refused(double, lambda node: node.take(image(tmp_path, b"x" * 10_000)))
    assert error.kind is errors.NODE_LOST and "has not taken" in error.message
    waited_for(lambda: not list((double.home / "cache/images").glob("*/")))


def test_of_words_without_an_end_the_last_are_kept(double: Double, tmp_path: Path) -> None:
    """They come from the other machine as they like: all of them would fill a disk here."""
    double.install()
    double.flood()
    error = refused(double, lambda node: node.take(image(tmp_path, b"x" * 10_000)))
    assert error.kind is errors.NODE_REFUSED and "ssh says: flooded" in error.message


def test_what_a_killed_session_left_goes_with_the_next(double: Double) -> None:
    double.install()

    async def die(node: SshNode) -> None:
        await node.create(order())
        os.kill(server(double), signal.SIGKILL)

    asyncio.run(visit(double.node(), die))
    assert left(double)
    visited(double, nothing, TAG)  # as `--resume` does


def image(folder: Path, content: bytes, digest: str | None = None) -> Image:
    """A file system with one file, as an image's tar."""
    (folder / "tree").mkdir(exist_ok=True)
    (folder / "tree/file").write_bytes(content)
    tar = folder / "rootfs.tar"
    subprocess.run(["tar", "-cf", tar, "-C", folder / "tree", "."], check=True)
    whole = digest or hashlib.sha256(tar.read_bytes()).hexdigest()
    return Image(f"sha256:{whole}", folder / "tree", tar, {}, folder)


def test_what_a_machine_has_left(double: Double) -> None:
    double.install()

    async def work(node: SshNode) -> None:
        room = await node.room()
        assert room.cpus == len(os.sched_getaffinity(0))
        assert 0 < room.available_bytes < memory_bytes()

    visited(double, work)


def test_an_image_is_sent_once(double: Double, tmp_path: Path) -> None:
    double.install()
    sent = image(tmp_path, os.urandom(3_000_000))

    async def work(node: SshNode) -> None:
        assert not await node.has(sent)
        await node.take(sent)
        assert await node.has(sent)
        (kept,) = (double.home / "cache/images").glob("*/root/file")
        assert kept.read_bytes() == (sent.root / "file").read_bytes()
        sent.tar.write_bytes(b"not sent a second time")
        await node.take(sent)

    visited(double, work)


def test_an_image_that_arrives_otherwise(double: Double, tmp_path: Path) -> None:
    double.install()
    sent = image(tmp_path, b"x" * 10_000, "0" * 64)
    error = refused(double, lambda node: node.take(sent))
    assert error.kind is errors.NODE_IMAGE_CORRUPT
    assert not list((double.home / "cache/images").glob("*/root"))


def test_a_disk_that_is_full_there(double: Double, tmp_path: Path) -> None:
    double.install()
    cache = double.home / "cache"
    cache.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", cache], check=True)
    try:
        sent = image(tmp_path, os.urandom(5_000_000))
        error = refused(double, lambda node: node.take(sent))
    finally:
        subprocess.run(["umount", cache], check=True)
    assert error.kind is errors.NODE_DISK_FULL


def test_a_node_of_each_session_has_a_tag_of_its_own() -> None:
    tags = {of_node(TAG, "a", 0), of_node(TAG, "a", 1), of_node(TAG, "b", 0), TAG}
    assert len(tags) == 4
