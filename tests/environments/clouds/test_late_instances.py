"""Instances that a cloud makes when nobody waits for its answer any more: none may be left."""

from __future__ import annotations

import asyncio
import itertools
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from testing.clouds import openstack as double
from tests.environments import containerkit as kit
from tests.environments.clouds.test_openstack import LAUNCH, an_error, provider, spec
from ullage.cli.cloud import commands
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.environments.clouds import calls, coming
from ullage.environments.clouds.coming import Coming
from ullage.environments.clouds.driver import Driver
from ullage.host import user_commands

pytestmark = pytest.mark.root


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is still on its way has come after 2 s, and nobody waits long before he asks again."""
    monkeypatch.setattr(coming, "CARRIED_OUT_S", 2.0)
    monkeypatch.setattr(calls, "_LONGEST_S", 0.01)


async def _failed(stack: double.OpenStackDouble, **more: Any) -> UllageError:
    async with kit.running(provider(stack, **more)) as run:
        with pytest.raises(UllageError) as caught:
            await run.create(spec(run, stack))
        await asyncio.sleep(1)
        assert stack.left() == []
        assert [r for r in user_commands.records() if r.tag == run.tag] == []
    return caught.value


@kit.in_a_loop
async def test_the_last_try_is_carried_out_after_its_answer(stack: double.OpenStackDouble) -> None:
    """Nova behind a proxy that waits 60 s: seen to be done 92 s after it was sent."""
    tries, stack.late, stack.late_s = itertools.count(1), 1, 0.5

    def proxy(call: str) -> double.Answer | None:
        cut_off = call == LAUNCH and next(tries) < 8
        return an_error(504, "The gateway waits no longer.") if cut_off else None

    stack.trouble = proxy
    assert (await _failed(stack)).kind is errors.CLOUD_NO_ANSWER
    assert stack.late == 0, "the last one was on its way"


@kit.in_a_loop
async def test_a_try_that_holds_the_quota_is_carried_out(stack: double.OpenStackDouble) -> None:
    stack.late, stack.late_s = 1, 0.5
    refused = an_error(403, "Quota exceeded for instances: Requested 1, but already used 1 of 1")
    stack.trouble = lambda call: refused if call == LAUNCH and not stack.late else None
    assert (await _failed(stack)).kind is errors.CLOUD_QUOTA


@kit.in_a_loop
async def test_the_removal_ends_though_one_may_come(
    stack: double.OpenStackDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then the record says so: who looks later does not forget it too early either."""
    monkeypatch.setattr(coming, "CARRIED_OUT_S", 60.0)
    stack.trouble = lambda call: an_error(504) if call == LAUNCH else None
    async with kit.running(provider(stack, deadline_s=1)) as run:
        with pytest.raises(UllageError):
            await run.create(spec(run, stack))
        (record,) = [r for r in user_commands.records() if r.tag == run.tag]
        assert record.may_come
        user_commands.forget(record)


@pytest.mark.lab
@kit.in_a_loop
async def test_who_dies_while_it_is_asked_for_has_written_it_down(
    stack: double.OpenStackDouble,
) -> None:
    seen: list[bool] = []
    async with kit.running(provider(stack)) as run:
        ours = (r for r in user_commands.records() if r.tag == run.tag)
        stack.on_launch = lambda: seen.extend(record.may_come for record in ours)
        instance = await run.create(spec(run, stack))
        (record,) = [r for r in user_commands.records() if r.tag == run.tag]
        assert (seen, record.may_come) == ([True], False)
        await instance.destroy()


def test_what_may_still_come_is_not_forgotten(tag: str) -> None:
    gone = user_commands.Removal(
        tag=tag, name="x", listing=("true",), destroy=(("true",),), deadline_s=60
    )
    awaited = gone.model_copy(update={"may_come_until": time.time() + 60})
    user_commands.keep(awaited)
    with pytest.raises(UllageError, match="may still make it") as caught:
        user_commands.remove(awaited)
    assert caught.value.kind is errors.INSTANCE_NOT_REMOVED
    assert list(user_commands.records()) == [awaited]
    user_commands.remove(gone.model_copy(update={"may_come_until": time.time() - 1}))
    assert list(user_commands.records()) == []


def test_a_record_of_what_stands_elsewhere_outlives_a_boot(
    tag: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state lies in memory, and is gone then."""
    local = user_commands.Removal(
        tag=tag, name="x", listing=("true",), destroy=(("true",),), deadline_s=60
    )
    cloud = local.model_copy(update={"name": "y", "lasting": True})
    user_commands.keep(local)
    user_commands.keep(cloud)
    assert {record.name for record in user_commands.records()} == {"x", "y"}
    monkeypatch.setenv("ULLAGE_STATE_DIR", str(tmp_path / "after the boot"))
    assert list(user_commands.records()) == [cloud]
    user_commands.remove(cloud)
    assert list(user_commands.records()) == []


@pytest.mark.parametrize(
    ("answers", "once", "possible"),
    [
        (["made"], False, False),
        (["nothing", "made"], False, True),
        (["nothing", "made"], True, False),
        (["nothing", "refused"], True, True),
        (["refused"], False, False),
    ],
)
def test_which_requests_leave_it_open(answers: list[str], once: bool, possible: bool) -> None:
    notes: list[float | None] = []
    ours = Coming(notes.append)
    words = iter(answers)

    def launch() -> None:
        assert ours.possible, "while nobody has answered"
        if (word := next(words)) != "made":
            raise ConnectionError(word)

    watched = ours.watched(launch, unanswered=lambda error: str(error) == "nothing", once=once)
    for word in answers:
        if word == "made":
            watched()
        else:
            with pytest.raises(ConnectionError):
                watched()
    assert ours.possible is possible
    assert (notes[-1] is not None) is possible
    assert len(notes) == 2 * len(answers)


def test_a_removal_by_hand_ends_where_the_cloud_removes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(commands, "_REMOVAL_S", 0.2)
    driver = SimpleNamespace(remove=lambda *_: False, launch=None, title="a cloud")
    with pytest.raises(UllageError, match=r"a cloud still has it after 0\.2 s") as caught:
        commands._remove(cast("Driver", driver), "ullage-u0000000-c-0", "u0000000")
    assert caught.value.kind is errors.INSTANCE_NOT_REMOVED


def test_a_removal_elsewhere_has_the_time_that_its_plan_gives(
    stack: double.OpenStackDouble,
) -> None:
    """A step of what is undone ended it after 300 s, as late and not as not removed."""
    assert provider(stack, deadline_s=900).removal_s > 900
