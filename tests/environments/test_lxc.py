"""The LXC provider, on the real thing."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from tests.environments import containerkit as kit
from ullage.common import errors
from ullage.common.commands import needed
from ullage.common.errors import UllageError
from ullage.environments.containers import lxc as lxc_module
from ullage.environments.containers.lxc import Lxc, LxcOptions
from ullage.host.cgroups import Group, hierarchies

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("agent_binary")]


def lxc() -> Lxc:
    return Lxc(LxcOptions())


def test_it_sees_what_it_was_given() -> None:
    asyncio.run(kit.sees_what_it_was_given(lxc()))


def test_apparmor_without_its_loader_is_found_before_a_container_dies_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    enabled = tmp_path / "enabled"
    enabled.write_text("Y\n")
    monkeypatch.setattr(lxc_module, "_APPARMOR", enabled)

    def absent(program: str, package: str) -> str:
        return needed("no-such-loader" if program == "apparmor_parser" else program, package)

    monkeypatch.setattr(lxc_module, "needed", absent)
    with pytest.raises(UllageError, match="no-such-loader") as caught:
        asyncio.run(lxc().check())
    assert caught.value.kind is errors.HOST_MISSING
    assert "apparmor" in caught.value.hint
    enabled.write_text("N\n")
    asyncio.run(lxc().check())


def test_it_stands_still_when_frozen() -> None:
    asyncio.run(kit.stands_still_when_frozen(lxc()))


def test_the_memory_limit_bites() -> None:
    asyncio.run(kit.memory_limit_bites(lxc()))


def test_the_cpu_limits_bite() -> None:
    asyncio.run(kit.cpu_limits_bite(lxc()))


def test_two_stand_side_by_side() -> None:
    asyncio.run(kit.two_stand_side_by_side(lxc()))


def test_without_a_network_there_is_only_loopback() -> None:
    asyncio.run(kit.without_a_network_there_is_only_loopback(lxc()))


def test_it_dies_and_is_destroyed_twice() -> None:
    asyncio.run(kit.dies_and_is_destroyed_twice(lxc()))


def test_the_attached_agent_is_in_the_cgroup_of_the_container() -> None:
    async def scenario() -> None:
        async with kit.running(lxc()) as run:
            instance = await run.create()
            assert instance.agent.facts["init"] is False
            pids = Group.find(run.tag, "c-0").pids()
            names = {Path(f"/proc/{pid}/cmdline").read_text().split("\0")[1] for pid in pids}
            assert {"pause", "serve"} <= names

    asyncio.run(scenario())


def test_lxc_leaves_no_cgroup_of_its_own_beside_ours() -> None:
    def others() -> list[str]:
        places = (tree.path for tree in hierarchies())
        return [str(path) for place in places for path in place.glob("*lxc*")]

    async def scenario() -> None:
        before = others()
        async with kit.running(lxc()) as run:
            await run.create()
        assert others() == before

    asyncio.run(scenario())


def test_what_a_killed_controller_leaves_is_found_by_its_tag() -> None:
    tag = kit.tag_of_a_killed_controller("lxc")
    try:
        assert Group.find(tag, "c-0").pids()
        assert Group.find(tag, "c-0.monitor").pids()
    finally:
        asyncio.run(kit.clean(tag))
    assert kit.leftovers(tag) == []


def test_what_does_not_start_is_told_and_leaves_nothing() -> None:
    agent = Path("/no/such/agent")
    kit.is_refused(lxc(), str(agent), agent=agent)


def test_an_agent_that_says_nothing_sensible_is_told_and_leaves_nothing(tmp_path: Path) -> None:
    kit.is_refused(lxc(), "this is no agent", agent=kit.senseless_agent(tmp_path))


def test_the_hosts_userland_is_refused() -> None:
    kit.is_refused(lxc(), "", host=True)


def test_it_needs_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(errors.UllageError) as caught:
        asyncio.run(lxc().check())
    assert caught.value.kind is errors.HOST_NEEDS_ROOT
