"""The fields of a simulation's specification, and how the simulator's own are made of them.

Words are those of the plan of an elastic run where both have the thing: `room`, `policy`, `nodes`,
`arrivals`, `video`, `patience`. All times are the users'.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist, fmean
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import Field, TypeAdapter, ValidationError, model_validator

from ullage.common.faults import first_message
from ullage.common.fields import Fields
from ullage.common.quantities import Delay, Seconds
from ullage.experiments.elastic.plan.schema import COMING, Policy, check_kind_fields
from ullage.runs.allocations import Copy


@dataclass(frozen=True)
class SimulatedFigure:
    """A figure of a simulation. One with the name of a metric of real runs is that metric."""

    name: str
    unit: str
    meaning: str
    at: tuple[str, ...]
    """Its path in the outcome."""
    share: bool = False
    """It is between 0 and 1, and so are the ends of its interval."""
    signed: bool = False
    """It may be below 0, and so may those."""
    over: float = 1.0
    """What the outcome's value is divided by."""

    def of(self, outcome: Mapping[str, Any]) -> float | None:
        """Its value; None where there is none, such as the mean wait of nobody."""
        value: Any = outcome
        for part in self.at:
            value = None if value is None else value[part]
        return None if value is None else float(value) / self.over


FIGURES: Final = (
    SimulatedFigure("QtRvS", "1", "viewers that came", ("viewers", "requests")),
    SimulatedFigure("PcBl", "1", "share of them that was blocked", ("blocked",), share=True),
    SimulatedFigure("turned_away_viewers", "1", "viewers with no place to wait, or never a node",
                    ("viewers", "turned_away")),
    SimulatedFigure("waited_viewers", "1", "viewers that waited and were served",
                    ("viewers", "waited")),
    SimulatedFigure("waited_mean", "s", "how long these waited, on the average",
                    ("wait", "mean_s")),
    SimulatedFigure("waited_p99", "s", "99 % of these waited no longer", ("wait", "p99_s")),
    SimulatedFigure("PcAf", "1", "share of the served viewers whose stream broke with its node",
                    ("affected",), share=True),
    SimulatedFigure("cut", "1", "viewers that lost their node and did not see the rest",
                    ("viewers", "cut")),
    SimulatedFigure("nodes_asked", "1", "nodes that were asked for", ("nodes", "asked")),
    SimulatedFigure("nodes_failed", "1", "nodes that never became ready", ("nodes", "failed")),
    SimulatedFigure("nodes_most", "1", "nodes at a time, at most", ("whole", "most_nodes")),
    SimulatedFigure("node_seconds", "node·s",
                    "nodes over time, from asked for until gone: what is paid for",
                    ("whole", "node_s")),
    SimulatedFigure("TaR", "s", "from asking for a node until it streams, on the average",
                    ("allocation", "mean_s")),
    SimulatedFigure("watching_most", "1", "viewers served at a time, at most",
                    ("whole", "watching", "most")),
    SimulatedFigure("accuracy_u", "1", "nodes missing, on the average over time",
                    ("elasticity", "under_nodes")),
    SimulatedFigure("accuracy_o", "1", "nodes too many, on the average over time",
                    ("elasticity", "over_nodes")),
    SimulatedFigure("theta_u", "1", "share of the demanded nodes that was missing, over time",
                    ("elasticity", "under_part"), share=True),
    SimulatedFigure("theta_o", "1", "nodes too many, as a share of the demanded ones, over time",
                    ("elasticity", "over_part")),
    SimulatedFigure("timeshare_u", "1", "share of the time in which nodes were missing",
                    ("elasticity", "under_time"), share=True),
    SimulatedFigure("timeshare_o", "1", "share of the time in which there were too many",
                    ("elasticity", "over_time"), share=True),
    SimulatedFigure("jitter", "nodes/s", "how much more often supply changed than demand",
                    ("elasticity", "jitter_per_minute"), signed=True, over=60),
    SimulatedFigure("instability", "1",
                    "share of the time in which supply did not move as demand did",
                    ("elasticity", "instability"), share=True),
    SimulatedFigure("deviation", "1", "elastic deviation from a supply that follows perfectly",
                    ("elasticity", "deviation")),
    SimulatedFigure("speed_up", "1", "elastic speed-up over a constant supply; above 1: better",
                    ("elasticity", "speed_up")),
)  # fmt: skip


