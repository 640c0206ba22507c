"""What each metric of an elastic run means: the list, with units, directions and sources."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Final, Literal

from ullage.runs.records import Better

Scale = Literal["ratio", "difference"]
"""How two environments are compared: by the ratio of a figure that is above 0, or by the difference
of one that may be 0, such as a share."""
MetricGroup = Literal["users", "allocation", "elasticity", "cost"]

GROUPS: Final[dict[MetricGroup, str]] = {
    "users": "What the viewers felt",
    "allocation": "How fast nodes came and went",
    "elasticity": "How well supply followed demand",
    "cost": "What it took",
}
STUDY: Final = "a study of elastic environments and global physical clocks, 2015"
"""What `ullage study` calls elastic-clock."""
BUNGEE: Final = "BUNGEE, Herbst et al. 2015"
SPEC_RG: Final = "SPEC RG, Herbst et al. 2016 and 2018"
HERE: Final = "ullage"


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    name: str
    title: str
    symbol: str = ""
    """As the field calls it."""
    unit: str
    """`1`: a share, shown in per cent, or a pure number; `count`, `nodes`, `nodes/s`; `money`, in
    the plan's currency; else SI."""
    better: Better | None
    """None: it tells what was asked of the environment; nothing is better or worse."""
    scale: Scale
    group: MetricGroup
    description: str
    source: str
    primary: bool = False
    """It gets a verdict, corrected together with those of the other primary ones."""
    percent: bool = False
    """Shown in per cent."""
    bounded: bool = False
    """A part of a whole: never above 1."""
    two_clocks: bool = False
    """Made of instants of the viewers and of the controller, so that a bound of their clocks
    against each other is in it."""
    seldom: bool = False
    """It is told where a run has it, and not named where it has not."""
    margin: float = 0.01
    """Of a primary difference: what counts as none, in its unit."""

    @property
    def named(self) -> str:
        """`allocation of a node (TaR)`."""
        return (
            f"{self.title} ({self.symbol})" if self.symbol not in ("", self.title) else self.title
        )

    def titled(self, currency: str) -> str:
        """The same, and of money in which currency: that is the plan's."""
        return f"{self.named}, {currency}" if self.unit == "money" else self.named

    def within(self, low: float, high: float) -> tuple[float, float]:
        """An interval of differences, cut off at what two parts of a whole can differ by."""
        if self.scale == "difference" and self.bounded:
            return max(-1.0, low), min(1.0, high)
        return low, high


_share = partial(Definition, unit="1", better="lower", scale="difference", percent=True)
_allocation = partial(Definition, group="allocation")
ALLOCATION: Final[tuple[Definition, ...]] = (
    _allocation(
        name="tar",
        title="allocation of a node",
        symbol="TaR",
        unit="s",
        better="lower",
        scale="ratio",
        description="From the controller's hearing that a node is wanted until the front knows "
        "that it streams: TeF + TcI + TiI, what stands between them, attempts that failed, and a "
        "delay that the plan injects.",
        source=STUDY,
        primary=True,
    ),
    _allocation(
        name="tar_bare",
        seldom=True,
        title="the same without contextualisation",
        unit="s",
        better="lower",
        scale="ratio",
        description="TaR less the time from the start of the instance's kernel until it let us in: "
        "its own start, network and keys, which published figures of clouds leave out at times. "
        "Of instances that tell when their kernel began.",
        source=HERE,
    ),
    _allocation(
        name="tlr",
        title="release of a node",
        symbol="TlR",
        unit="s",
        better="lower",
        scale="ratio",
        description="From the beginning of the removal of a node that the front gave up until "
        "nothing of it is left. Removals at the end of a repetition are not counted.",
        source=STUDY,
    ),
    _allocation(
        name="allocations",
        title="nodes allocated",
        unit="count",
        better=None,
        scale="ratio",
        description="Nodes that the front asked for.",
        source=HERE,
    ),
    _allocation(
        name="not_had",
        title="nodes not had",
        unit="1",
        better="lower",
        scale="difference",
        description="Share of the nodes asked for that never became ready.",
        source=HERE,
        percent=True,
        bounded=True,
    ),
)


