"""The OCI provider with crun, on the real thing; Docker has its test in the lab."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import time
from pathlib import Path

import pytest

from tests.environments import containerkit as kit
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.environments.containers import oci_spec, seccomp
from ullage.environments.containers.oci import Oci, OciOptions
from ullage.host import paths
from ullage.host.cgroups import Group

pytestmark = pytest.mark.usefixtures("agent_binary")

USER = "ullage-test"


def oci() -> Oci:
    return Oci(OciOptions())


def test_a_crun_that_does_not_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "crun"
    program.write_text("#!/bin/sh\necho out of luck >&2\nexit 9\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UllageError, match="out of luck") as caught:
        asyncio.run(oci().check())
    assert caught.value.kind is errors.HOST_NO_ANSWER


@pytest.mark.root
def test_it_sees_what_it_was_given() -> None:
    asyncio.run(kit.sees_what_it_was_given(oci()))


@pytest.mark.root
def test_it_stands_still_when_frozen() -> None:
    asyncio.run(kit.stands_still_when_frozen(oci()))


@pytest.mark.root
def test_the_memory_limit_bites() -> None:
    asyncio.run(kit.memory_limit_bites(oci()))


@pytest.mark.root
def test_the_cpu_limits_bite() -> None:
    asyncio.run(kit.cpu_limits_bite(oci()))


@pytest.mark.root
def test_two_stand_side_by_side() -> None:
    asyncio.run(kit.two_stand_side_by_side(oci()))


@pytest.mark.root
def test_it_dies_and_is_destroyed_twice() -> None:
    asyncio.run(kit.dies_and_is_destroyed_twice(oci()))


@pytest.mark.root
def test_the_hosts_userland_inside_leaves_the_host_as_it_was() -> None:
    async def scenario() -> None:
        before = sorted(p.name for p in Path("/").iterdir())
        async with kit.running(oci()) as run:
            instance = await run.create(run.spec(host=True))
            _, printed = await kit.sh(instance, "cat /etc/hostname /etc/debian_version")
            assert printed == (
                Path("/etc/hostname").read_text() + Path("/etc/debian_version").read_text().strip()
            )
            for path in ("/here", "/etc/here", "/usr/here", "/var/here"):
                finished, printed = await kit.sh(instance, f"touch {path}")
                assert finished.status != 0
                assert "Read-only file system" in printed
            written, _ = await kit.sh(instance, "echo data > /data/file")
            assert written.status == 0
            assert (instance.spec.data_dir / "file").exists()
        assert sorted(p.name for p in Path("/").iterdir()) == before

    asyncio.run(scenario())


@pytest.mark.root
def test_without_a_network_there_is_only_loopback() -> None:
    asyncio.run(kit.without_a_network_there_is_only_loopback(oci()))


@pytest.mark.root
def test_it_has_the_capabilities_that_docker_gives() -> None:
    async def scenario() -> None:
        async with kit.running(oci()) as run:
            instance = await run.create()
            _, printed = await kit.sh(instance, "grep -E 'Cap(Eff|Bnd|Amb)' /proc/self/status")
            # The mask that Docker documents for its default set.
            docker = "00000000a80425fb"
            assert printed.split() == [
                *("CapEff:", docker),
                *("CapBnd:", docker),
                *("CapAmb:", "0" * 16),
            ]

    asyncio.run(scenario())


@pytest.mark.root
def test_a_profile_filters_system_calls(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    rules = [
        {"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO", "errnoRet": 1},
        {"names": ["sethostname"], "action": "SCMP_ACT_ERRNO", "errnoRet": 1},
    ]
    profile = tmp_path / "seccomp.json"
    profile.write_text(json.dumps({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": rules}))
    load = seccomp.load
    monkeypatch.setattr(seccomp, "load", lambda capabilities: load(capabilities, profile))

    async def scenario() -> None:
        provider = oci()
        async with kit.running(provider) as run:
            assert provider.treatments()["seccomp"] == "containers default profile"
            instance = await run.create()
            finished, printed = await kit.sh(instance, "mkdir /tmp/x")
            assert finished.status != 0
            assert "Operation not permitted" in printed

    asyncio.run(scenario())


@pytest.mark.root
def test_what_does_not_start_is_told_and_leaves_nothing() -> None:
    agent = Path("/no/such/agent")
    kit.is_refused(oci(), str(agent), agent=agent)


@pytest.mark.root
def test_an_agent_that_says_nothing_sensible_is_told_and_leaves_nothing(tmp_path: Path) -> None:
    kit.is_refused(oci(), "this is no agent", agent=kit.senseless_agent(tmp_path))


@pytest.mark.root
def test_a_limit_that_does_not_hold_is_told_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = oci_spec.config

    def without_memory(container: oci_spec.ContainerSpec) -> dict[str, object]:
        config = real(container)
        del config["linux"]["resources"]["memory"]
        return config

    monkeypatch.setattr(oci_spec, "config", without_memory)

    async def scenario() -> None:
        async with kit.running(oci()) as run:
            with pytest.raises(errors.UllageError) as caught:
                await run.create()
            assert caught.value.kind is errors.LIMIT_NOT_APPLIED
            assert kit.leftovers(run.tag) == []

    asyncio.run(scenario())


@pytest.mark.root
def test_a_cancelled_start_leaves_nothing() -> None:
    async def scenario() -> None:
        async with kit.running(oci()) as run:
            for delay_ms in (1, 10, 20, 40):
                task = asyncio.create_task(run.create())
                await asyncio.sleep(delay_ms / 1000)
                if task.cancel():
                    with pytest.raises(asyncio.CancelledError):
                        await task
                    assert kit.leftovers(run.tag) == []
                else:
                    await (await task).destroy()

    asyncio.run(scenario())


@pytest.mark.root
def test_when_the_controller_dies_the_container_ends() -> None:
    """The agent's channel is all that keeps it alive."""

    tag = kit.tag_of_a_killed_controller("oci")
    try:
        for _ in range(2000):
            if not Group.find(tag, "c-0").pids():
                break
            time.sleep(0.01)
        assert not Group.find(tag, "c-0").pids()
    finally:
        asyncio.run(kit.clean(tag))
    assert not Path(paths.state_dir(tag)).exists()


def test_a_runtime_that_is_missing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    for runtime in ("crun", "docker", "podman"):
        with pytest.raises(errors.UllageError) as caught:
            asyncio.run(Oci(OciOptions.model_validate({"runtime": runtime})).check())
        assert caught.value.kind is errors.HOST_MISSING
        assert runtime in caught.value.message


def test_a_runtime_that_does_not_answer_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for runtime, remedy in (("docker", "systemctl start docker"), ("podman", "podman info")):
        program = tmp_path / runtime
        program.write_text("#!/bin/sh\necho no daemon here >&2; exit 1\n", encoding="utf-8")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
        with pytest.raises(errors.UllageError) as caught:
            asyncio.run(Oci(OciOptions.model_validate({"runtime": runtime})).check())
        assert caught.value.kind is errors.HOST_NO_ANSWER
        assert "no daemon here" in caught.value.message and remedy in caught.value.hint


@pytest.mark.parametrize("runtime", ["rkt", "kata", "bin/crun", "crun --debug"])
def test_an_unknown_runtime_is_refused(runtime: str) -> None:
    with pytest.raises(ValueError, match="runtime"):
        OciOptions.model_validate({"runtime": runtime})


def test_the_label_names_the_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    labels = {
        runtime: Oci(OciOptions.model_validate({"runtime": runtime})).label()
        for runtime in ("crun", "docker")
    }
    assert labels == {"crun": "container (crun)", "docker": "container (docker)"}
