"""The factors of a plan: what `vary:` names, multiplied out."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from typing import Any, Final

from pydantic import BaseModel

from ullage.common.errors import PLAN_BAD_FIELD, UllageError
from ullage.common.fields import allowed_fields, impossible, shown
from ullage.common.text import nearest, slug
from ullage.common.yamlfile import FieldPath, YamlFile

AGAIN: Final = "~again"
"""Suffix of the second copy of an environment, the A/A pair; no name in a plan can have it."""
MAX_CELLS: Final = 10_000


def combinations(
    vary: Mapping[str, list[Any]],
    document: YamlFile,
    path: FieldPath,
    model: type[BaseModel],
    also: Sequence[str] = (),
) -> Iterable[dict[str, Any]]:
    """Every way to take one value of each factor; PLAN_IMPOSSIBLE_MATRIX for what is no factor.

    also: fields that may vary beside those of the model.
    """
    allowed = [*allowed_fields(model, ()), *also]
    count = 1
    for factor, values in vary.items():
        if factor.partition(".")[0] not in allowed:
            raise impossible(
                document,
                (*path, factor),
                f"cannot vary {factor!r}: allowed are {', '.join(allowed) or 'none'}",
                nearest(factor, allowed),
            )
        if not values:
            raise impossible(
                document, (*path, factor), f"{factor}: no values to vary over", "give at least one"
            )
        count *= len(values)
        _point_at(factor, document, path)
    if count > MAX_CELLS:
        raise impossible(
            document,
            path,
            f"the factors multiply to {count} cells",
            f"at most {MAX_CELLS} are allowed",
        )
    names = list(vary)
    return [dict(zip(names, values, strict=True)) for values in itertools.product(*vary.values())]


def _point_at(factor: str, document: YamlFile, path: FieldPath) -> None:
    """A complaint about the field that varies names the line of the factor: no other value counts.

    path: of `vary`.
    """
    field = (*path[:-1], *factor.split("."))
    for below in [place for place in document.lines if place[: len(field)] == field]:
        del document.lines[below]
    document.lines[field] = document.line((*path, factor))


def merge(
    fields: Mapping[str, Any], factors: Mapping[str, Any], document: YamlFile, path: FieldPath
) -> dict[str, Any]:
    """The fields, with each factor's value put at its place (`disk.format` goes inside `disk`).

    PLAN_BAD_FIELD where a factor reaches into what has no fields.
    """
    result: dict[str, Any] = deepcopy(dict(fields))
    for factor, value in factors.items():
        *parents, last = factor.split(".")
        inner = result
        for depth, parent in enumerate(parents, 1):
            if inner.get(parent) is None:
                inner[parent] = {}
            inner = inner[parent]
            if not isinstance(inner, dict):
                at = (*path, *parents[:depth])
                raise UllageError(
                    PLAN_BAD_FIELD,
                    file=document.name,
                    line=document.line(at),
                    field=".".join(map(str, at)),
                    found=shown(inner),
                    allowed="a mapping, `field: value`",
                    suggestion=f"`{factor}` varies a field of it",
                )
        inner[last] = value
    return result


def key_of(name: str, factors: Mapping[str, Any]) -> str:
    """What tells a combination from the others: `vm[nic=e1000]`."""
    if not factors:
        return name
    return f"{name}[{','.join(f'{factor}={_plain(value)}' for factor, value in factors.items())}]"


def _plain(value: Any) -> str:
    """A factor's value as it stands in a key."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "+".join(f"{k}:{_plain(v)}" for k, v in value.items())
    if isinstance(value, list):
        return "+".join(_plain(v) for v in value)
    return "".join(c if c.isalnum() or c in "._-%" else "_" for c in str(value))[:40]


def refuse_twins(keys: Iterable[str], document: YamlFile, path: FieldPath) -> None:
    """PLAN_IMPOSSIBLE_MATRIX where two keys would have one directory of the run folder."""
    key_by_folder: dict[str, str] = {}
    for key in keys:
        name = slug(key)
        if name in key_by_folder:
            twin = key_by_folder[name]
            one_folder = f"{shown(twin)} and {shown(key)} would have one folder, {shown(name)}"
            raise impossible(
                document,
                path,
                f"{shown(key)} stands twice" if twin == key else one_folder,
                "give one of them another name (`as:` for a workload), or vary it",
            )
        key_by_folder[name] = key
