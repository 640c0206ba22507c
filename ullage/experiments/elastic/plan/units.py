"""From the users' time to real time, and what can be said of a plan before anything starts."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from ullage.common.quantities import format_bytes, many, memory_bytes
from ullage.environments.placement import Resources
from ullage.experiments.elastic.plan.schema import Arrivals, ElasticPlan, NodeEnvironment

MOST_NODES: Final = 250
"""A run's network has so many addresses."""

LINK_BPS: Final = 10e9
"""What the kernel says of a veth, which has no speed of its own: a processor here may do less, or
more."""
_LINK: Final = (
    f"more than the {LINK_BPS / 1e9:g} Gbit/s that Linux states for a virtual link (what this host "
    "carries is not measured), so films may stall"
)

_FOR_VIEWERS: Final = ("elastic-movie", "hysteresis")
"""Policies that want nodes for waiting viewers, and no spare ones."""


@dataclass(frozen=True)
class Scaled:
    """The plan in real time: what the programs are told."""

    plan: ElasticPlan

    @property
    def length_s(self) -> float:
        """Real seconds from the film's first frame to its last."""
        return self.plan.video.length / self.plan.time_scale

    @property
    def patience_s(self) -> float:
        """Real seconds that a viewer waits."""
        return self.plan.patience / self.plan.time_scale

    @property
    def film_bytes(self) -> int:
        """Of a film of that length at the plan's bitrate."""
        return max(1, round(self.length_s * self.plan.video.bitrate / 8))

    @property
    def arriving_s(self) -> float:
        """Real seconds during which viewers come: about, as it is drawn."""
        arrivals = self.plan.arrivals
        if arrivals.kind == "trace":
            return max(trace_times(arrivals), default=0.0) / self.plan.time_scale
        if arrivals.lasting is not None:
            return arrivals.lasting / self.plan.time_scale
        assert arrivals.viewers is not None and arrivals.rate is not None
        return arrivals.viewers / arrivals.rate / self.plan.time_scale

    @property
    def repetition_s(self) -> float:
        """The longest that a repetition may take in real time."""
        if self.plan.budgets.repetition is not None:
            return self.plan.budgets.repetition
        # A Poisson process comes to its number late at times; the last viewer waits and watches.
        return 2 * self.arriving_s + self.patience_s + 3 * self.length_s + 300

    @property
    def most_nodes(self) -> int:
        """When the plan does not say: machines from which viewers come need addresses too."""
        generators = self.plan.generators
        return MOST_NODES - (0 if generators is None else generators.number)

    def boot_delay_s(self, environment: NodeEnvironment) -> float:
        """Real seconds that its nodes are held back."""
        return environment.boot_delay / self.plan.time_scale

    def allocation_s(self, environment: NodeEnvironment) -> tuple[float, float] | None:
        """Mean and deviation of what its nodes are made to take; None: what they take."""
        own, scale = environment.allocation_time, self.plan.time_scale
        return None if own is None else (own.mean / scale, own.deviation / scale)

    def held_s(self, environment: NodeEnvironment) -> float:
        """What a node is held back, about, in real seconds."""
        allocation = self.allocation_s(environment)
        return self.boot_delay_s(environment) if allocation is None else allocation[0]

    def machine(self, environment: NodeEnvironment) -> dict[str, Any]:
        """`config` of the decisions."""
        nodes = environment.nodes
        return {
            "room": environment.room,
            "max_nodes": nodes.max or self.most_nodes,
            "min_nodes": nodes.min,
            "allocation": nodes.allocation,
            "placement": nodes.placement,
            "waiting_room": nodes.waiting_room,
        }

    def users_time(self, environments: Iterable[NodeEnvironment]) -> dict[str, Any]:
        """What was divided, as it stands in the plan."""
        plan = self.plan
        return {
            "length_s": plan.video.length,
            "patience_s": plan.patience,
            "boot_delay_s": {
                environment.key: environment.boot_delay for environment in environments
            },
            # The file is the run's own copy: `Resolved.arrivals` says what stands in it.
            "arrivals": plan.arrivals.model_dump(mode="json", exclude_none=True, exclude={"file"}),
        }


