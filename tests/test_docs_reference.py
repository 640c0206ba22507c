"""The reference pages follow from the code."""

from pathlib import Path
from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, ByteSize, Field

from scripts import docs_reference
from ullage import environments, meters, workloads
from ullage.common import errors
from ullage.common.quantities import Seconds


class Disk(BaseModel):
    format: Literal["raw", "qcow2"] = Field("raw", description="of the disk")
    size: ByteSize | None = Field(None, ge=1024, multiple_of=1024, description="how large")


class Example(BaseModel):
    cpus: Annotated[int, Field(gt=0, le=8)] = Field(1, description="how many")
    disk: Disk = Field(Disk(), description="the disk")
    argv: list[str] = Field(min_length=1, description="a | b")
    wait: Seconds = Field(2.5, description="how long")
    quiet: bool = Field(False, description="say nothing")


def rows() -> dict[str, tuple[str, ...]]:
    return {row[0]: row[1:] for row in docs_reference._fields(Example)}


def test_fields_with_types_bounds_and_defaults() -> None:
    assert rows() == {
        "`cpus`": ("whole number, over 0 … 8", "`1`", "how many"),
        "`disk.format`": ("`raw`, `qcow2`", "`raw`", "of the disk"),
        "`disk.size`": ("size, at least 1KiB, multiple of 1KiB", "none", "how large"),
        "`argv`": ("list of text, not empty", "required", "a | b"),
        "`wait`": ("number, over 0", "`2.5`", "how long"),
        "`quiet`": ("true or false", "`false`", "say nothing"),
    }


def test_bars_do_not_break_a_table() -> None:
    assert "| a \\| b |" in docs_reference._table("Field", docs_reference._fields(Example))


def test_every_workload_parameter_and_metric_has_its_place() -> None:
    pages = docs_reference.pages()
    for workload in workloads.WORKLOADS:
        page = pages[f"workloads/{workload.name}.md"]
        assert page.partition("\n# ")[2].startswith(f"{workload.name}\n")
        assert f"[`{workload.name}`](workloads/{workload.name}.md)" in pages["workloads.md"]
        for name, field in workload.parameters_model.model_fields.items():
            assert f"| `{field.alias or name}` |" in page
        for metric in workload.metrics:
            assert f"| `{metric.name}`" in page
        assert "*primary*" in page
        description = page.partition("\nSources:\n")[2].partition("\nResource:")[0]
        assert description.strip().split("\n") == [f"* {line}" for line in workload.source]


def test_every_provider_has_its_place() -> None:
    page = docs_reference.providers_page(environments.PROVIDERS)
    for name in environments.names():
        assert f"\n## {name}\n" in page


def test_every_quantity_of_a_meter_has_its_place() -> None:
    page = docs_reference.meters_page(meters.METERS)
    for meter in meters.METERS:
        section = page.partition(f"\n## {meter.name}\n")[2].partition("\n## ")[0]
        for quantity in meter.quantities:
            assert f"| `{quantity.name}` | {quantity.unit} | {quantity.description} |" in section


def test_every_error_has_its_place() -> None:
    page = docs_reference.errors_page()
    for kind in vars(errors).values():
        if isinstance(kind, errors.ErrorKind):
            assert f"\n## {kind.code}\n" in page
            assert kind.message in page


def test_pages_are_written_then_found_up_to_date(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    to = ["--to", str(tmp_path / "reference")]
    assert docs_reference.main(["--check", *to]) == 1
    assert "make docs" in capsys.readouterr().err
    assert not (tmp_path / "reference").exists()
    assert docs_reference.main(to) == 0
    assert docs_reference.main(["--check", *to]) == 0
    page = tmp_path / "reference" / "errors.md"
    page.write_text(page.read_text() + "by hand\n")
    assert docs_reference.main(["--check", *to]) == 1
    assert "errors.md: not up to date" in capsys.readouterr().err


def test_the_page_of_a_workload_that_is_no_more_is_taken_away(tmp_path: Path) -> None:
    to = ["--to", str(tmp_path)]
    docs_reference.main(to)
    gone = tmp_path / "workloads" / "abacus.md"
    gone.write_text("# abacus\n")
    assert docs_reference.main(["--check", *to]) == 1 and gone.exists()
    assert docs_reference.main(to) == 0 and not gone.exists()
    assert docs_reference.main(["--check", *to]) == 0
