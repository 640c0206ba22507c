"""Instances of OpenStack: a double that speaks its APIs, with a real machine behind each."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from testing.clouds import openstack as double
from tests.environments import containerkit as kit
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.common.quantities import memory_bytes
from ullage.environments.base import Instance, InstanceSpec
from ullage.environments.clouds.calls import Calls
from ullage.environments.clouds.driver import NotAnAnswerError
from ullage.environments.clouds.nova import NovaDriver
from ullage.environments.clouds.openstack import OpenStack, OpenStackOptions
from ullage.host import user_commands

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("agent_binary")]
LAUNCH = "POST /servers"


def provider(stack: double.OpenStackDouble, **more: Any) -> OpenStack:
    fields = stack.plan(**more)
    del fields["provider"]
    return OpenStack(OpenStackOptions.model_validate(fields))


def spec(run: kit.Run, stack: double.OpenStackDouble) -> InstanceSpec:
    """An instance of the whole host."""
    cpu_ids = tuple(range(stack.cpus))
    return replace(run.spec(), cpu_ids=cpu_ids, memory_bytes=memory_bytes(), network=None)


@asynccontextmanager
async def running(
    stack: double.OpenStackDouble, **more: Any
) -> AsyncIterator[tuple[kit.Run, Instance]]:
    async with kit.running(provider(stack, **more)) as run:
        yield run, await run.create(spec(run, stack))
    assert stack.left() == []
    assert [r for r in user_commands.records() if r.tag == run.tag] == []


@pytest.mark.parametrize("host_key", ["inject", pytest.param("console", marks=pytest.mark.lab)])
@kit.in_a_loop
async def test_made_used_and_removed(stack: double.OpenStackDouble, host_key: str) -> None:
    stack.admin = host_key == "console"
    more = {"network": "prov", "server_group": "apart", "config_drive": True, "zone": "nova"}
    passed: list[str] = []
    async with kit.running(provider(stack, host_key=host_key, **more)) as run:
        wanted = replace(spec(run, stack), on_stage=lambda stage, _: passed.append(stage))
        instance = await run.create(wanted)
        assert len(stack.left()) == 2, "the instance and its key"
        assert (await kit.sh(instance, "hostname"))[1].startswith("c-0")
        (server,) = stack.servers.values()
        assert server.wanted["metadata"]["ullage-tag"] == run.tag
        assert server.wanted["availability_zone"] == "nova"
        assert server.wanted["config_drive"] is True
        below = {k: v for k, v in instance.agent.facts.items() if k.startswith("cloud_")}
        seconds = {"cloud_scheduling_s": "2", "cloud_building_s": "5"}
        host = {"cloud_host": "compute-1", "cloud_hypervisor": "QEMU"} if stack.admin else {}
        assert below == {"cloud_image": "sent"} | seconds | host
        assert passed == ["requested", "chosen", "copied", "addressed", "reached"]
        (record,) = [r for r in user_commands.records() if r.tag == run.tag]
        assert double.PASSWORD not in record.model_dump_json()
        await instance.destroy()
        assert stack.left() == []
    assert stack.calls.count("POST /auth/tokens") == 1, "it logs in once"


@pytest.mark.parametrize("all_of_it", [True, False])
def test_what_nova_is_asked_for(stack: double.OpenStackDouble, all_of_it: bool) -> None:
    more = {"network": "prov", "zone": "nova", "security_groups": ["ssh-in", "web"]}
    ours = provider(stack, **more) if all_of_it else provider(stack)
    driver = NovaDriver("double", None, *(("apart", False) if all_of_it else ()))
    ours._image = driver.find_image("debian12")
    name, key = "ullage-u0000000-c-0", "ssh-ed25519 AAAA"
    request = ours._request(name, "u0000000", key, "#!/bin/sh\n")
    driver.launch(request)
    server = {
        "name": name,
        "flavorRef": "1",
        "imageRef": double.identifier("debian12"),
        "key_name": name,
        "metadata": {"ullage-tag": "u0000000", "ullage-token": request.token},
        "user_data": "IyEvYmluL3NoCg==",
    }
    chosen = {
        "availability_zone": "nova",
        "config_drive": False,
        "security_groups": [{"name": "ssh-in"}, {"name": "web"}],
        "networks": [{"uuid": double.identifier("prov")}],
    }
    hints = {"os:scheduler_hints": {"group": "g-1"}}
    whole = {"server": server | chosen} | hints if all_of_it else {"server": server}
    assert stack.asked_for == [whole]
    assert stack.keys == {name: key}


@pytest.mark.lab
@kit.in_a_loop
async def test_idle_it_stands_still(stack: double.OpenStackDouble) -> None:
    async with running(stack) as (_, instance):
        stack.pauses = False
        with pytest.raises(UllageError) as caught:
            await instance.freeze()
        assert caught.value.kind is errors.CLOUD_REFUSED
        assert "os-pause" in caught.value.message
        await _stands_still_and_goes_on(stack, instance)
        await instance.freeze()
        stack.vanish()
        with pytest.raises(UllageError) as caught:
            await instance.thaw()
        assert caught.value.kind is errors.CLOUD_VANISHED
        why = await instance.why_gone()
        assert why is not None
        assert why.kind is errors.CLOUD_VANISHED


async def _stands_still_and_goes_on(stack: double.OpenStackDouble, instance: Instance) -> None:
    stack.pauses = True
    (server,) = stack.servers.values()
    assert server.status == "ACTIVE"
    for _ in range(2):
        await instance.freeze()
        assert server.status == "PAUSED"
    looks = len(instance.agent.looks)
    await instance.thaw()
    assert server.status == "ACTIVE"
    assert len(instance.agent.looks) == looks + 1, "its clock is read anew"
    assert (await kit.sh(instance, "true"))[0].status == 0


def test_idle_it_runs_on_where_the_plan_says_so(stack: double.OpenStackDouble) -> None:
    assert provider(stack, idle="runs").treatments()["idle"] == "not frozen"
    assert not provider(stack, idle="runs").pauses
    assert provider(stack).treatments()["idle"] == "paused"


async def refused(stack: double.OpenStackDouble, **more: Any) -> UllageError:
    """Why none could be made; nothing is left of it."""
    with pytest.raises(UllageError) as caught:
        async with running(stack, **more):
            pass
    assert stack.left() == []
    return caught.value


def an_error(status: int, message: str = "as it says", **headers: str) -> double.Answer:
    body = json.dumps({"error": {"code": status, "message": message}})
    return status, {"Content-Type": "application/json", **headers}, body


@pytest.mark.parametrize(
    ("status", "message", "kind"),
    [
        (403, "Quota exceeded for cores: Requested 1", errors.CLOUD_QUOTA),
        (403, "Policy doesn't allow os_compute_api:servers:create", errors.CLOUD_REFUSED),
        (404, "Image not found.", errors.CLOUD_LACKS),
        (400, "Flavor's disk is too small for requested image.", errors.CLOUD_REFUSED),
    ],
)
@kit.in_a_loop
async def test_a_refusal_in_the_clouds_own_words(
    stack: double.OpenStackDouble, status: int, message: str, kind: errors.ErrorKind
) -> None:
    stack.trouble = lambda call: an_error(status, message) if call == LAUNCH else None
    error = await refused(stack)
    assert error.kind is kind
    assert message in error.message
    assert stack.calls.count(LAUNCH) == 1, "it is not asked again"


@kit.in_a_loop
async def test_a_quota_that_is_reached(stack: double.OpenStackDouble) -> None:
    stack.quota = 0
    error = await refused(stack)
    assert error.kind is errors.CLOUD_QUOTA
    assert "already used 0 of 0 instances" in error.message


HTML = "<html><body>502 Bad Gateway</body></html>"


@pytest.mark.parametrize(
    "answer",
    [
        an_error(429, **{"Retry-After": "0"}),
        an_error(500),
        (502, {"Content-Type": "text/html"}, HTML),
        (200, {"Content-Type": "text/html"}, HTML),
        (200, {"Content-Type": "application/json", "Content-Length": "9999"}, '{"flav'),
        (200, {"Content-Type": "application/json"}, "[]"),
        (200, {}, ""),
    ],
    ids=["limit", "500", "502", "page", "half", "list", "nothing"],
)
@kit.in_a_loop
async def test_what_is_no_answer_is_asked_again(
    stack: double.OpenStackDouble, answer: double.Answer
) -> None:
    bad = {"GET /images": 2, "GET /flavors/detail": 2}

    def trouble(call: str) -> double.Answer | None:
        bad[call] = bad.get(call, 0) - 1
        return answer if bad[call] >= 0 else None

    stack.trouble = trouble
    await provider(stack).check()
    assert stack.calls.count("GET /flavors/detail") == 3


@kit.in_a_loop
async def test_the_budget_ends(
    stack: double.OpenStackDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ullage.environments.clouds.calls._LONGEST_S", 0.01)
    stack.trouble = lambda _: an_error(503)
    with pytest.raises(UllageError) as caught:
        await provider(stack).check()
    assert caught.value.kind is errors.CLOUD_NO_ANSWER


@pytest.mark.lab
@kit.in_a_loop
async def test_a_lost_answer_makes_no_second_instance(stack: double.OpenStackDouble) -> None:
    ours, calls = provider(stack), Calls(NovaDriver("double"), "c-0")
    ours._image = calls.driver.find_image("debian12")
    stack.lost = 1
    request = ours._request("ullage-u0000000-c-0", "u0000000", "ssh-ed25519 AAAA", "")
    machine = await calls.ask(calls.driver.launch, request)
    assert stack.calls.count(LAUNCH) == 1, "it has looked before it asked again"
    assert [machine.id] == list(stack.servers)


@kit.in_a_loop
async def test_a_request_that_is_done_late_makes_no_double(stack: double.OpenStackDouble) -> None:
    """Seen on a crowded Nova: it took 92 s to answer, and we had asked again after 60."""
    ours, calls = provider(stack), Calls(NovaDriver("double"), "c-0")
    ours._image = calls.driver.find_image("debian12")
    stack.late = 1
    request = ours._request("ullage-u0000000-c-0", "u0000000", "ssh-ed25519 AAAA", "")
    machine = await calls.ask(calls.driver.launch, request)
    first, second = stack.servers.values()
    assert machine.id == first.id
    assert second.turns_to == "DELETED" != first.turns_to


@kit.in_a_loop
async def test_one_that_never_boots(stack: double.OpenStackDouble) -> None:
    stack.dead = True
    assert (await refused(stack, deadline_s=5)).kind is errors.CLOUD_NOT_UP


@kit.in_a_loop
async def test_somebody_else_answers(stack: double.OpenStackDouble) -> None:
    stack.impostor = True
    assert (await refused(stack)).kind is errors.CLOUD_HOST_KEY


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (
            "No valid host was found. There are not enough hosts available.",
            errors.CLOUD_QUOTA,
        ),
        (
            "Quota exceeded for instances: Requested 1, but already used 1 of 1 instances",
            errors.CLOUD_QUOTA,
        ),
        (
            "Build of instance 4f1e aborted: Failed to allocate the network(s), not rescheduling.",
            errors.CLOUD_INSTANCE_FAILED,
        ),
    ],
)
@kit.in_a_loop
async def test_an_instance_in_error(
    stack: double.OpenStackDouble, fault: str, kind: errors.ErrorKind
) -> None:
    """The real one's words: it counts quotas twice, and may refuse what it has begun."""
    stack.full, stack.fault = True, fault
    error = await refused(stack)
    assert error.kind is kind
    assert fault in error.message


