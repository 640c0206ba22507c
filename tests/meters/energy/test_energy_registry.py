"""The list of energy meters: what it holds, what it refuses, its page."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, Field, ValidationError

from scripts import docs_reference
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.meters.energy import ENERGY_METERS
from ullage.meters.energy.base import REGISTRY, EnergyMeter, FaultError, MeterOptions, refusal
from ullage.runs.readings import Channel

OURS = ("rapl", "perf", "prometheus", "model")


class DialOptions(MeterOptions):
    port: int = Field(1, description="where it hangs")


class Dial(EnergyMeter):
    """A dial."""

    name = "dial"
    Options = DialOptions

    def open(self) -> tuple[Channel, ...]:
        return ()

    def read(self) -> Mapping[str, float]:
        return {}

    def close(self) -> None:
        pass


class Reserved(MeterOptions):
    meter: str = Field("x", description="what the plan itself says")


class Undescribed(MeterOptions):
    port: int = 1


def test_ours_are_in_it() -> None:
    names = [meter.name for meter in ENERGY_METERS]
    assert set(OURS) <= set(names)
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("meter", ENERGY_METERS, ids=lambda meter: meter.name)
def test_each_is_closed_before_it_was_opened_and_twice(meter: type[EnergyMeter]) -> None:
    needed = {
        "model": {"idle_watts": 1, "core_watts": 1},
        "prometheus": {"url": "http://127.0.0.1:1/", "preset": "kepler"},
    }
    try:
        options = meter.Options.model_validate(needed.get(meter.name, {}))
    except ValidationError:
        pytest.skip(f"{meter.name} needs options that its own tests have")
    instance = meter(options)
    instance.close()
    instance.close()


@pytest.mark.parametrize("meter", ENERGY_METERS, ids=lambda meter: meter.name)
def test_each_refuses_what_it_does_not_know(meter: type[EnergyMeter]) -> None:
    with pytest.raises(ValidationError, match="voltage"):
        meter.Options.model_validate({"voltage": 230})
    assert "every" in meter.Options.model_fields


@pytest.mark.parametrize("meter", ENERGY_METERS, ids=lambda meter: meter.name)
def test_each_has_its_place_in_the_docs(meter: type[EnergyMeter]) -> None:
    page = docs_reference.energy_meters_page(ENERGY_METERS)
    section = page.partition(f"\n## {meter.name}\n")[2].partition("\n## ")[0]
    for name, field in meter.Options.model_fields.items():
        assert f"| `{field.alias or name}` |" in section
    guide = (Path(__file__).parents[3] / "docs/guide/energy-meters.md").read_text()
    assert f"`{meter.name}`" in guide


def test_a_name_taken_twice_is_refused() -> None:
    with pytest.raises(UllageError) as caught:
        REGISTRY.refuse_faults((Dial, type("Knob", (Dial,), {"__doc__": "Another dial."})))
    assert caught.value.kind is errors.LIST_DUPLICATE


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"name": "Dial 2"}, "lower-case words"),
        ({"Options": BaseModel}, "not a subclass of MeterOptions"),
        ({"Options": Reserved}, "a name that the plan itself uses"),
        ({"Options": Undescribed}, "lacks a description"),
        ({"read": None}, "read is not a method"),
        ({"__doc__": None}, "lacks a docstring"),
    ],
)
def test_a_wrong_interface_is_refused(change: dict[str, Any], says: str) -> None:
    wrong = type("Wrong", (Dial,), {"__doc__": "Wrong in one thing.", **change})
    with pytest.raises(UllageError) as caught:
        REGISTRY.refuse_faults((wrong,))
    assert caught.value.kind is errors.LIST_BAD_INTERFACE
    assert says in caught.value.message


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("gone", errors.ENERGY_METER_ABSENT),
        ("silent", errors.ENERGY_METER_ABSENT),
        ("denied", errors.ENERGY_METER_DENIED),
        ("nonsense", errors.ENERGY_METER_BAD_ANSWER),
        ("on-battery", errors.ENERGY_METER_BAD_ANSWER),
    ],
)
def test_a_fault_when_it_is_opened_is_an_error(code: str, kind: errors.ErrorKind) -> None:
    error = refusal("dial", "port 1", FaultError(code, "it fell off"), "put it back")
    assert error.kind is kind
    assert "dial" in error.message and "port 1" in error.message
    assert "it fell off" in error.message
    assert error.hint == "put it back"