def trace_times(arrivals: Arrivals) -> list[float]:
    """Seconds of the users' time at which viewers come. ValueError names the bad line."""
    assert arrivals.file is not None
    # It is read several times, and whole: no pipe, and no device without an end.
    if arrivals.file.exists() and not arrivals.file.is_file():
        raise ValueError("it is no regular file")
    times: list[float] = []
    lines = arrivals.file.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            at = float(line)
        except ValueError:
            raise ValueError(f"line {number}: {line[:40]!r} is no number of seconds") from None
        if not 0 <= at < 1e9:
            raise ValueError(f"line {number}: {line[:40]!r} is not between 0 and 1e9 seconds")
        times.append(at)
    if not times:
        raise ValueError("it holds no instant at which a viewer comes")
    return sorted(times)


def said_before(plan: ElasticPlan, environments: Iterable[NodeEnvironment]) -> Iterator[str]:
    """Sentences on what of the plan this host, or any, cannot do well."""
    scaled = Scaled(plan)
    arrivals = plan.arrivals
    together = _together(plan)
    if together * plan.video.pace > LINK_BPS:
        yield f"about {together:.0f} viewers watch together, {_rate(together, plan)}: {_LINK}"
    fullest = max((environment.room for environment in environments), default=0)
    if fullest * plan.video.pace > LINK_BPS:
        yield f"a full node streams {_rate(fullest, plan)}: {_LINK} before nodes are full"
    if plan.video.buffer >= scaled.length_s:
        yield (
            f"a viewer holds {plan.video.buffer:g} s of video and the film has "
            f"{scaled.length_s:g} s of real time: hardly anything can be late"
        )
    machines = plan.generators
    others = 0 if machines is None else memory_of(machines.number, machines.resources)
    for environment in environments:
        if environment.provider.elsewhere:
            continue
        most = _most(environment, arrivals.viewers, scaled.most_nodes)
        if (needed := memory_of(most, environment.resources) + others) > memory_bytes():
            generators = "" if machines is None else f" and {many(machines.number, 'generator')}"
            yield (
                f"{environment.key}: {many(most, 'node')}{generators} may use "
                f"{format_bytes(needed)} of memory and the host has "
                f"{format_bytes(memory_bytes())}: set `nodes: max:`"
            )


def _together(plan: ElasticPlan) -> float:
    """Viewers who watch at a time, at most: about, where it is drawn; all of them are served."""
    arrivals, length = plan.arrivals, plan.video.length
    if arrivals.rate is not None:
        return min(max(arrivals.rate, arrivals.peak or 0) * length, arrivals.expected)
    try:
        times = trace_times(arrivals)
    except (OSError, ValueError):  # among the lacks
        return 0
    # Who came a film's length ago has gone.
    return max(come - bisect_right(times, at - length) for come, at in enumerate(times, start=1))


def _most(environment: NodeEnvironment, viewers: int | None, free: int) -> int:
    """Nodes at a time: a policy that allocates on arrival has at most one for each viewer."""
    most = environment.nodes.max or free
    if viewers is None or environment.policy.name not in _FOR_VIEWERS:
        return most
    return min(most, max(viewers, environment.nodes.min))


def memory_of(number: int, resources: Resources) -> int:
    """Bytes of so many, at most."""
    return number * resources.memory


def limits_of_scale(plan: ElasticPlan) -> str | None:
    """What a scaled run cannot tell; None when a second is a second."""
    if plan.time_scale == 1:
        return None
    scaled = Scaled(plan)
    return (
        f"time runs ×{plan.time_scale:g}: {plan.video.length:g} s of film are watched in "
        f"{scaled.length_s:g} s. Arrivals, patience and injected boot delays are scaled; what "
        "machines do and the times of a policy are not: a second of allocation counts as "
        f"{plan.time_scale:g} s of the users'"
    )


def _rate(viewers: float, plan: ElasticPlan) -> str:
    return f"{viewers * plan.video.pace / 1e9:.3g} Gbit/s"
