"""The visible lists of workloads, providers and meters: loaded, and refused at start when wrong."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from inspect import iscoroutinefunction, isfunction, signature
from typing import Any, Final

from pydantic import BaseModel

from ullage.common.errors import LIST_BAD_INTERFACE, LIST_DUPLICATE, UllageError

UNITS: Final = frozenset({"1", "s", "1/s", "B", "B/s", "bit/s", "J", "W"})
"""The units that a figure may have."""

_NAME: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_FIGURE: Final = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")


@dataclass(frozen=True)
class Registry:
    """What may stand in one of the lists."""

    what: str
    """What messages call it: `workload`."""
    base: type
    """What each class extends. It is defined in the package that the list belongs to."""
    attributes: tuple[str, ...]
    """What each class must have, besides a `name` and the methods of the base."""
    fault: Callable[[Any], str | None]
    """What is wrong with a class that has them; None when nothing is."""

    def load(self, *lines: str) -> tuple[Any, ...]:
        """The classes of lines such as `sysbench_cpu.SysbenchCpu`, checked."""
        classes = tuple(self._class(line) for line in lines)
        self.refuse_faults(classes)
        return classes

    def refuse_faults(self, classes: Iterable[type[Any]]) -> None:
        """Raise UllageError (LIST_BAD_INTERFACE, LIST_DUPLICATE) at the first fault."""
        holders: dict[str, str] = {}
        for kind in classes:
            fault = self._fault(kind)
            if fault:
                raise self.bad(kind.__qualname__, fault)
            if kind.name in holders:
                raise UllageError(
                    LIST_DUPLICATE,
                    what=self.what,
                    name=kind.name,
                    first=holders[kind.name],
                    second=kind.__qualname__,
                )
            holders[kind.name] = kind.__qualname__

    def bad(self, name: str, fault: str) -> UllageError:
        """LIST_BAD_INTERFACE, to raise."""
        return UllageError(LIST_BAD_INTERFACE, what=self.what, name=name, fault=fault)

    def _class(self, line: str) -> type[Any]:
        module, _, name = line.rpartition(".")
        package = self.base.__module__.rpartition(".")[0]
        try:
            kind = getattr(import_module(f"{package}.{module}"), name, None)
        except ModuleNotFoundError as error:
            raise self.bad(line, f"no module {error.name}") from error
        if not (isinstance(kind, type) and issubclass(kind, self.base)):
            raise self.bad(line, f"not a subclass of {self.base.__name__}")
        return kind

    def _fault(self, kind: type[Any]) -> str | None:
        """What is missing or wrong in the class, or None."""
        abstract = sorted(getattr(kind, "__abstractmethods__", ()))
        attributes = ("name", *self.attributes)
        lacks = [*abstract, *(name for name in attributes if not hasattr(kind, name))]
        if lacks:
            return f"lacks {', '.join(lacks)}"
        if not (kind.__doc__ or "").strip():
            return "lacks a docstring, which is its page in the docs"
        if not isinstance(kind.name, str) or not _NAME.fullmatch(kind.name):
            return f"name {kind.name!r} is not lower-case words joined by dashes"
        return self._methods_fault(kind) or self.fault(kind)

    def _methods_fault(self, kind: type[Any]) -> str | None:
        """Methods are called as the base's are: with as many arguments, awaited or not."""
        public = {n: m for n, m in vars(self.base).items() if isfunction(m) and n[0] != "_"}
        constructor = {"__init__": vars(self.base).get("__init__", object.__init__)}
        for name, theirs in (constructor | public).items():
            fault = _method_fault(name, getattr(kind, name), theirs)
            if fault:
                return fault
        return None


def _method_fault(name: str, ours: Any, theirs: Callable[..., Any]) -> str | None:
    if ours is theirs:
        return None
    if not callable(ours):
        return f"{name} is not a method"
    if iscoroutinefunction(ours) != iscoroutinefunction(theirs):
        return f"{name} must{'' if iscoroutinefunction(theirs) else ' not'} be async"
    expected = signature(theirs).parameters.values()
    positional = [p.name for p in expected if p.kind <= p.POSITIONAL_OR_KEYWORD]
    try:
        signature(ours).bind(*positional)
    except TypeError:
        return f"{name} does not take ({', '.join(positional)})"
    return None


def fields_fault(
    attribute: str, model: object, base: type[BaseModel], reserved: frozenset[str]
) -> str | None:
    """What is wrong with a model of fields in the plan, or None."""
    if not (isinstance(model, type) and issubclass(model, base)):
        return f"{attribute} is not a subclass of {base.__name__}"
    for name, field in model.model_fields.items():
        if name in reserved:
            return f"field {name} has a name that the plan itself uses"
        if not field.description:
            return f"field {name} lacks a description"
    return None


def figures_fault(attribute: str, figures: object, kind: type[Any]) -> str | None:
    """What is wrong with the declaration of figures that have a `name` and a `unit`, or None."""
    if not isinstance(figures, tuple) or not all(isinstance(figure, kind) for figure in figures):
        return f"{attribute} is not a tuple of {kind.__name__}"
    names = [figure.name for figure in figures]
    for name, unit in ((figure.name, figure.unit) for figure in figures):
        if not _FIGURE.fullmatch(name):
            return f"{name!r} in {attribute} is not lower-case words joined by underscores"
        if names.count(name) > 1:
            return f"{name} stands twice in {attribute}"
        if unit not in UNITS:
            return unit_fault(name, unit)
    return None


def unit_fault(name: str, unit: str) -> str:
    """A unit that is not in the set."""
    return f"{name}: unit {unit!r} is not one of {', '.join(sorted(UNITS))}"
