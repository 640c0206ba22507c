"""The clocks of a trial: what its instants are once it is over, and how well that is known."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ullage.engine.program import Part, TrialFailedError
from ullage.environments import Instance
from ullage.environments.agent.clock import BREAKS, ClockMap, Look
from ullage.environments.agent.frames import FrameError
from ullage.host import clock
from ullage.runs.events import InstanceClock, Synchronised
from ullage.runs.writer import now_ns


@dataclass(frozen=True)
class Own:
    """This host's clock when a trial began."""

    disruptions: int
    reasons: frozenset[str]

    @classmethod
    def now(cls) -> Own:
        """As it is; what happened to it before belongs to no trial."""
        clock.check()
        return cls(clock.disruptions(), frozenset(clock.stamp()[1]))

    def check(self) -> None:
        """TrialFailedError when something has happened to it since: it is what all is told by."""
        clock.check()
        if clock.disruptions() != self.disruptions:
            words = _in_words(frozenset(clock.stamp()[1]) & BREAKS)
            raise TrialFailedError("clock-broken", f"this host's clock was disturbed: {words}")


def event(environment: str, instance: str, look: Look) -> Synchronised:
    """A look, for the journal."""
    fix = look.fix
    return Synchronised(
        epoch_ns=now_ns() - max(0, clock.ordered_ns() - fix.local_ns),
        environment=environment,
        instance=instance,
        number=look.number,
        why=look.why,
        shared=look.shared,
        at_ns=fix.local_ns,
        offset_ns=fix.offset_ns,
        hard_ns=fix.half_ns,
        sure_ns=fix.sure_ns,
        rtt_ns=fix.rtt_ns,
        messages=look.messages,
        took_ns=look.took_ns,
        reasons=look.reasons,
        way="udp" if look.aside else None,
    )


Maps = Mapping[str, ClockMap]
"""Instance → its clock."""


async def close(parts: Sequence[Part]) -> Maps:
    """Look at the clocks once more, and tell the programs' instants by both looks.

    What comes next may begin with the later of the two.

    TrialFailedError where a clock contradicts itself: a tool inside measures with the same clock.
    """
    instances = {part.instance.name: part.instance for part in parts}
    maps = {name: instance.agent.clock for name, instance in instances.items()}
    if apart := [name for name, ours in maps.items() if not ours.shared]:
        closed = await asyncio.gather(*(_close(instances[name]) for name in apart))
        maps |= dict(zip(apart, closed, strict=True))
    for part in parts:
        _correct(part, maps[part.instance.name])
    return maps


def records(closed: Sequence[Maps], parts: Sequence[Part]) -> dict[str, InstanceClock]:
    """Instance → its clock during a trial; closed: once after each iteration, in order."""
    instances = {part.instance.name: part.instance for part in parts}
    return {
        name: _record(instance, [maps[name] for maps in closed], parts)
        for name, instance in instances.items()
    }


async def _close(instance: Instance) -> ClockMap:
    before = instance.agent.clock
    after = await instance.agent.sync("after")
    try:
        return before.closed_by(after.first)
    except clock.ContradictionError:
        moved_ns = after.first.fix.offset_ns - before.first.fix.offset_ns
        lasted_s = (after.first.fix.local_ns - before.first.fix.local_ns) / 1e9
        raise TrialFailedError(
            "clock-broken",
            f"the clock of {instance.name} moved by {moved_ns / 1e6:+.3f} ms against this host's in"
            f" {lasted_s:.3f} s: it was stepped, halted, or runs at another rate than time",
        ) from None


def _correct(part: Part, ours: ClockMap) -> None:
    if part.finished is None:
        return
    try:
        part.finished = part.finished.corrected(ours)
    except FrameError as error:
        raise TrialFailedError("clock-broken", f"{part.name} tells {error}") from error
    last = ours.last.reasons if ours.last else ()
    news = frozenset((*part.finished.reasons, *last)) - frozenset(ours.first.reasons)
    if news & BREAKS:
        words = _in_words(news & BREAKS)
        raise TrialFailedError("clock-broken", f"the clock of {part.instance.name}: {words}")


def _record(instance: Instance, maps: Sequence[ClockMap], parts: Sequence[Part]) -> InstanceClock:
    done = [p.finished for p in parts if p.instance is instance and p.finished is not None]
    ours = maps[-1]
    looks = [maps[0].first, *(ours_then.last for ours_then in maps if ours_then.last)]
    names = {name for look in looks for name in look.reasons}
    names |= {name for finished in done for name in finished.reasons}
    first, last = looks[0].fix, looks[-1].fix
    return InstanceClock(
        shared=ours.shared,
        looks=tuple(look.number for look in looks),
        messages=sum(look.messages for look in looks),
        took_ns=sum(look.took_ns for look in looks),
        hard_ns=max((finished.clock_bound_ns for finished in done), default=ours.bound_ns),
        sure_ns=max((finished.clock_sure_ns for finished in done), default=ours.bound_ns),
        drifted_ns=last.offset_ns - first.offset_ns if ours.last else None,
        drift_unsure_ns=last.half_ns + first.half_ns if ours.last else None,
        between_ns=last.local_ns - first.local_ns if ours.last else None,
        residual_ns=None if ours.shared else instance.agent.residual_ns(),
        reasons=tuple(name for name in clock.REASONS if name in names),
    )


def _in_words(names: frozenset[str]) -> str:
    return "; ".join(clock.REASONS[name] for name in clock.REASONS if name in names) or "it jumped"