@pytest.mark.parametrize(
    "more", [{"flavor": "none"}, {"boot_image": "none"}, {"boot_image": "twice"}]
)
@kit.in_a_loop
async def test_what_the_plan_names_and_is_not_there(
    stack: double.OpenStackDouble, more: dict[str, str]
) -> None:
    error = await refused(stack, **more)
    assert error.kind is errors.CLOUD_LACKS
    assert next(iter(more.values())) in error.message


@pytest.mark.parametrize("more", [{"network": "none"}, {"server_group": "none"}])
@kit.in_a_loop
async def test_a_network_or_a_group_that_is_not_there(
    stack: double.OpenStackDouble, more: dict[str, str]
) -> None:
    assert (await refused(stack, **more)).kind is errors.CLOUD_LACKS
    assert LAUNCH not in stack.calls


@kit.in_a_loop
async def test_a_flavor_of_another_size(stack: double.OpenStackDouble) -> None:
    assert (await refused(stack, flavor="small")).kind is errors.CLOUD_FLAVOR


def test_wrong_credentials(stack: double.OpenStackDouble, tmp_path: Path) -> None:
    (tmp_path / "clouds.yaml").write_text(stack.clouds_yaml("wrong"))
    with pytest.raises(UllageError) as caught:
        asyncio.run(provider(stack).check())
    assert caught.value.kind is errors.CLOUD_CREDENTIALS
    assert "requires authentication" in caught.value.message
    with pytest.raises(UllageError) as caught:
        NovaDriver("nobody")
    assert caught.value.kind is errors.CLOUD_CREDENTIALS


