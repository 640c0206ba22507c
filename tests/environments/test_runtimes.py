"""OCI runtimes beside crun: command lines, and runc on the real thing; gVisor is in the lab."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.environments import containerkit as kit
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.environments.base import Provider
from ullage.environments.containers import runtimes
from ullage.environments.containers.oci import Oci, OciOptions
from ullage.environments.containers.runtimes import Runtime, RuntimeKind


def program(folder: Path, printed: str) -> str:
    path = folder / "runtime"
    path.write_text(f"#!/bin/sh\necho '{printed}'\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("printed", "kind", "version"),
    [
        ("crun version 1.8.1", "crun", "1.8.1"),
        ("runc version 1.1.5+ds1", "runc", "1.1.5+ds1"),
        ("runsc version release-20260905.0", "runsc", "release-20260905.0"),
        ("youki version: 0.5.3", "youki", "0.5.3"),
    ],
)
def test_it_is_known_by_its_version(tmp_path: Path, printed: str, kind: str, version: str) -> None:
    path = program(tmp_path, printed)
    runtime = asyncio.run(runtimes.find(path, "systrap"))
    assert (runtime.kind, runtime.program, runtime.version) == (kind, path, version)


def test_one_that_was_not_asked_yet_has_a_name_all_the_same() -> None:
    """A run that is taken up is told from another by its providers, before they are checked."""
    provider = Oci(OciOptions(runtime="/opt/runsc", platform="ptrace"))
    assert "gVisor, ptrace" in provider.label()
    assert provider.treatments()["runtime"] == "runsc unknown"
    assert Oci(OciOptions(runtime="/opt/mine")).treatments()["runtime"] == "runc unknown"


def test_what_is_no_runtime_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UllageError) as caught:
        asyncio.run(runtimes.find(program(tmp_path, "true (GNU coreutils) 9.1"), "systrap"))
    assert caught.value.kind is errors.HOST_NO_ANSWER
    assert "names none of crun, runc, youki, runsc" in caught.value.message


def test_one_that_debian_lacks_is_told_with_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    for name, hint in (("runsc", "gvisor.dev"), ("youki", "youki"), ("runc", "install runc")):
        with pytest.raises(UllageError) as caught:
            asyncio.run(runtimes.find(name, "systrap"))
        assert caught.value.kind is errors.HOST_MISSING
        assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("kind", "rootless", "options"),
    [
        ("crun", False, ["--cgroup-manager=cgroupfs"]),
        ("crun", True, ["--cgroup-manager=disabled"]),
        ("runc", False, []),
        ("youki", False, []),
        ("runsc", False, ["--platform=kvm", "--overlay2=none"]),
        ("runsc", True, ["--platform=kvm", "--overlay2=none", "--rootless", "--ignore-cgroups"]),
    ],
)
def test_command_lines(kind: RuntimeKind, rootless: bool, options: list[str]) -> None:
    runtime = Runtime(kind, "/bin/it", "1", "kvm")
    argv = runtime.command(Path("/run/x"), rootless=rootless)
    assert argv == ["/bin/it", "--root", "/run/x", *options]


@pytest.mark.root
@pytest.mark.usefixtures("agent_binary")
@pytest.mark.parametrize(
    "scenario",
    [
        kit.sees_what_it_was_given,
        kit.stands_still_when_frozen,
        kit.memory_limit_bites,
        kit.two_stand_side_by_side,
        kit.dies_and_is_destroyed_twice,
    ],
)
def test_runc(scenario: Callable[[Provider], Awaitable[None]]) -> None:
    async def run() -> None:
        await scenario(Oci(OciOptions(runtime="runc")))

    asyncio.run(run())
