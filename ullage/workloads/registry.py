"""Loads the workloads of the list, and refuses at start what does not keep the interface."""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib import import_module
from typing import Any, TypeAlias, get_args

from ullage.errors import WORKLOAD_BAD_INTERFACE, WORKLOAD_DUPLICATE, UllageError
from ullage.runs import Metric, Resource
from ullage.workloads.base import Parameters, Workload

AnyWorkload: TypeAlias = Workload[Any]

UNITS = frozenset({"1", "s", "1/s", "B", "B/s", "bit/s", "J", "W"})
"""The units that a metric may have."""

RESERVED = frozenset({"name", "as", "vary"})
"""Fields of a workload in the plan that are not its parameters."""

_ATTRIBUTES = ("name", "resource", "packages", "programs", "parameters_model", "metrics")
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_METRIC = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")


def load(*lines: str) -> tuple[type[AnyWorkload], ...]:
    """The classes of lines such as `sysbench_cpu.SysbenchCpu`, from modules of this package."""
    return tuple(_class(line) for line in lines)


def refuse_faults(workloads: Iterable[type[AnyWorkload]]) -> None:
    """Raise UllageError (WORKLOAD_BAD_INTERFACE, WORKLOAD_DUPLICATE) at the first fault."""
    taken: dict[str, type] = {}
    for workload in workloads:
        fault = _fault(workload)
        if fault:
            raise _bad(workload.__qualname__, fault)
        other = taken.setdefault(workload.name, workload)
        if other is not workload or list(workloads).count(workload) > 1:
            raise UllageError(
                WORKLOAD_DUPLICATE,
                name=workload.name,
                first=other.__qualname__,
                second=workload.__qualname__,
            )


def _class(line: str) -> type[AnyWorkload]:
    module, _, name = line.partition(".")
    try:
        found = getattr(import_module(f"ullage.workloads.{module}"), name, None)
    except ModuleNotFoundError as error:
        raise _bad(line, f"no module {error.name}") from error
    if not (isinstance(found, type) and issubclass(found, Workload)):
        raise _bad(line, "not a subclass of Workload")
    return found


def _fault(workload: type[AnyWorkload]) -> str | None:
    """What is missing or wrong in the class, or None."""
    abstract = sorted(getattr(workload, "__abstractmethods__", ()))
    lacks = [*abstract, *(name for name in _ATTRIBUTES if not hasattr(workload, name))]
    if lacks:
        return f"lacks {', '.join(lacks)}"
    if not (workload.__doc__ or "").strip():
        return "lacks a docstring, which is its page in the docs"
    return (
        _plain_fault(workload)
        or _parameters_fault(workload.parameters_model)
        or _metrics_fault(workload.metrics)
    )


def _plain_fault(workload: type[AnyWorkload]) -> str | None:
    if not isinstance(workload.name, str) or not _NAME.fullmatch(workload.name):
        return f"name {workload.name!r} is not lower-case words joined by dashes"
    if workload.resource not in get_args(Resource):
        return f"resource {workload.resource!r} is not one of {', '.join(get_args(Resource))}"
    for attribute in ("packages", "programs"):
        value = getattr(workload, attribute)
        if not isinstance(value, tuple) or not all(isinstance(item, str) for item in value):
            return f"{attribute} is not a tuple of text"
    return None


def _parameters_fault(model: object) -> str | None:
    if not (isinstance(model, type) and issubclass(model, Parameters)):
        return "parameters_model is not a subclass of Parameters"
    for name, field in model.model_fields.items():
        if name in RESERVED:
            return f"parameter {name} has a name that the plan itself uses"
        if not field.description:
            return f"parameter {name} lacks a description"
    return None


def _metrics_fault(metrics: object) -> str | None:
    if not isinstance(metrics, tuple) or not all(isinstance(m, Metric) for m in metrics):
        return "metrics is not a tuple of Metric"
    names = [metric.name for metric in metrics]
    for metric in metrics:
        if not _METRIC.fullmatch(metric.name):
            return f"metric {metric.name!r} is not lower-case words joined by underscores"
        if names.count(metric.name) > 1:
            return f"metric {metric.name} stands twice"
        units = [metric.unit, *([metric.coordinate.unit] if metric.coordinate else [])]
        for unit in units:
            if unit not in UNITS:
                return (
                    f"metric {metric.name}: unit {unit!r} is not one of {', '.join(sorted(UNITS))}"
                )
    if not any(metric.primary for metric in metrics):
        return "no metric is primary"
    return None


def _bad(name: str, fault: str) -> UllageError:
    return UllageError(WORKLOAD_BAD_INTERFACE, workload=name, fault=fault)
