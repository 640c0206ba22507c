"""The OCI provider with Docker: a daemon of our own, with its own store, socket and no networks."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.environments import containerkit as kit
from tests.lab import dockerkit
from ullage.common import errors
from ullage.environments.containers.oci import Oci, OciOptions

pytestmark = [
    pytest.mark.lab,
    pytest.mark.root,
    pytest.mark.usefixtures("agent_binary", "daemon"),
]


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with dockerkit.daemon(tmp_path_factory.mktemp("docker")):
        yield


def docker() -> Oci:
    return Oci(OciOptions(runtime="docker"))


def test_it_sees_what_it_was_given() -> None:
    asyncio.run(kit.sees_what_it_was_given(docker()))


def test_it_stands_still_when_frozen() -> None:
    asyncio.run(kit.stands_still_when_frozen(docker()))


def test_the_memory_limit_bites() -> None:
    asyncio.run(kit.memory_limit_bites(docker()))


def test_the_cpu_limits_bite() -> None:
    asyncio.run(kit.cpu_limits_bite(docker()))


def test_two_stand_side_by_side() -> None:
    asyncio.run(kit.two_stand_side_by_side(docker()))


def test_the_image_is_imported_once() -> None:
    def images() -> list[str]:
        command = ["docker", "images", "--format", "{{.Repository}}:{{.Tag}}"]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        return done.stdout.split()

    async def scenario() -> None:
        async with kit.running(docker()) as run:
            await asyncio.gather(run.create(run.spec("c-0")), run.create(run.spec("c-1")))
        async with kit.running(docker()) as run:
            await run.create()

    asyncio.run(scenario())
    assert images() == [f"ullage:{kit.image().digest.removeprefix('sha256:')[:12]}"]


def test_label_and_treatments_say_docker() -> None:
    async def scenario() -> None:
        provider = docker()
        await provider.check()
        assert provider.label() == "container (docker)"
        treatments = provider.treatments()
        assert treatments["runtime"].startswith("Docker version")
        assert "seccomp" in treatments["seccomp"]

    asyncio.run(scenario())


def test_the_hosts_userland_is_refused() -> None:
    kit.is_refused(docker(), "", host=True)


def test_what_does_not_start_is_told_and_leaves_nothing(tmp_path: Path) -> None:
    kit.is_refused(docker(), "this is no agent", agent=kit.senseless_agent(tmp_path))


def test_a_daemon_that_does_not_answer_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///no/such/socket")
    with pytest.raises(errors.UllageError) as caught:
        asyncio.run(docker().check())
    assert caught.value.kind is errors.HOST_NO_ANSWER
    assert "systemctl start docker" in caught.value.hint