def test_without_the_client(stack: double.OpenStackDouble, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openstack", None)
    with pytest.raises(UllageError) as caught:
        provider(stack).driver()
    assert caught.value.kind is errors.HOST_MISSING
    assert "ullage[clouds]" in caught.value.hint


def test_all_pages_of_a_list_are_read_and_only_ours_are_shown(
    stack: double.OpenStackDouble,
) -> None:
    driver = NovaDriver("double")
    ours, key = provider(stack), "ssh-ed25519 AAAA"
    ours._image = driver.find_image("debian12")
    for number in range(3):
        name = f"ullage-u0000000-c-{number}"
        driver.launch(ours._request(name, "u0000000", key, ""))
    driver.launch(ours._request("ullage-u9999999-c-0", "u9999999", key, ""))
    *_, strange = stack.servers.values()
    strange.wanted["metadata"].clear()
    assert len(driver.machines("u0000000")) == len(driver.machines()) == 3
    for machine in driver.machines():
        while not driver.remove(machine.name, machine.tag):
            pass
    assert list(stack.servers) == [strange.id]


@pytest.mark.parametrize("body", ['{"server": []}', '{"server": {"id": "1"}}', "{}"])
def test_an_answer_without_its_parts_is_none(stack: double.OpenStackDouble, body: str) -> None:
    driver = NovaDriver("double")
    answer = (200, {"Content-Type": "application/json"}, body)
    stack.trouble = lambda call: answer if call == "GET /servers/ID" else None
    with pytest.raises(NotAnAnswerError):
        driver.machine("00000000-0000-0000-0000-000000000000")


def test_what_we_may_have(stack: double.OpenStackDouble) -> None:
    stack.quota = 7
    assert provider(stack).driver().limits() == "at most 7 instances, 0 are used"
    stack.quota = -1
    assert provider(stack).driver().limits() == ""