def figures(outcome: Mapping[str, Any]) -> dict[str, float]:
    """Name → value, of those that there are."""
    values = ((figure.name, figure.of(outcome)) for figure in FIGURES)
    return {name: value for name, value in values if value is not None}


def in_words(value: float, unit: str) -> str:
    """A value for people: by the minute where a real run's page tells it so."""
    if unit == "nodes/s":
        value, unit = 60 * value, "nodes/min"
    text = f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
    return text if unit == "1" else f"{text} {unit}"


DistributionKind = Literal[
    "fixed",
    "exponential",
    "uniform",
    "normal",
    "log-normal",
    "gamma",
    "weibull",
    "pareto",
    "empirical",
    "in-turn",
]
NEEDED: Final[Mapping[str, tuple[str, ...]]] = {
    "fixed": ("value",),
    "exponential": ("mean",),
    "uniform": ("low", "high"),
    "normal": ("mean", "deviation"),
    "log-normal": ("mean", "deviation"),
    "gamma": ("mean", "deviation"),
    "weibull": ("scale", "shape"),
    "pareto": ("least", "shape"),
    "empirical": ("values",),
    "in-turn": ("values",),
}
"""Kind of time → the fields that it has, and no others."""

_THEIRS: Final = {
    "value": "s",
    "mean": "mean_s",
    "deviation": "sd_s",
    "low": "low_s",
    "high": "high_s",
    "scale": "scale_s",
    "shape": "shape",
    "least": "least_s",
    "values": "values_s",
}


_DELAY: Final = TypeAdapter[float](Delay)


class TimeSpec(Fields):
    """How long something takes: `60s`, or a kind of distribution with its fields."""

    kind: DistributionKind = Field("fixed", description=f"one of {', '.join(NEEDED)}")
    value: Delay | None = Field(None, description="of `fixed`")
    mean: Delay | None = Field(None, description="of the time itself, not of its logarithm")
    deviation: Delay | None = Field(None, description="standard deviation of the time itself")
    low: Delay | None = Field(None, description="of `uniform`: the least")
    high: Delay | None = Field(None, description="of `uniform`: the most")
    scale: Seconds | None = Field(None, description="of `weibull`")
    shape: float | None = Field(None, gt=0, le=1e6, description="of `weibull` and `pareto`")
    least: Seconds | None = Field(None, description="of `pareto`: no time is shorter")
    values: tuple[Delay, ...] | None = Field(
        None,
        min_length=1,
        description="of `empirical` (all alike) and `in-turn` (one after another)",
    )

    @model_validator(mode="before")
    @classmethod
    def _plain(cls, data: Any) -> Any:
        return data if isinstance(data, dict | TimeSpec) else {"value": _delay(data)}

    @model_validator(mode="after")
    def _whole(self) -> TimeSpec:
        check_kind_fields(self, self.kind, NEEDED[self.kind], _THEIRS)
        return self

    def rust(self) -> dict[str, Any]:
        """As the simulator has it."""
        fields = {theirs: getattr(self, ours) for ours, theirs in _THEIRS.items()}
        return {"kind": self.kind, **{k: v for k, v in fields.items() if v is not None}}

    def mean_s(self) -> float:
        """On the average, in seconds; infinite where the tail is too long for one."""
        shape = self.shape or 1.0
        match self.kind:
            case "fixed":
                mean = self.value
            case "uniform":
                mean = fmean((self.low or 0.0, self.high or 0.0))
            case "empirical" | "in-turn":
                mean = fmean(self.values or (0.0,))
            case "weibull":
                mean = (self.scale or 0.0) * _factorial(1 / shape)
            case "pareto":
                mean = (self.least or 0.0) * shape / (shape - 1) if shape > 1 else math.inf
            case "normal" if self.deviation:
                mean = _above_0(self.mean or 0.0, self.deviation)
            case _:
                mean = self.mean
        return mean or 0.0


def _factorial(x: float) -> float:
    try:
        return math.gamma(1 + x)
    except OverflowError:
        return math.inf


def _delay(data: Any) -> float:
    """What is written plainly. ValueError of the field in which it stands: `value` nobody wrote."""
    if isinstance(data, bool):
        raise ValueError("a duration such as 500ms, 90s, 10m or 1h30m")
    try:
        return _DELAY.validate_python(data)
    except ValidationError as error:
        raise ValueError(first_message(error)) from None


def _above_0(mean: float, deviation: float) -> float:
    """Of a normal distribution from which is drawn again while it is negative."""
    normal = NormalDist(mean, deviation)
    return mean + deviation**2 * normal.pdf(0) / (1 - normal.cdf(0))


