"""What does a unit of work cost, where the plan gives a price?

A price is one of time, so a cost is defined for metrics that are times (`s`, less is better: the
cost of one such piece of work) and rates (a unit per second, more is better: the cost of one unit).
What is paid is the time of all trials, the slow ones too: a cost is the price times their mean, the
arithmetic one of times, the harmonic one of rates. It has no noise of its own, so its interval is
the mean's, and a ratio of costs is the ratio of the totals times that of the prices.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ullage.analysis.comparison import lives, rounding
from ullage.analysis.comparison.estimates import Absolute, Interval
from ullage.analysis.comparison.model import Analysis, Comparison, Cost
from ullage.analysis.comparison.words import listed, name, ratio_cells
from ullage.runs.reader import RunFolder
from ullage.runs.records import Better, Price

HOUR_S: Final = 3600.0
RUN: Final = "run"
"""The unit of work of a time."""
_STEPS: Final[dict[str, tuple[str, ...]]] = {
    RUN: ("run", "1,000 runs", "million runs", "billion runs", "10¹² runs"),
    "1": ("unit", "1,000 units", "million units", "billion units", "10¹² units"),
}
_PREFIXES: Final = ("", "k", "M", "G", "T", "P", "E")
_READABLE: Final = 0.1
"""The smallest amount that is shown, where a larger amount of work can be named."""
HEADS: Final = ("environment", "workload", "cost", "its interval", "for one", "times", "interval")
"""Columns of `rows`."""


@dataclass(frozen=True)
class _Side:
    """One of the two environments of a comparison."""

    environment: str
    label: str
    values: Absolute | None


@dataclass(frozen=True)
class Bills:
    """What the work costs, and where that cannot be said."""

    costs: tuple[Cost, ...] = ()
    notes: tuple[str, ...] = ()


def bills(folder: RunFolder, comparisons: Sequence[Comparison]) -> Bills:
    """A cost for each priced environment and primary metric, the baseline's first.

    Where the baseline has a price in the same currency there is a ratio: that of the totals, times
    that of the prices. Nothing for metrics without a work per time and for curves; a note where too
    many trials failed for a verdict, or figures are not above 0.
    """
    prices = {e.key: e.price for e in folder.resolved.environments if e.price is not None}
    if not prices:
        return Bills()
    paid = _paid(folder)
    all_costs: list[Cost] = []
    notes: list[str] = []
    for c in comparisons:
        if not c.primary or c.coordinate is not None or work(c.unit, c.better, part=c.part) is None:
            continue
        if c.no_verdict:
            if {c.environment, c.baseline} & prices.keys():
                notes.append(
                    f"No bill of {c.environment_label}, {c.workload_title}: {c.no_verdict}."
                )
            continue
        base = _cost(c, _Side(c.baseline, c.baseline_label, c.baseline_values), prices, paid)
        if base is not None and not any(_same(base, cost) for cost in all_costs):
            all_costs.append(base)
        label = name(c.environment_label, emulated=c.emulated, unequal=c.unequal)
        mine = _cost(c, _Side(c.environment, label, c.environment_values), prices, paid)
        if mine is not None:
            all_costs.append(mine.model_copy(update={"ratio": _ratio(c, mine, base)}))
    currencies = sorted({cost.currency for cost in all_costs})
    if len(currencies) > 1:
        notes.append(
            f"Prices are in {listed(currencies)}: no ratio is made across currencies, for their "
            "rate of exchange is not known here."
        )
    return Bills(tuple(all_costs), (*notes, *lives.notes(folder, prices)))


def rows(analysis: Analysis) -> list[tuple[str, ...]]:
    """The costs in words, by workload: all of one metric for the same amount of work."""
    groups: dict[tuple[str, str, str], list[Cost]] = {}
    for cost in analysis.money:
        groups.setdefault((cost.workload, cost.metric, cost.unit), []).append(cost)
    return [
        _row(cost, *amount(min(member.cost for member in group), cost.unit))
        for group in groups.values()
        for cost in group
    ]


def note(analysis: Analysis) -> str:
    """What the rows rest on."""
    return (
        "Price times the mean time of the work, slow trials too, with the mean's "
        f"{rounding.share(analysis.confidence)} interval; times dearer than "
        f"{analysis.baseline_label}, with that of the ratio of the totals."
    )


def find(analysis: Analysis, environment: str, c: Comparison) -> Cost | None:
    """The cost of an environment, in the metric of a comparison."""
    for cost in analysis.money:
        if (cost.environment, cost.workload, cost.metric) == (environment, c.workload, c.metric):
            return cost
    return None


def _row(cost: Cost, scale: float, amount: str) -> tuple[str, ...]:
    low, high = cost.low, cost.high
    texts = _interval(cost.cost * scale, low and low * scale, high and high * scale)
    return (
        cost.environment_label,
        f"{cost.workload_title} ({cost.metric})",
        f"{texts[0]} {cost.currency}",
        texts[1],
        amount,
        *ratio_cells(cost.ratio),
    )


def _interval(middle: float, low: float | None, high: float | None) -> tuple[str, str]:
    if low is None or high is None:
        return f"{middle:.3g}", ""
    digits = rounding.decimals(low, high)
    texts = [f"{value:,.{digits}f}" for value in (middle, low, high)]
    return texts[0], f"{texts[1]} to {texts[2]}"


def amount(cost: float, unit: str) -> tuple[float, str]:
    """The smallest amount of work that costs something readable, and what it is called."""
    names = _STEPS.get(unit) or tuple(prefix + unit for prefix in _PREFIXES)
    for step, amount in enumerate(names):
        if cost * 1000.0**step >= _READABLE:
            return 1000.0**step, amount
    return 1000.0 ** (len(names) - 1), names[-1]


def _cost(
    c: Comparison, side: _Side, prices: dict[str, Price], paid: Counter[tuple[str, str]]
) -> Cost | None:
    price, values, unit = (
        prices.get(side.environment),
        side.values,
        work(c.unit, c.better, part=c.part),
    )
    if price is None or values is None or unit is None or not values.least > 0:
        return None
    instances = paid[side.environment, c.workload] or 1
    second = price.per_hour * instances / HOUR_S
    low, high = values.mean_low, values.mean_high
    if unit == RUN:
        cost, bounds = second * values.mean, (low and second * low, high and second * high)
    else:
        cost, bounds = second / values.mean, (high and second / high, low and second / low)
    return Cost(
        environment=side.environment,
        environment_label=side.label,
        workload=c.workload,
        workload_title=c.workload_title,
        metric=c.metric,
        unit=unit,
        currency=price.currency,
        per_hour=price.per_hour,
        instances=instances,
        cost=cost,
        low=bounds[0],
        high=bounds[1],
    )


def work(unit: str, better: Better, *, part: bool) -> str | None:
    """The unit of work of a metric; None: it is neither a time nor a rate of the whole work."""
    if part:
        return None
    if unit == "s" and better == "lower":
        return RUN
    if unit.endswith("/s") and better == "higher":
        return unit.removesuffix("/s")
    return None


def _ratio(c: Comparison, mine: Cost, base: Cost | None) -> Interval | None:
    if base is None or c.totals is None or mine.currency != base.currency:
        return None
    prices = mine.per_hour * mine.instances / (base.per_hour * base.instances)
    scaled = {bound: getattr(c.totals, bound) * prices for bound in ("estimate", "low", "high")}
    return c.totals.model_copy(update=scaled)


def _same(first: Cost, second: Cost) -> bool:
    """Of one cell: the baseline stands in a comparison with each environment."""
    fields = ("environment", "workload", "metric")
    return all(getattr(first, field) == getattr(second, field) for field in fields)


def _paid(folder: RunFolder) -> Counter[tuple[str, str]]:
    """(Environment, workload) → instances of it that did one piece of work together.

    With several teams of instances side by side, each has a figure of its own and does work of its
    own, and the figure is their mean.
    """
    place = {event.instance: event.environment for event in folder.provisioned}
    instances: Counter[tuple[str, str]] = Counter()
    for trial in folder.trials:
        of_roles = {role.instance for role in trial.roles}
        own = sum(place.get(instance) == trial.environment for instance in of_roles)
        key = trial.environment, trial.workload
        instances[key] = max(instances[key], own // max(1, len(trial.instances)))
    return instances