_cost = partial(Definition, group="cost", scale="ratio", source=HERE)
COST: Final[tuple[Definition, ...]] = (
    _cost(
        name="node_seconds",
        title="node-seconds allocated",
        unit="node·s",
        better=None,
        description="∫ of the nodes from request to removal: what is paid for. Who turns viewers "
        "away needs fewer; see the node time per served viewer.",
    ),
    _cost(
        name="node_time",
        title="node time per served viewer",
        unit="node·s",
        better="lower",
        description="Node-seconds allocated, over the viewers who were served.",
        primary=True,
    ),
    _cost(
        name="ready_seconds",
        title="node-seconds ready",
        unit="node·s",
        better=None,
        description="∫ s dt, to the end of the repetition.",
    ),
    _cost(
        name="demanded_seconds",
        title="node-seconds demanded",
        unit="node·s",
        better=None,
        description="∫ d dt: what a supply that follows the demand perfectly would take.",
    ),
    _cost(
        name="nodes_most",
        title="most nodes at once",
        unit="nodes",
        better=None,
        description="The largest number of nodes that were allocated at once.",
    ),
    _cost(
        name="cost",
        seldom=True,
        title="cost of the service",
        unit="money",
        better=None,
        description="Each node's life, from its request until nothing of it was left, billed as "
        "its price says; with the bytes and the requests, where these have a price.",
    ),
    _cost(
        name="cost_per_viewer",
        seldom=True,
        title="cost for a viewer",
        unit="money",
        better="lower",
        description="The same over the viewers who were served.",
    ),
    _cost(
        name="energy",
        title="energy of the host",
        unit="J",
        better="lower",
        description="By the first of the plan's meters that was there, over exactly the "
        "repetition, with all that the host did beside.",
    ),
    _cost(
        name="energy_per_viewer",
        title="energy for a viewer",
        unit="J",
        better="lower",
        description="The same over the viewers who were served.",
    ),
)


_elasticity = partial(Definition, group="elasticity", two_clocks=True)
_elasticity_share = partial(_share, group="elasticity", two_clocks=True)
ELASTICITY: Final[tuple[Definition, ...]] = (
    _elasticity(
        name="deviation",
        title="elastic deviation",
        symbol="σ",
        unit="1",
        better="lower",
        scale="ratio",
        description="(θ³ + τ³ + υ³)^⅓, where θ and τ are the means of their U and O: the distance "
        "from the supply that follows the demand perfectly.",
        source=SPEC_RG,
        primary=True,
        percent=True,
    ),
    _elasticity(
        name="speed_up",
        title="elastic speed-up",
        symbol="ε",
        unit="1",
        better="higher",
        scale="ratio",
        description="Geometric mean of θ_U, θ_O, τ_U and τ_O of a constant supply, over those of "
        "this one. The constant supply has the mean of the demand, rounded. Absent where one of "
        "the eight is 0.",
        source=SPEC_RG,
    ),
    _elasticity_share(
        name="theta_u",
        title="under-provisioning, share of demand",
        symbol="θ_U",
        description="(1/T) ∫ max(d − s, 0) / d dt: the part of the demanded nodes that is missing.",
        source=SPEC_RG,
        bounded=True,
    ),
    _elasticity_share(
        name="theta_o",
        title="over-provisioning, share of demand",
        symbol="θ_O",
        description="(1/T) ∫ max(s − d, 0) / d dt. Where nobody demands anything, nodes count "
        "against one.",
        source=SPEC_RG,
    ),
    _elasticity_share(
        name="timeshare_u",
        title="time under-provisioned",
        symbol="τ_U",
        description="(1/T) ∫ [s < d] dt: the part of the time with too few nodes. BUNGEE's "
        "timeshare_U and SPEC RG's τ_U are the same.",
        source=f"{BUNGEE}; {SPEC_RG}",
        bounded=True,
    ),
    _elasticity_share(
        name="timeshare_o",
        title="time over-provisioned",
        symbol="τ_O",
        description="(1/T) ∫ [s > d] dt: the part of the time with too many nodes.",
        source=f"{BUNGEE}; {SPEC_RG}",
        bounded=True,
    ),
    _elasticity_share(
        name="instability",
        title="instability",
        symbol="υ",
        description="Part of the time in which supply and demand had not moved the same way over "
        "the last h, a minute of the users' time, or a tenth of the video where that is shorter.",
        source=SPEC_RG,
        bounded=True,
    ),
    _elasticity(
        name="accuracy_u",
        title="nodes missing, mean",
        symbol="accuracy_U",
        unit="nodes",
        better="lower",
        scale="difference",
        description="(1/T) ∫ max(d − s, 0) dt.",
        source=BUNGEE,
    ),
    _elasticity(
        name="accuracy_o",
        title="nodes too many, mean",
        symbol="accuracy_O",
        unit="nodes",
        better="lower",
        scale="difference",
        description="(1/T) ∫ max(s − d, 0) dt.",
        source=BUNGEE,
    ),
    _elasticity(
        name="jitter",
        title="jitter",
        symbol="jitter",
        unit="nodes/s",
        better=None,
        scale="difference",
        description="(E_s − E_d) / T, E the sum of the sizes of all steps: above 0 the supply "
        "moved more than the demand, below 0 less.",
        source=BUNGEE,
    ),
)


