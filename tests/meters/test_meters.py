"""The list of meters, what it refuses, and what all of them have in common."""

import math
import statistics
import time
from typing import Any

import pytest

from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.meters import APART, METERS, OUTSIDE, Meter, metered
from ullage.meters.base import REGISTRY
from ullage.runs.records import Quantity

SPEED = Quantity(name="speed", unit="1/s", description="How fast.")


class Dial(Meter):
    """Shows what it was told to."""

    name = "dial"
    quantities = (SPEED,)
    shows: float = 7.0
    ended = 0

    def begin(self) -> None:
        return None

    def end(self) -> dict[str, float]:
        type(self).ended += 1
        return {"speed": self.shows}


def test_the_list() -> None:
    outside = ["host", "cpu", "kernel", "threads", "links"]
    assert [meter.name for meter in OUTSIDE] == outside
    assert [meter.name for meter in APART] == ["swap"]
    assert {meter.name for meter in METERS} == {*outside, "guest", "swap"}


def test_all_of_them_see_a_trial_and_cost_little() -> None:
    costs_s = []
    for _ in range(23):
        began = time.thread_time()
        with metered():
            pass
        costs_s.append(time.thread_time() - began)
    # About 3 ms of CPU time; the limit is for machines that are ten times slower.
    assert statistics.median(costs_s) < 40e-3
    with metered() as trial:
        time.sleep(0.1)
    assert set(trial) == {meter.name for meter in OUTSIDE}
    assert all(math.isfinite(value) for figures in trial.values() for value in figures.values())


def test_figures_are_there_when_it_is_over() -> None:
    with metered((Dial,)) as figures:
        assert not figures
    assert figures == {"dial": {"speed": 7.0}}


def test_it_is_off_however_the_trial_ends() -> None:
    before = Dial.ended
    with pytest.raises(KeyboardInterrupt), metered((Dial,)):
        raise KeyboardInterrupt
    assert Dial.ended == before + 1


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"shows": math.nan}, "gave nan as speed"),
        ({"shows": math.inf}, "gave inf as speed"),
        (
            {"quantities": (SPEED.model_copy(update={"name": "other"}),)},
            "undeclared quantity 'speed'",
        ),
    ],
)
def test_figures_that_were_not_declared_are_refused(change: dict[str, Any], says: str) -> None:
    wrong = type("Wrong", (Dial,), change)
    with pytest.raises(UllageError) as caught, metered((wrong,)):
        pass
    assert caught.value.kind is errors.LIST_BAD_INTERFACE
    assert says in caught.value.message


def test_a_name_taken_twice_is_refused() -> None:
    with pytest.raises(UllageError) as caught:
        REGISTRY.refuse_faults((Dial, type("Knob", (Dial,), {"__doc__": "Another dial."})))
    assert caught.value.kind is errors.LIST_DUPLICATE
    assert caught.value.message == "two meters are called dial: Dial and Knob"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"name": "Dial 2"}, "lower-case words"),
        ({"quantities": ()}, "declares no quantity"),
        ({"quantities": [SPEED]}, "not a tuple of Quantity"),
        ({"quantities": (SPEED, SPEED)}, "speed stands twice"),
        ({"quantities": (SPEED.model_copy(update={"unit": "rpm"}),)}, "unit 'rpm'"),
        ({"__init__": lambda self, port: None}, "__init__ does not take (self)"),
        ({"end": None}, "end is not a method"),
        ({"__doc__": None}, "lacks a docstring"),
    ],
)
def test_a_wrong_interface_is_refused(change: dict[str, Any], says: str) -> None:
    wrong = type("Wrong", (Dial,), {"__doc__": "Wrong in one thing.", **change})
    with pytest.raises(UllageError) as caught:
        REGISTRY.refuse_faults((wrong,))
    assert caught.value.kind is errors.LIST_BAD_INTERFACE
    assert says in caught.value.message
