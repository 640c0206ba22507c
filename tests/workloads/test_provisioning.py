"""The workload `provisioning`: what its record must hold, and what follows from it."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage import environments, workloads
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.engine.figures import parse
from ullage.environments.provisioning.node import Site
from ullage.plan.matrix import Case
from ullage.runs.allocations import Batch
from ullage.workloads.base import Context, InvalidTrialError, Output
from ullage.workloads.provisioning import Provisioning, ProvisioningParameters

MS = 1_000_000
BASE = {
    "asked": 0,
    "chosen": 1,
    "copied": 3,
    "addressed": 20,
    "booting": 21,
    "port_closed": 22,
    "hello": 50,
    "up": 60,
    "started": 61,
    "port_open": 70,
    "replied": 75,
}
Record = dict[str, Any]


def instance(number: int, later_ms: int = 0) -> Record:
    steps = {step: (1000 + at + later_ms * (at > 3)) * MS for step, at in BASE.items()}
    requested_at, gone = 2000 * MS, (2010 + later_ms) * MS
    return {"name": f"a-{number}", "steps": steps, "release_asked": requested_at, "released": gone}


def record(count: int = 2) -> Record:
    instances = [instance(number, 10 * number) for number in range(count)]
    return {"format": 1, "copy_kind": "backing", "applied": True, "instances": instances}


def case(count: int = 2, **fields: Any) -> Case:
    parameters = ProvisioningParameters.model_validate({"count": count, **fields})
    return Case("provisioning", "provisioning", Provisioning(), parameters, {})


def output(text: str, seconds: float = 60.0) -> dict[str, Output]:
    return {"main": Output(0, None, text, "", seconds)}


def figures(batch: Record, **fields: Any) -> dict[str, Any]:
    count = len(batch["instances"])
    return dict(parse(case(count, **fields), output(json.dumps(batch), seconds=1e6)))


def test_the_figures_of_two() -> None:
    values = figures(record())
    assert values["allocation_time"] == pytest.approx(0.070)
    assert values["instance_time"] == pytest.approx(0.065)
    assert values["choose_time"] == pytest.approx(0.001)
    assert values["copy_time"] == pytest.approx(0.002)
    assert values["boot_time"] == pytest.approx(0.062)
    assert values["release_time"] == pytest.approx(0.020)
    assert values["instance_release_time"] == pytest.approx(0.015)
    assert values["port_closed_time"] == pytest.approx(0.027)
    assert values["reply_time"] == pytest.approx(0.080)
    assert values["allocated"] == [(1.0, pytest.approx(0.060)), (2.0, pytest.approx(0.070))]
    assert values["replied"] == [(1.0, pytest.approx(0.075)), (2.0, pytest.approx(0.085))]
    assert values["released"] == [(1.0, pytest.approx(0.010)), (2.0, pytest.approx(0.020))]


@given(st.lists(st.integers(0, 100_000), min_size=1, max_size=8))
def test_the_three_parts_are_the_whole(later: list[int]) -> None:
    instances = [instance(number, late_ms) for number, late_ms in enumerate(later)]
    last = max(made_instance["steps"]["replied"] for made_instance in instances)
    for made_one in instances:
        made_one["release_asked"], made_one["released"] = last, last + 1
    values = figures({**record(0), "instances": instances})
    parts = values["choose_time"] + values["copy_time"] + values["boot_time"]
    assert values["instance_time"] == pytest.approx(parts)
    times = [seconds for _, seconds in values["allocated"]]
    assert times == sorted(times)
    assert values["allocation_time"] == times[-1] >= values["instance_time"] * (1 - 1e-9)


def test_a_server_that_was_open_at_the_first_look() -> None:
    batch = record()
    del batch["instances"][1]["steps"]["port_closed"]
    assert "port_closed_time" not in figures(batch)
    assert "port_open_time" in figures(batch)


def test_without_an_application() -> None:
    batch = {**record(), "applied": False}
    for made_instance in batch["instances"]:
        for step in ("started", "port_closed", "port_open", "replied"):
            del made_instance["steps"][step]
    assert not {"replied", "reply_time", "port_open_time"} & set(figures(batch, application="none"))


def drop(step: str) -> Callable[[Record], object]:
    return lambda batch: batch["instances"][1]["steps"].pop(step)


def move(step: str, to_ms: int) -> Callable[[Record], object]:
    return lambda batch: batch["instances"][1]["steps"].update({step: to_ms * MS})


BENT: dict[str, Callable[[Record], object]] = {
    "one too few": lambda batch: batch["instances"].pop(),
    "one name twice": lambda batch: batch["instances"][1].update(name="a-0"),
    "of another size": lambda batch: batch.update(image_size=1 << 30),
    "copied when it should not be": lambda batch: batch.update(copy_kind="real"),
    "without its application": lambda batch: batch.update(applied=False),
    "another format": lambda batch: batch.update(format=2),
    "a field that nobody knows": lambda batch: batch.update(more=1),
    "a step that nobody knows": move("dreamt", 1010),
    "a negative instant": move("asked", -1),
    "no hello": drop("hello"),
    "hello before it booted": move("booting", 1065),
    "never addressed": drop("addressed"),
    "no reply": drop("replied"),
    "copied before it was chosen": move("copied", 1000),
    "up before hello": move("up", 1030),
    "open before it was up": move("port_open", 1040),
    "open before it was closed": move("port_closed", 1090),
    "released before it replied": lambda batch: batch["instances"][1].update(
        release_asked=1050 * MS
    ),
    "gone before it was asked to go": lambda batch: batch["instances"][1].update(
        released=1999 * MS
    ),
    "longer than the trial": lambda batch: batch["instances"][1].update(released=90_000 * MS),
}


@pytest.mark.parametrize("fault", list(BENT))
def test_a_record_that_cannot_be(fault: str) -> None:
    batch = record()
    BENT[fault](batch)
    with pytest.raises(InvalidTrialError):
        parse(case(), output(json.dumps(batch)))


@pytest.mark.parametrize("text", ["", "[]", "null", "x" * 2_000_000, '{"format":1}'])
def test_what_is_no_record(text: str) -> None:
    with pytest.raises(InvalidTrialError):
        parse(case(), output(text))


@given(st.text(max_size=200))
def test_any_text_is_refused_in_order(text: str) -> None:
    with pytest.raises(InvalidTrialError):
        parse(case(), output(text))


def test_the_plan_says_copy() -> None:
    parameters = ProvisioningParameters.model_validate({"copy": "real", "count": 16})
    assert parameters.model_dump()["copy"] == "real"
    assert Provisioning().title(parameters) == "allocate 16, image copied"


def test_the_plan_says_how_large_an_image_is() -> None:
    sized = case(copy="real", image_size="2800MB")
    parameters = ProvisioningParameters.model_validate(sized.parameters.model_dump())
    assert sized.parameters.model_dump()["image_size"] == 2_800_000_000
    assert "image_size" not in case(copy="real").parameters.model_dump()
    assert Provisioning().title(parameters).startswith("allocate 2, image of 2.6GiB copied")
    whole = {**record(), "copy_kind": "real", "image_size": 2_800_000_000}
    assert parse(sized, output(json.dumps(whole)))
    with pytest.raises(InvalidTrialError, match="asked for"):
        parse(sized, output(json.dumps({**whole, "image_size": 1})))
    with pytest.raises(ValueError, match="nothing is copied"):
        case(image_size="2800MB")


COLD_IMAGE = [5 << 20, 500 << 20]
"""Bytes still in memory, and all."""


def test_a_cold_image_is_told_by_its_trial() -> None:
    batch = record() | {"image_held": COLD_IMAGE}
    assert figures(batch, cold=True) == figures(record()), "the same figures, of other trials"
    parameters = ProvisioningParameters(count=2, cold=True)
    facts = Provisioning().facts(parameters, output(json.dumps(batch)))
    assert facts["image still in memory"] == "1.0%"
    assert Provisioning().title(parameters) == "allocate 2, image cold"


@pytest.mark.parametrize(
    ("held", "cold", "says"),
    [
        (None, True, "cold: asked for True"),
        (COLD_IMAGE, False, "cold: asked for False"),
        ([60, 500], True, "12% of the image stayed"),
        ([501, 500], True, "cannot be in memory"),
        ([0, 0], True, "cannot be in memory"),
    ],
)
def test_an_image_that_was_not_cold(held: list[int] | None, cold: bool, says: str) -> None:
    batch = record() | ({} if held is None else {"image_held": held})
    with pytest.raises(InvalidTrialError, match=says):
        figures(batch, cold=cold)


def test_earlier_records_are_of_the_same_work() -> None:
    """`cold` came later, and stands in no record of a trial without it."""
    assert "cold" not in ProvisioningParameters().model_dump()
    assert "image_held" not in Batch.model_validate(record()).model_dump()


def test_the_host_s_own_userland_cannot_be_dropped() -> None:
    place = SimpleNamespace(image=None, check_room=lambda _: None, provider=None)
    with pytest.raises(UllageError) as raised:
        Provisioning().feasible(ProvisioningParameters(cold=True), cast(Site, place))
    assert raised.value.kind is errors.ALLOCATION_NOT_COLD


ELSEWHERE = sorted(name for name in environments.names() if environments.get(name).elsewhere)


@pytest.mark.parametrize("name", ELSEWHERE)
@pytest.mark.parametrize(
    ("fields", "kind", "words"),
    [
        ({"copy": "real"}, errors.ALLOCATION_NO_COPY, "a machine of its own"),
        ({"copy": "real", "image_size": "700MB"}, errors.ALLOCATION_NO_COPY, "a machine of its"),
        ({"cold": True}, errors.ALLOCATION_NOT_COLD, "reads another machine's disk"),
    ],
)
def test_what_stands_elsewhere_reads_no_disk_of_this_host(
    name: str, fields: dict[str, Any], kind: errors.ErrorKind, words: str
) -> None:
    """The copy, and the memory that was dropped, were this host's: no instance had read them."""
    provider = object.__new__(environments.get(name))
    place = SimpleNamespace(image=SimpleNamespace(), check_room=lambda _: None, provider=provider)
    with pytest.raises(UllageError, match=words) as raised:
        Provisioning().feasible(ProvisioningParameters.model_validate(fields), cast(Site, place))
    assert raised.value.kind is kind


def test_no_program_runs_inside() -> None:
    workload = workloads.get("provisioning")
    context = Context(addresses={}, cpus=1, memory_bytes=1, seed=1)
    assert workload.tasks(workload.parameters_model(), context) == ()
    assert {role.place for role in workload.roles(workload.parameters_model())} == {
        "instance",
        "host",
    }
