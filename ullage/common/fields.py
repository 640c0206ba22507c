"""What all plans of users share: how a file is read, and how each complaint says where it is.

Every complaint names the file, the line, the field, what was found, what is allowed and the nearest
valid name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from pydantic import BaseModel, ByteSize, ConfigDict, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from ullage.common.errors import (
    PLAN_BAD_FIELD,
    PLAN_BAD_NAME,
    PLAN_IMPOSSIBLE_MATRIX,
    PLAN_NO_BASELINE,
    PLAN_UNKNOWN_FIELD,
    ErrorKind,
    UllageError,
)
from ullage.common.quantities import exact_bytes
from ullage.common.text import nearest
from ullage.common.yamlfile import FieldPath, YamlFile, parse, read

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")
"""Names become folders, cgroups and devices, so they are plain."""


class Fields(BaseModel):
    """Base of a plan's parts: unknown fields are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


P = TypeVar("P", bound=Fields)
M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True)
class Reader(Generic[P]):
    """Reads plans of one kind; every fault is a UllageError that names the line."""

    check: Callable[[YamlFile], P]

    def load(self, file: Path) -> tuple[P, YamlFile]:
        """The checked plan of a file, and the file, for what is checked later."""
        document = read(file)
        return self.check(document), document

    def loads(self, text: str, name: str = "plan.yaml") -> tuple[P, YamlFile]:
        """The same from a string."""
        document = parse(text, name)
        return self.check(document), document


def check_fields(document: YamlFile, what: str, suggestion: str) -> None:
    """PLAN_BAD_FIELD unless the document, which is to be a `what`, has fields at all."""
    if not isinstance(document.data, dict):
        raise UllageError(
            PLAN_BAD_FIELD,
            file=document.name,
            line=1,
            field=f"the {what}",
            found="no fields" if document.data is None else type(document.data).__name__,
            allowed=f"a {what} has fields, `field: value`",
            suggestion=suggestion,
        )


def check_kind(document: YamlFile, own: str, foreign: str, wrong: ErrorKind) -> None:
    """Raise `wrong` for a plan of another kind: one with the field that only the other needs."""
    if foreign in document.data and own not in document.data:
        raise UllageError(wrong, file=document.name, line=document.line((foreign,)))


def check_names(document: YamlFile, named: Iterable[tuple[FieldPath, str]]) -> None:
    """PLAN_BAD_NAME unless each of them can be a name."""
    for path, name in named:
        if not NAME.fullmatch(name) or ".." in name:
            raise UllageError(
                PLAN_BAD_NAME, file=document.name, line=document.line(path), found=repr(name)
            )


def no_environment(
    document: YamlFile, path: FieldPath, name: str, names: Sequence[str]
) -> UllageError:
    """The complaint about a field that should name an environment and does not."""
    where = {"file": document.name, "line": document.line(path), "found": repr(name)}
    if path == ("baseline",):
        return UllageError(PLAN_NO_BASELINE, **where, allowed=", ".join(names))
    return UllageError(
        PLAN_BAD_FIELD,
        **where,
        field=".".join(map(str, path)),
        allowed=f"one of the environments: {', '.join(names)}",
        suggestion=nearest(name, names, listed=True),
    )


def impossible(document: YamlFile, path: FieldPath, reason: str, suggestion: str) -> UllageError:
    """The complaint about what is well written, and cannot be made."""
    return UllageError(
        PLAN_IMPOSSIBLE_MATRIX,
        file=document.name,
        line=document.line(path),
        reason=reason,
        suggestion=suggestion,
    )


def unknown(
    kind: ErrorKind,
    document: YamlFile,
    path: FieldPath,
    name: str,
    choices: Iterable[str],
    *,
    suggestion: str = "",
) -> UllageError:
    """The complaint about a name that is not on our list; it suggests the nearest on it."""
    names = list(choices)
    return UllageError(
        kind,
        file=document.name,
        line=document.line(path),
        found=repr(name),
        allowed=", ".join(names),
        suggestion=suggestion or nearest(name, names, listed=True),
    )


