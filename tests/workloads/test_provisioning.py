"""The workload `provisioning`: what its record must hold, and what follows from it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage import workloads
from ullage.engine.figures import parse
from ullage.plan.matrix import Case
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
    asked, gone = 2000 * MS, (2010 + later_ms) * MS
    return {"name": f"a-{number}", "steps": steps, "release_asked": asked, "released": gone}


def record(count: int = 2) -> Record:
    made = [instance(number, 10 * number) for number in range(count)]
    return {"format": 1, "copy_kind": "backing", "applied": True, "instances": made}


def case(count: int = 2, **fields: Any) -> Case:
    parameters = ProvisioningParameters.model_validate({"count": count, **fields})
    return Case("provisioning", "provisioning", Provisioning(), parameters, {})


def output(text: str, seconds: float = 60.0) -> dict[str, Output]:
    return {"main": Output(0, None, text, "", seconds)}


def figures(found: Record, **fields: Any) -> dict[str, Any]:
    count = len(found["instances"])
    return dict(parse(case(count, **fields), output(json.dumps(found), seconds=1e6)))


def test_the_figures_of_two() -> None:
    found = figures(record())
    assert found["allocation_time"] == pytest.approx(0.070)
    assert found["instance_time"] == pytest.approx(0.065)
    assert found["choose_time"] == pytest.approx(0.001)
    assert found["copy_time"] == pytest.approx(0.002)
    assert found["boot_time"] == pytest.approx(0.062)
    assert found["release_time"] == pytest.approx(0.020)
    assert found["instance_release_time"] == pytest.approx(0.015)
    assert found["port_closed_time"] == pytest.approx(0.027)
    assert found["reply_time"] == pytest.approx(0.080)
    assert found["allocated"] == [(1.0, pytest.approx(0.060)), (2.0, pytest.approx(0.070))]
    assert found["replied"] == [(1.0, pytest.approx(0.075)), (2.0, pytest.approx(0.085))]
    assert found["released"] == [(1.0, pytest.approx(0.010)), (2.0, pytest.approx(0.020))]


@given(st.lists(st.integers(0, 100_000), min_size=1, max_size=8))
def test_the_three_parts_are_the_whole(later: list[int]) -> None:
    made = [instance(number, each) for number, each in enumerate(later)]
    last = max(each["steps"]["replied"] for each in made)
    for each in made:
        each["release_asked"], each["released"] = last, last + 1
    found = figures({**record(0), "instances": made})
    parts = found["choose_time"] + found["copy_time"] + found["boot_time"]
    assert found["instance_time"] == pytest.approx(parts)
    times = [seconds for _, seconds in found["allocated"]]
    assert times == sorted(times)
    assert found["allocation_time"] == times[-1] >= found["instance_time"] * (1 - 1e-9)


def test_a_server_that_was_open_at_the_first_look() -> None:
    found = record()
    del found["instances"][1]["steps"]["port_closed"]
    assert "port_closed_time" not in figures(found)
    assert "port_open_time" in figures(found)


def test_without_an_application() -> None:
    found = {**record(), "applied": False}
    for each in found["instances"]:
        for step in ("started", "port_closed", "port_open", "replied"):
            del each["steps"][step]
    assert not {"replied", "reply_time", "port_open_time"} & set(figures(found, application="none"))


def drop(step: str) -> Callable[[Record], object]:
    return lambda found: found["instances"][1]["steps"].pop(step)


def move(step: str, to_ms: int) -> Callable[[Record], object]:
    return lambda found: found["instances"][1]["steps"].update({step: to_ms * MS})


BENT: dict[str, Callable[[Record], object]] = {
    "one too few": lambda found: found["instances"].pop(),
    "one name twice": lambda found: found["instances"][1].update(name="a-0"),
    "copied when it should not be": lambda found: found.update(copy_kind="real"),
    "without its application": lambda found: found.update(applied=False),
    "another format": lambda found: found.update(format=2),
    "a field that nobody knows": lambda found: found.update(more=1),
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
    "released before it replied": lambda found: found["instances"][1].update(
        release_asked=1050 * MS
    ),
    "gone before it was asked to go": lambda found: found["instances"][1].update(
        released=1999 * MS
    ),
    "longer than the trial": lambda found: found["instances"][1].update(released=90_000 * MS),
}


@pytest.mark.parametrize("what", list(BENT))
def test_a_record_that_cannot_be(what: str) -> None:
    found = record()
    BENT[what](found)
    with pytest.raises(InvalidTrialError):
        parse(case(), output(json.dumps(found)))


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


def test_no_program_runs_inside() -> None:
    workload = workloads.get("provisioning")
    context = Context(addresses={}, cpus=1, memory_bytes=1, seed=1)
    assert workload.tasks(workload.parameters_model(), context) == ()
    assert {role.place for role in workload.roles(workload.parameters_model())} == {
        "instance",
        "host",
    }