class SimulatedNodes(Fields):
    """What bounds the nodes, and how they are had."""

    max: int | None = Field(
        None, ge=0, le=100_000_000, description="nodes at a time; left out: any number"
    )
    min: int = Field(0, ge=0, le=100_000_000, description="nodes that are kept, used or not")
    allocation: Literal["one_at_a_time", "one_per_need", "one_per_request"] = Field(
        "one_at_a_time", description="how many are made at the same time when viewers wait"
    )
    placement: Literal["fullest", "emptiest"] = Field(
        "fullest", description="the node with room that a viewer is sent to"
    )
    waiting_room: int | None = Field(
        None, ge=0, le=1_000_000_000, description="viewers that may wait; left out: any number"
    )


SimulatedRate = Annotated[float, Field(ge=0, le=1e9)]
AtATime = Annotated[int, Field(ge=1, le=100_000_000)]

Coming = Literal["poisson", "uniform", "trace", "flash-crowd", "surge", "daily", "profile"]
_COMING: Final[Mapping[str, Mapping[str, str]]] = {
    **COMING,
    "trace": {"file": "at_s"},
    "flash-crowd": {**COMING["flash-crowd"], "at": "from_s"},
    "surge": {"rate": "rate_hz", "peak": "peak_hz", "at": "from_s", "for_": "for_s"},
    "daily": {"rate": "rate_hz", "swing": "swing", "peak_at": "peak_at_s"},
    "profile": {"rates": "rates_hz", "step": "step_s"},
}
"""Kind of arrivals, those of a run among them → its fields, and what the simulator calls them."""


class SimulatedArrivals(Fields):
    kind: Coming = Field("poisson", description=f"one of {', '.join(_COMING)}")
    viewers: int | None = Field(
        None, ge=1, le=1_000_000_000_000, strict=True, description="how many come, at most"
    )
    lasting: Seconds | None = Field(None, description="nobody comes after this")
    rate: float | None = Field(None, gt=0, le=1e9, description="viewers a second, on the average")
    peak: float | None = Field(
        None, gt=0, le=1e9, description="of a `flash-crowd` its highest rate, of a `surge` its rate"
    )
    at: Delay | None = Field(None, description="of a `flash-crowd`, a `surge`: when it begins")
    decay: Seconds | None = Field(
        None, description="of a `flash-crowd`: in how long the rate falls back by e"
    )
    for_: Seconds | None = Field(None, alias="for", description="of a `surge`: how long")
    swing: float | None = Field(
        None, ge=0, le=1, description="of `daily`: how much more than the mean come at the peak"
    )
    peak_at: Delay | None = Field(None, description="of `daily`: after midnight, when it begins")
    rates: tuple[SimulatedRate, ...] | None = Field(
        None, min_length=1, description="of `profile`: a step"
    )
    step: Seconds | None = Field(None, description="of `profile`: how long each rate lasts")
    file: Path | None = Field(
        None, description="of a `trace`: instants in seconds, one a line, in order"
    )

    @model_validator(mode="after")
    def _whole(self) -> SimulatedArrivals:
        every = {name for fields in _COMING.values() for name in fields}
        check_kind_fields(self, self.kind, _COMING[self.kind], sorted(every))
        if self.kind != "trace" and self.viewers is None and self.lasting is None:
            raise ValueError("say `viewers`, or `lasting`, or both")
        return self

    def rust(self, trace: list[float] | None) -> dict[str, Any]:
        """As the simulator has it; `trace`: the instants in the file."""
        fields = _COMING[self.kind]
        values = {theirs: getattr(self, ours) for ours, theirs in fields.items()}
        return {"kind": self.kind, **values, **({"at_s": trace} if trace is not None else {})}


class SimulatedFilm(Fields):
    length: TimeSpec = Field(TimeSpec(value=1800), description="how long each watches: `30m`")