BRIEF_WAIT_S: Final = 1.0
"""Seconds of the users' time: who waits longer has waited for a node, and not for the front."""

_users = partial(Definition, group="users")
_users_share = partial(_share, group="users", bounded=True)
USERS: Final[tuple[Definition, ...]] = (
    _users(
        name="requests",
        title="requests received",
        symbol="QtRvS",
        unit="count",
        better=None,
        scale="ratio",
        description="Viewers who asked the front for a video.",
        source=STUDY,
    ),
    _users_share(
        name="blocked",
        title="blocked viewers",
        symbol="PcBl",
        description="Share of the requests that were not given a node within the viewer's "
        "patience; without any, that found no room when they came.",
        source=STUDY,
        primary=True,
    ),
    _users_share(
        name="blocked_full",
        seldom=True,
        title="of them, because the cloud was full",
        description="Share of the requests that were blocked when the cloud's last word on a node "
        "was that it has no room or no quota for one; the others were blocked because it is slow. "
        "Absent where it never said so.",
        source=HERE,
    ),
    _users_share(
        name="affected",
        title="viewers with a violation",
        symbol="PcAf",
        description="Share of the viewers who were served, which is who got a first byte, in whose "
        "player the video stood still at least once, or whose stream broke or was cut.",
        source=STUDY,
        primary=True,
    ),
    _users_share(
        name="turned_away",
        title="refused or failed",
        description="Share of the requests that the front turned away or that broke, before the "
        "first byte or after it, which is not blocking by patience.",
        source=HERE,
    ),
    _users(
        name="bandwidth",
        title="aggregate bandwidth",
        symbol="AggBand",
        unit="bit/s",
        better="higher",
        scale="ratio",
        description="Bits of video that all viewers got, over the time from the first instant at "
        "which one may come until the last is gone.",
        source=STUDY,
    ),
    _users_share(
        name="waited",
        title="viewers who waited",
        description="Share of the requests whose answer took longer than a second of the users' "
        "time, or never came. Without patience nobody waits, and there is no such figure.",
        source=HERE,
    ),
    _users(
        name="wait_mean",
        title="waiting time, mean",
        unit="s",
        better="lower",
        scale="ratio",
        description="From the instant at which a viewer was due until the front sent him to a "
        "node, over those who were served. It counts from the due instant, so a generator or a "
        "front that is late cannot hide it.",
        source=HERE,
    ),
    _users(
        name="wait_p95",
        title="waiting time, 95th percentile",
        unit="s",
        better="lower",
        scale="ratio",
        description="The waiting time that one in twenty of the served viewers exceeded.",
        source=HERE,
    ),
    _users(
        name="stalled",
        title="standstill per viewer",
        unit="s",
        better="lower",
        scale="difference",
        description="How long the video stood still, over all viewers who were served.",
        source=HERE,
    ),
)


DEFINITIONS: Final[tuple[Definition, ...]] = (*USERS, *ALLOCATION, *ELASTICITY, *COST)
BY_NAME: Final = {d.name: d for d in DEFINITIONS}
