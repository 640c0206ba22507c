"""Every number that a stored record holds is bounded: none of them can end a reader."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

import ullage.runs
from ullage.common.clock_model import FrozenModel
from ullage.experiments.elastic import folder as elastic
from ullage.runs import records
from ullage.runs.records import LARGEST, Record

NAMES = [module.name for module in pkgutil.walk_packages(ullage.runs.__path__, "ullage.runs.")]
MODULES = [*map(importlib.import_module, NAMES), elastic]
STORED = [
    model
    for module in MODULES
    for model in vars(module).values()
    if isinstance(model, type) and issubclass(model, Record) and model.__module__ == module.__name__
]
LEAST = {"minimum", "exclusiveMinimum"}
MOST = {"maximum", "exclusiveMaximum"}


def boundless(schema: Any, place: str) -> Iterator[str]:
    """Where in a JSON schema a number may be of any size."""
    if isinstance(schema, list):
        for number, part in enumerate(schema):
            yield from boundless(part, f"{place}/{number}")
    elif isinstance(schema, dict):
        words = set(schema)
        free = schema.get("type") in ("number", "integer") and not words & {"enum", "const"}
        if free and not (words & LEAST and words & MOST):
            yield place
        for name, part in schema.items():
            yield from boundless(part, f"{place}/{name}")


@pytest.mark.parametrize("model", STORED, ids=lambda model: model.__name__)
def test_every_number_of_a_record_is_bounded(model: type[BaseModel]) -> None:
    assert not list(boundless(model.model_json_schema(), ""))


def test_a_number_without_bounds_is_seen() -> None:
    schema = TypeAdapter(dict[str, tuple[float, records.Finite]]).json_schema()
    assert list(boundless(schema, "")) == ["/additionalProperties/prefixItems/0"]


class Measured(FrozenModel):
    """As all is that `ullage clock` measures, and `clock.json` holds."""

    whole: int = 0
    mean_ns: float | None = None
    curves: dict[str, list[tuple[float, int]]] | None = None


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("whole", 1 << 63),
        ("whole", -(1 << 63)),
        ("mean_ns", 2 * LARGEST),
        ("mean_ns", float("nan")),
        ("mean_ns", -float("inf")),
        ("curves", {"a": [(0.0, 0), (1e308, 0)]}),
        ("curves", {"a": [(0.0, 1 << 63)]}),
    ],
)
def test_a_number_of_the_clock_is_bounded_and_names_its_field(field: str, value: object) -> None:
    with pytest.raises(ValidationError) as caught:
        Measured.model_validate({field: value})
    (fault,) = caught.value.errors()
    assert (fault["loc"], fault["type"]) == ((field,), "value_error")
