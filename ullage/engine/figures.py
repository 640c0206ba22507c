"""The figures of a trial: checked, parsed, and averaged over its instances and its iterations."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from ullage.runs.pairs import repeated
from ullage.runs.records import Curve, Metric, Scalar
from ullage.stats.interval import mean
from ullage.workloads.base import Figures, InvalidTrialError, Output

if TYPE_CHECKING:
    from ullage.plan.matrix import Case

Mean = Callable[[Sequence[float]], float]


def parse(case: Case, outputs: Mapping[str, Output]) -> Figures:
    """Check, then parse: no figure comes from an invalid trial. InvalidTrialError says why.

    What a guest printed may be anything: a check that it brings to fall has refused it.
    """
    try:
        case.workload.check(case.parameters, outputs)
        return _check_declared(case, case.workload.parse(case.parameters, outputs))
    except InvalidTrialError:
        raise
    except Exception as error:
        raise InvalidTrialError(f"{type(error).__name__} in the check: {error}") from error


def _check_declared(case: Case, figures: Figures) -> Figures:
    """Figures are finite, declared, and the primary ones are positive: a ratio can be taken."""
    declared = {metric.name: metric for metric in case.metrics}
    for name, value in figures.items():
        values = [y for _, y in value] if isinstance(value, list) else [value]
        if name not in declared:
            raise InvalidTrialError(f"{case.key} gave the undeclared metric {name}")
        if not all(math.isfinite(y) for y in values):
            raise InvalidTrialError(f"{name} is not a finite number")
        if isinstance(value, list) and (twice := repeated(value)) is not None:
            raise InvalidTrialError(f"{name} has two points at {twice:g}")
        if declared[name].primary and not all(y > 0 for y in values):
            raise InvalidTrialError(f"{name} is not positive, so no ratio can be taken")
    missing = [m.name for m in case.metrics if m.primary and m.name not in figures]
    if missing:
        raise InvalidTrialError(f"the output lacks {', '.join(missing)}")
    return figures


def over_instances(figures: Sequence[Figures]) -> Figures:
    """The arithmetic mean, for each metric that all instances gave.

    They worked at the same time, so that rates add up.
    """
    return _over(figures, lambda _: lambda values: mean(values, "arithmetic"))


def over_iterations(figures: Sequence[Figures], metrics: Sequence[Metric]) -> Figures:
    """The mean for each metric that all iterations gave; of a curve, at each shared coordinate.

    The same work was done so many times: of rates (a unit per second) that is the harmonic mean,
    of costs the arithmetic one (Hoefler & Belli 2015, rule 3).
    """
    units = {metric.name: metric.unit for metric in metrics}
    return _over(figures, lambda name: _of_rates if units[name].endswith("/s") else _of_costs)


def _of_costs(values: Sequence[float]) -> float:
    return mean(values, "arithmetic")


def _of_rates(values: Sequence[float]) -> float:
    return mean(values, "harmonic" if min(values) >= 0 else "arithmetic")


def _over(figures: Sequence[Figures], kind: Callable[[str], Mean]) -> Figures:
    if len(figures) == 1:
        return dict(figures[0])
    common = set.intersection(*(set(names) for names in figures))
    return {
        name: _value([one_of[name] for one_of in figures], kind(name)) for name in sorted(common)
    }


def _value(values: Sequence[Scalar | Curve], average: Mean) -> Scalar | Curve:
    scalars = [value for value in values if not isinstance(value, list)]
    if len(scalars) == len(values):
        return _finite(average(scalars))
    curves = [dict(value) for value in values if isinstance(value, list)]
    shared = set.intersection(*(set(curve) for curve in curves))
    return [(x, _finite(average([curve[x] for curve in curves]))) for x in sorted(shared)]


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise InvalidTrialError("figures so large that they have no mean")
    return value
