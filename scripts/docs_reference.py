"""Writes `docs/reference/` from the code: workloads, providers, meters, energy meters and errors.

`python -m scripts.docs_reference` writes the pages, `--check` says whether they are up to date.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from inspect import cleandoc
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Len, Lt, MaxLen, MinLen, MultipleOf
from pydantic import BaseModel, ByteSize
from pydantic.fields import FieldInfo

from ullage import environments, meters, workloads
from ullage.common import errors
from ullage.common.quantities import exact_bytes, format_bytes
from ullage.environments import Provider
from ullage.meters import Meter, energy
from ullage.meters.energy import EnergyMeter
from ullage.runs.records import Metric
from ullage.workloads import AnyWorkload

PLACE = Path("docs/reference")

_NOTE = "<!-- Written by `python -m scripts.docs_reference` from the code; do not edit. -->\n"
_TYPES: dict[Any, str] = {
    int: "whole number",
    float: "number",
    bool: "true or false",
    str: "text",
    Path: "path",
    ByteSize: "size",
}


def pages() -> dict[str, str]:
    """File name → what must stand in it."""
    return {
        "workloads.md": workloads_page(workloads.WORKLOADS),
        **{f"workloads/{kind.name}.md": workload_page(kind) for kind in workloads.WORKLOADS},
        "providers.md": providers_page(environments.PROVIDERS),
        "meters.md": meters_page(meters.METERS),
        "energy-meters.md": energy_meters_page(energy.ENERGY_METERS),
        "errors.md": errors_page(),
    }


def workloads_page(kinds: Sequence[type[AnyWorkload]]) -> str:
    """All workloads, each with the first sentence of its docstring."""
    rows = [
        (f"[`{kind.name}`](workloads/{kind.name}.md)", kind.resource, _first_line(kind))
        for kind in kinds
    ]
    parts = [
        _NOTE,
        "# Workloads\n",
        "What a plan may name under `workloads:`, a page for each.\n",
        _markdown(("Workload", "Resource", "What it does"), rows),
    ]
    return "\n".join(parts)


def workload_page(workload: type[AnyWorkload]) -> str:
    """One workload: its docstring, sources, parameters, metrics and packages."""
    parts = [
        _NOTE,
        f"# {workload.name}\n",
        f"{cleandoc(workload.__doc__ or '')}\n",
        "Sources:\n",
        "".join(f"* {line}\n" for line in workload.source),
        f"Resource: {workload.resource}. "
        f"Debian packages: {', '.join(map(_code, workload.packages)) or 'none'}.\n",
        "Sizes are written `16KiB` or `1GiB`; figures have SI units. "
        "A metric marked *primary* gets a verdict.\n",
        _table("Parameter", _fields(workload.parameters_model)),
        _metrics(workload.metrics),
        "[All workloads](../workloads.md)\n",
    ]
    return "\n".join(parts)


def _first_line(workload: type[AnyWorkload]) -> str:
    return cleandoc(workload.__doc__ or "").partition("\n\n")[0].replace("\n", " ")


def providers_page(kinds: Sequence[type[Provider]]) -> str:
    """Every provider: its docstring and options."""
    parts = [
        _NOTE,
        "# Providers\n",
        "What a plan may name as the `provider:` of an environment, and the fields it adds.\n",
        "The lab's VM: Debian 12 on Linux 6.18, control groups v1, 2 AMD EPYC CPUs, shared.\n",
        "| provider | where its trials last had figures |\n|---|---|",
        *(
            f"| [{kind.name}](#{kind.name}) | {kind.last_seen or 'nobody has told'} |"
            for kind in kinds
        ),
        "",
    ]
    for provider in kinds:
        host = "works" if provider.host_image else "does not work"
        parts += [
            f"## {provider.name}\n",
            f"{cleandoc(provider.__doc__ or '')}\n",
            f"`image: host` {host} with it.\n",
            _table("Field", _fields(provider.options_model)),
        ]
    return "\n".join(parts)


def meters_page(kinds: Sequence[type[Meter]]) -> str:
    """Every meter: its docstring and quantities."""
    parts = [
        _NOTE,
        "# Meters\n",
        "What is seen of the host during each trial, whatever the plan says: the view `meters` of "
        "`ullage query`. Figures have SI units; a share is 0 to 1.\n",
    ]
    for meter in kinds:
        rows = [(_code(q.name), q.unit, q.description) for q in meter.quantities]
        parts += [
            f"## {meter.name}\n",
            f"{cleandoc(meter.__doc__ or '')}\n",
            _markdown(("Quantity", "Unit", "Meaning"), rows),
        ]
    return "\n".join(parts)


def energy_meters_page(kinds: Sequence[type[EnergyMeter]]) -> str:
    """Every energy meter: its docstring and options."""
    parts = [
        _NOTE,
        "# Energy meters\n",
        "What a plan may name as the `meter:` of a label under `meters:`, and the fields it adds. "
        "[Which one for which machine](../guide/energy-meters.md).\n",
    ]
    for meter in kinds:
        parts += [
            f"## {meter.name}\n",
            f"{cleandoc(meter.__doc__ or '')}\n",
            _table("Field", _fields(meter.Options)),
        ]
    return "\n".join(parts)


def errors_page() -> str:
    """Every entry of the catalogue, in its order."""
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, errors.ErrorKind)]
    parts = [
        _NOTE,
        "# Errors\n",
        "Every error that ullage reports, by its code. Words in braces are filled in.\n",
    ]
    for kind in kinds:
        parts += [
            f"## {kind.code}\n",
            f"{_code(kind.message)}\n",
            f"Hint: {_code(kind.hint)}\n",
            f"Exit code: {int(kind.exit_code)}\n",
        ]
    return "\n".join(parts)


def _metrics(metrics: Sequence[Metric]) -> str:
    rows = [
        (
            _code(metric.name) + (" *primary*" if metric.primary else ""),
            metric.unit + (f" by {metric.coordinate.name}" if metric.coordinate else ""),
            metric.better,
            metric.description,
        )
        for metric in metrics
    ]
    return _markdown(("Metric", "Unit", "Better", "Meaning"), rows)


def _table(first: str, rows: Iterable[tuple[str, ...]]) -> str:
    if not (lines := list(rows)):
        return f"{first}s: none.\n"
    return _markdown((first, "Value", "Default", "Meaning"), lines)


def _fields(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, ...]]:
    """A row for each field; the fields of an inner model are written `disk.format`."""
    for name, field in model.model_fields.items():
        path = prefix + (field.alias or name)
        inner = [part for part in _parts(field.annotation) if _is_model(part)]
        if inner:
            yield from _fields(inner[0], f"{path}.")
        else:
            yield _code(path), _value(field), _default(field), field.description or ""


def _value(field: FieldInfo) -> str:
    """The type and its bounds: `whole number, 1 … 4096`."""
    parts = _parts(field.annotation)
    spelled = " or ".join(_type(part) for part in parts if part is not NoneType)
    is_size = ByteSize in parts
    return ", ".join([spelled, *_bounds(field.metadata, is_size)])


def _bounds(metadata: Iterable[Any], is_size: bool) -> Iterator[str]:
    low = high = ""
    limits = []
    for item in metadata:
        match item:
            case Ge(ge=value):
                low = _number(value, is_size)
            case Gt(gt=value):
                low = f"over {_number(value, is_size)}"
            case Le(le=value):
                high = _number(value, is_size)
            case Lt(lt=value):
                high = f"under {_number(value, is_size)}"
            case MultipleOf(multiple_of=value):
                limits.append(f"multiple of {_number(value, is_size)}")
            case MinLen(min_length=1) | Len(min_length=1):
                limits.append("not empty")
            case MinLen(min_length=value):
                limits.append(f"length at least {value}")
            case MaxLen(max_length=value):
                limits.append(f"length at most {value}")
    if low and high:
        yield f"{low} … {high}"
    elif low:
        yield low if low.startswith("over") else f"at least {low}"
    elif high:
        yield high if high.startswith("under") else f"at most {high}"
    yield from limits


def _type(annotation: Any) -> str:
    origin = get_origin(annotation)
    if origin is Literal:
        return ", ".join(_code(_plain(value)) for value in get_args(annotation))
    if origin in (list, tuple):
        inner = next((part for part in get_args(annotation) if part is not Ellipsis), str)
        return f"list of {_type(_bare(inner))}"
    if origin is dict:
        return f"{_type(_bare(get_args(annotation)[1]))} by name"
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return ", ".join(_code(str(member.value)) for member in annotation)
    return _TYPES.get(annotation, getattr(annotation, "__name__", str(annotation)))


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True, validated_data={})
    if value is None:
        return "none"
    if isinstance(value, int) and ByteSize in _parts(field.annotation):
        return _code(format_bytes(value))
    return _code(_plain(value))


def _parts(annotation: Any) -> tuple[Any, ...]:
    """The members of a union, or the type itself, without their metadata."""
    if get_origin(annotation) in (Union, UnionType):
        return tuple(_bare(part) for part in get_args(annotation))
    return (_bare(annotation),)


def _bare(annotation: Any) -> Any:
    return get_args(annotation)[0] if hasattr(annotation, "__metadata__") else annotation


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _number(value: Any, is_size: bool) -> str:
    return exact_bytes(int(value)) if is_size else f"{value:,}".replace(",", " ")


def _plain(value: Any) -> str:
    """A value as YAML would have it."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value.value) if isinstance(value, Enum) else str(value)


def _code(text: str) -> str:
    fence = "``" if "`" in text else "`"
    pad = " " if "`" in text else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def _markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(
        f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Write the pages, or with `--check` return 1 when one differs."""
    parser = argparse.ArgumentParser(prog="python -m scripts.docs_reference", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; 1 when a page is old")
    parser.add_argument("--to", type=Path, default=PLACE, help="directory of the pages")
    options = parser.parse_args(argv)
    written = pages()
    old = []
    for page in sorted((options.to / "workloads").glob("*.md")):
        if f"workloads/{page.name}" not in written:  # of a workload that is no more
            old.append(page)
            if not options.check:
                page.unlink()
    for name, text in written.items():
        page = options.to / name
        if page.is_file() and page.read_text(encoding="utf-8") == text:
            continue
        old.append(page)
        if not options.check:
            page.parent.mkdir(parents=True, exist_ok=True)
            page.write_text(text, encoding="utf-8")
    for page in old:
        print(f"{page}: {'not up to date' if options.check else 'written'}", file=sys.stderr)
    if options.check and old:
        print("hint: `make docs` writes them", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
