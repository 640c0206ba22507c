"""The factors of a plan: what `vary:` names, multiplied out."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
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
) -> list[dict[str, Any]]:
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


def keys_of(name: str, combined: Sequence[Mapping[str, Any]]) -> list[str]:
    """What tells each combination from the others: `vm[nic=e1000]`.

    A long value is cut; where two begin alike, a digest tells them apart.
    """
    short = [_key(name, factors, _cut) for factors in combined]
    folders = {slug(key) for key in short}
    if len(folders) == len(short):
        return short
    return [_key(name, factors, _told_apart) for factors in combined]


def _key(name: str, factors: Mapping[str, Any], word: Callable[[str], str]) -> str:
    if not factors:
        return name
    values = ",".join(f"{factor}={_plain(value, word)}" for factor, value in factors.items())
    return f"{name}[{values}]"


def _plain(value: Any, word: Callable[[str], str]) -> str:
    """A factor's value as it stands in a key."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "+".join(f"{k}:{_plain(v, word)}" for k, v in value.items())
    if isinstance(value, list):
        return "+".join(_plain(v, word) for v in value)
    return word(str(value))


_LONGEST: Final = 40
_DIGEST: Final = 8


def _cut(text: str) -> str:
    return "".join(c if c.isalnum() or c in "._-%" else "_" for c in text)[:_LONGEST]


def _told_apart(text: str) -> str:
    """The same, with a digest of the whole where something is cut or replaced."""
    short = _cut(text)
    if short == text:
        return short
    digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:_DIGEST]
    return f"{short[: _LONGEST - _DIGEST - 1]}-{digest}"


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