class Allocation(Fields):
    """How long a node takes to come: from one of `run`, `table`, `time` and `stages`."""

    run: Path | None = Field(
        None, description="folder of a run: what its nodes or instances took, by number at a time"
    )
    environment: str | None = Field(
        None, description="of the run, or of the table where it has such a column"
    )
    copy_: Copy | None = Field(
        None, alias="copy", description="of a run of `provisioning` that has both"
    )
    table: Path | None = Field(
        None, description="CSV: `seconds`, and where known `concurrent` and `environment`"
    )
    time: TimeSpec | None = Field(None, description="`60s`, or a distribution")
    stages: dict[str, TimeSpec] | None = Field(
        None, min_length=1, description="the times of its parts, which add up: `TeF`, `TcI`, `TiI`"
    )
    slow_down: dict[AtATime, Annotated[float, Field(gt=0, le=1e9)]] = Field(
        {}, description="nodes allocated at the same time → times as long; linear between"
    )
    gives_up: Seconds | None = Field(None, description="after this an allocation has failed")

    @model_validator(mode="before")
    @classmethod
    def _plain(cls, data: Any) -> Any:
        plain = not isinstance(data, dict | Allocation) or (
            isinstance(data, dict) and "kind" in data
        )
        if not plain:
            return data
        return {"time": data if isinstance(data, dict | TimeSpec) else _delay(data)}

    @model_validator(mode="after")
    def _one_source(self) -> Allocation:
        sources = (self.run, self.table, self.time, self.stages)
        if sum(source is not None for source in sources) != 1:
            raise ValueError("say one of `run`, `table`, `time` and `stages`")
        if self.environment is not None and self.run is None and self.table is None:
            raise ValueError("`environment` belongs to `run` and `table`")
        if self.copy_ is not None and self.run is None:
            raise ValueError("`copy` belongs to `run`")
        return self


class Failures(Fields):
    never_ready: float = Field(
        0, ge=0, le=1, description="probability: `allocation: gives_up` ends it"
    )
    error: float = Field(0, ge=0, le=1, description="probability that an attempt is an error")
    error_after: TimeSpec = Field(TimeSpec(value=1), description="how long until the error")
    retries: int = Field(0, ge=0, le=1000, description="attempts after the first")
    retry_after: TimeSpec = Field(
        TimeSpec(value=1), description="between an error and the next attempt"
    )
    lifetime: TimeSpec | None = Field(None, description="of a ready node; left out: for ever")

    def rust(self) -> dict[str, Any]:
        """As the simulator has it."""
        return {
            "never_ready": self.never_ready,
            "error": self.error,
            "error_after": self.error_after.rust(),
            "retries": self.retries,
            "retry_after": self.retry_after.rust(),
            "lifetime": self.lifetime and self.lifetime.rust(),
        }


class Hosts(Fields):
    """What nodes are made on."""

    count: int = Field(ge=0, le=10_000_000, description="hosts")
    nodes_each: int = Field(ge=0, le=100_000, description="nodes that fit on one")
    placement: Literal["spread", "pack"] = Field("spread", description="fewest first, or most")
    first_image: TimeSpec | None = Field(
        None, description="how much longer it takes on a host that has no copy of the image yet"
    )

    def rust(self) -> dict[str, Any]:
        """As the simulator has it."""
        image = self.first_image and self.first_image.rust()
        return {**self.model_dump(exclude={"first_image"}), "first_image": image}


class Specification(Fields):
    DESCRIBED: ClassVar = "docs/guide/elastic-simulator.md"

    name: str = Field("simulation", max_length=200, description="what to call it")
    room: int = Field(ge=1, le=1_000_000, strict=True, description="viewers that one node takes")
    policy: Policy = Field(
        Policy(name="elastic-movie"), description="how many nodes to have: `{name: elastic-movie}`"
    )
    nodes: SimulatedNodes = Field(
        SimulatedNodes(), description="what bounds the nodes, and how they are had"
    )
    arrivals: SimulatedArrivals = Field(description="when viewers come")
    video: SimulatedFilm = Field(SimulatedFilm(), description="what they watch")
    patience: TimeSpec | None = Field(
        TimeSpec(value=60),
        description="`null`: they wait as long as it takes; 0: who finds no room is blocked at "
        "once",
    )
    reconnect: TimeSpec | None = Field(
        None, description="after how long one asks again whose node failed; left out: it does not"
    )
    allocation: Allocation = Field(description="how long a node takes to come")
    release: TimeSpec = Field(TimeSpec(value=0), description="how long a node takes to go")
    failures: Failures = Field(Failures(), description="what goes wrong")
    hosts: Hosts | None = Field(None, description="what nodes are made on; left out: room for all")
    warm_up: Delay = Field(0, description="left out of what is told of the steady state")
    points: int = Field(500, ge=0, le=100_000, description="of the curves, at most; 0: none")
    seed: int = Field(1, ge=0, lt=1 << 53, strict=True, description="of all random numbers")
