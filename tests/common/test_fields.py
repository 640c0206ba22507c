"""What all plans share: how each complaint is made."""

from collections.abc import Iterator
from typing import Any

import pytest
from annotated_types import Ge, Le, MultipleOf
from pydantic import BaseModel, ByteSize, Field
from pydantic.fields import FieldInfo

from ullage import environments, workloads
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.common.fields import Fields, Reader, check_fields, check_names, checked, unknown
from ullage.common.yamlfile import YamlFile
from ullage.environments.placement import Resources
from ullage.experiments.elastic.plan.schema import ElasticPlan
from ullage.plan.schema import Plan

DOCUMENT = YamlFile("p.yaml", {}, {("disk",): 4, ("disk", "size"): 5})


class Disk(Fields):
    size: ByteSize | None = Field(None, ge=1 << 20, multiple_of=4096, description="of the disk")
    label: str = "d"
    copies: int = Field(1, le=4096)


class Machine(Fields):
    disk: Disk = Disk()


def refused(model: type[BaseModel], data: Any) -> UllageError:
    with pytest.raises(UllageError) as raised:
        checked(model, data, DOCUMENT, ())
    return raised.value


def test_the_reader_gives_what_the_check_makes_of_the_file() -> None:
    reader = Reader(lambda document: checked(Machine, document.data, document, ()))
    machine, document = reader.loads("disk:\n  size: 8MiB\n", "m.yaml")
    assert machine.disk.size == 8 << 20
    assert (document.name, document.line(("disk", "size"))) == ("m.yaml", 2)


@pytest.mark.parametrize(
    ("data", "document_kind"), [(None, "no fields"), ([1], "list"), ("x", "str")]
)
def test_a_document_has_fields(data: Any, document_kind: str) -> None:
    with pytest.raises(UllageError) as raised:
        check_fields(YamlFile("p.yaml", data, {}), "plan", "write one")
    assert raised.value.kind is errors.PLAN_BAD_FIELD
    assert raised.value.message.startswith(f"p.yaml:1: the plan: found {document_kind}")
    assert raised.value.hint == "write one"


@pytest.mark.parametrize("name", ["", "-a", "a/b", "a..b", "ü", "x" * 41])
def test_names_are_plain(name: str) -> None:
    with pytest.raises(UllageError) as raised:
        check_names(DOCUMENT, [(("name",), "good.name-1"), (("disk",), name)])
    assert raised.value.kind is errors.PLAN_BAD_NAME
    assert raised.value.message.startswith(f"p.yaml:4: {name!r}")


def test_a_name_that_is_on_no_list_is_told_with_the_list_once() -> None:
    error = unknown(
        errors.PLAN_UNKNOWN_WORKLOAD, DOCUMENT, ("disk", "size"), "zz", ["dedup", "wrk"]
    )
    assert error.message == "p.yaml:5: unknown workload 'zz'; known are dedup, wrk"
    assert error.hint == "choose one of these"
    assert unknown(errors.PLAN_UNKNOWN_WORKLOAD, DOCUMENT, (), "wkr", ["wrk"]).hint == (
        "did you mean wrk?"
    )


# --- sizes ----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("size", "text"),
    [
        ("1KiB", "greater than or equal to 1MiB"),
        (1_048_577, "a multiple of 4KiB"),
        ("much", "a size such as 512KiB or 1GiB"),
        ("1 QiB", "a size such as 512KiB or 1GiB"),
    ],
)
def test_sizes_are_told_as_sizes(size: object, text: str) -> None:
    error = refused(Machine, {"disk": {"size": size}})
    assert error.message.startswith(f"p.yaml:5: disk.size: found {size!r}; ")
    assert error.message.endswith(text)
    assert error.hint == "size: of the disk"


def test_a_number_is_told_as_a_number() -> None:
    assert refused(Machine, {"disk": {"copies": 5000}}).message.endswith("than or equal to 4096")


def of_all_plans() -> Iterator[type[BaseModel]]:
    yield from (Plan, ElasticPlan, Resources)
    yield from (workloads.get(name).parameters_model for name in workloads.names())
    yield from (environments.get(name).options_model for name in environments.names())


def size_fields() -> Iterator[tuple[type[BaseModel], str, FieldInfo]]:
    for model in of_all_plans():
        for name, field in model.model_fields.items():
            parts = (field.annotation, *getattr(field.annotation, "__args__", ()))
            if ByteSize in parts:
                yield model, field.alias or name, field


def outside(field: FieldInfo) -> Iterator[int]:
    """Sizes that one of its bounds refuses."""
    for bound in field.metadata:
        if isinstance(bound, Ge):
            yield int(str(bound.ge)) - 1
        if isinstance(bound, Le):
            yield (int(str(bound.le)) + 1) * 4096
        if isinstance(bound, MultipleOf):
            yield 1 + (1 << 20)


def test_no_plan_tells_a_bound_of_a_size_as_a_bare_number() -> None:
    bounds = 0
    for model, name, field in size_fields():
        for size in outside(field):
            with pytest.raises(UllageError) as raised:
                checked(model, {name: size}, DOCUMENT, ())
            if f": {name}: " not in raised.value.message or size < 1024:
                continue  # another field is needed first, or it is told in bytes
            bounds += 1
            assert raised.value.message.endswith("B"), (model, raised.value.message)
    assert bounds > 20