def checked(
    model: type[M], data: Any, document: YamlFile, at: FieldPath, also: Sequence[str] = ()
) -> M:
    """Validate `data` (which stands at path `at` of the document) or raise the first fault.

    `also`: names that may stand there too, because another model reads them.
    """
    try:
        return model.model_validate(data)
    except ValidationError as error:
        faults = error.errors(include_url=False)
        # A misspelt field is also a missing one: say the former.
        fault = next((f for f in faults if f["type"] == "extra_forbidden"), faults[0])
        # pydantic's mark of a bad key, which stands before it already
        path = (*at, *(part for part in fault["loc"] if part != "[key]"))
        where = {"file": document.name, "line": document.line(path)}
        field = ".".join(str(part) for part in path) or "the plan"
        if fault["type"] == "extra_forbidden":
            allowed = allowed_fields(model, fault["loc"][:-1])
            allowed += also if len(fault["loc"]) == 1 else ()
            raise UllageError(
                PLAN_UNKNOWN_FIELD,
                **where,
                field=field,
                allowed=", ".join(allowed),
                suggestion=nearest(str(path[-1]), allowed, listed=True),
            ) from error
        missing = fault["type"] == "missing"
        raise UllageError(
            PLAN_BAD_FIELD,
            **where,
            field=field,
            found="nothing" if missing else shown(fault["input"]),
            allowed=_allowed(model, fault),
            suggestion=_describe(model, fault["loc"]),
        ) from error


def shown(value: object, limit: int = 60) -> str:
    """A value of the user's, short enough for a message."""
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def allowed_fields(model: type[BaseModel], path: FieldPath) -> list[str]:
    """The field names of the model that stands at `path` below `model`."""
    deepest = _model_at(model, path)
    return [field.alias or name for name, field in deepest.model_fields.items()]


def _allowed(model: type[BaseModel], fault: ErrorDetails) -> str:
    """What may stand there, in our own words where pydantic's would not help."""
    match fault["type"]:
        case "missing":
            return "this field is needed"
        case "model_type":  # it would name a class of ours
            return "a mapping, `field: value`"
        case "byte_size" | "byte_size_unit":
            return "a size such as 512KiB or 1GiB"
    reason = fault["msg"].removeprefix("Value error, ")
    field = _field_at(model, fault["loc"])
    if field is not None and _holds(field.annotation, ByteSize):
        for limit in fault.get("ctx", {}).values():
            if isinstance(limit, int):
                reason = reason.replace(str(limit), exact_bytes(limit))
    return reason[:1].lower() + reason[1:]


def _describe(model: type[BaseModel], path: FieldPath) -> str:
    described = getattr(model, "DESCRIBED", "docs/guide/plan.md")
    field = _field_at(model, path)
    if field is not None and field.description:
        name = [part for part in path if isinstance(part, str)][-1]
        return f"{name}: {field.description}"
    return f"mend the field; {described} describes every one"


def _field_at(model: type[BaseModel], path: FieldPath) -> FieldInfo | None:
    """The field that the last name of the path means."""
    names = [part for part in path if isinstance(part, str)]
    parent = _model_at(model, path[:-1])
    for name, field in parent.model_fields.items():
        if names and names[-1] in (name, field.alias):
            return field
    return None


def _model_at(model: type[BaseModel], path: FieldPath) -> type[BaseModel]:
    """Follow field names through nested models, skipping list indices and dictionary keys."""
    for part in path:
        field = model.model_fields.get(part) if isinstance(part, str) else None
        inner = _models_in(field.annotation) if field else []
        if inner:
            model = inner[0]
    return model


def _holds(annotation: Any, kind: type) -> bool:
    """Is it this type, or made of it?"""
    return annotation is kind or any(_holds(a, kind) for a in getattr(annotation, "__args__", ()))


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [m for part in getattr(annotation, "__args__", ()) for m in _models_in(part)]
