"""An instance's clock, as the controller knows it: what it said, each look at it, and the map.

The controller's clock is the global one. An instance on the same kernel reads the controller's own
line of the same counter, and then both show the same time. All others are looked at by RGAP
exchanges over the agent's channel: at the start, whenever they go on after a halt, and after each
trial. In between a trial's two looks, instants are corrected by the chord.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal, Protocol

from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.environments.agent.frames import FrameError, Message
from ullage.host import clock
from ullage.runs.records import LATEST_NS

WORST_PPB: Final = 500_000
"""Two clocks' rates differ by no more: two oscillators within 100 ppm of each other, and what the
kernel of an emulated guest makes of its counter's rate."""

_PATIENCE_NS: Final = 10_000_000_000


def _rules(time_ns: int) -> clock.Rules:
    return clock.Rules(
        dropped=2,
        spread_ns=5_000,
        smallest=8,
        messages=120,
        time_ns=time_ns,
        patience_ns=_PATIENCE_NS,
        reply_ns=_PATIENCE_NS,
        worst_ppb=WORST_PPB,
    )


@cache
def usual_rules() -> clock.Rules:
    """For a channel that loses nothing, between two that the scheduler has to wake up.

    What counts is the least round trip, and one like it comes soon. Over pipes ten exchanges in
    0.7 ms are alike; from an emulated guest, three times as long for three times as many narrow
    the bound by 9 %.
    """
    return _rules(8_000_000)


WIDE_NS: Final = 500_000
"""A bound that is wider than this says that somebody did not get a processor in time."""


@cache
def patient_rules() -> clock.Rules:
    """For a second attempt then."""
    return _rules(50_000_000)


@cache
def one_exchange() -> clock.Rules:
    """To see that a shared line is shared."""
    return clock.Rules(
        dropped=0,
        smallest=2,
        messages=2,
        patience_ns=_PATIENCE_NS,
        reply_ns=_PATIENCE_NS,
        worst_ppb=WORST_PPB,
    )


@cache
def _drift() -> clock.Drift:
    return clock.Drift(worst_ppb=WORST_PPB)


UNPROMISED_NS: Final = 100_000
"""How far threads on two cores may see the time apart where nobody has compared the cores: a thread
that is off the kernel's clock by so much says `stepped`."""


class Aside(Protocol):
    """Another way to an instance's clock than its channel: to one that shows the same time."""

    @property
    def apart_ns(self) -> int:
        """The two may see the time so far apart."""

    async def exchange(self) -> clock.Outcome | None:
        """Exchange clocks, from now on; None where nothing comes back any more.

        ContradictionError where what is answered cannot be.
        """


BREAKS: Final = frozenset({"stepped", "suspended", "moved", "adrift"})
"""What has happened to a clock for which this is said anew: instants from before and after do not
belong together."""

LookReason = Literal["connect", "thaw", "after"]

_BOOT_ID: Final = re.compile(r"[0-9a-f-]{36}")
_LINE: Final = re.compile(r"[0-9a-f]{96}")
"""The bytes of a line in hexadecimal."""


@dataclass(frozen=True)
class ClockClaims:
    """What an agent says of its clock in `hello`."""

    source: str
    ordered_ns: int | None
    """Its threads see the time no further apart; None: not promised."""
    reasons: tuple[str, ...]
    shared: bool
    """It has taken over the controller's line."""

    @classmethod
    def read(cls, hello: Message) -> ClockClaims:
        """Out of the answer; FrameError when it is none of the protocol."""
        claims = Message("hello", hello.mapping("clock"))
        source = claims.text("source")
        if source not in {"counter", "monotonic-raw"}:
            raise FrameError("hello: the clock has an unknown source")
        shared = claims.fields.get("shared")
        if not isinstance(shared, bool):
            raise FrameError("hello: shared is neither true nor false")
        apart_ns = claims.optional_integer("ordered_ns", 0, UNPROMISED_NS)
        return cls(source, apart_ns, reasons(claims), shared)


def offer(boot_id: str, line: bytes) -> dict[str, Any]:
    """What an agent on this kernel need not find out: our line, and how fast the counter goes."""
    offered: dict[str, Any] = {"boot_id": boot_id, "line": line.hex()}
    rate = clock.rate()
    if rate.source == "fitted":
        offered["rate"] = rate.model_dump(include={"millihertz", "sigma_ppb", "bound_ppb"})
    return offered


def own_line(hello: Message) -> dict[str, str] | None:
    """`boot_id` and `line` of the agent's clock, for programs inside; FrameError if they are none.

    None where it tells none: then nobody else in there shows its time.
    """
    offered = Message("hello", hello.mapping("clock")).fields.get("line")
    if offered is None:
        return None
    fields = Message("hello", offered if isinstance(offered, dict) else {})
    line = {"boot_id": fields.text("boot_id"), "line": fields.text("line")}
    if not (_BOOT_ID.fullmatch(line["boot_id"]) and _LINE.fullmatch(line["line"])):
        raise FrameError("hello: the line of the clock cannot be one")
    return line


def reasons(message: Message) -> tuple[str, ...]:
    """The reasons that a message names, in the catalogue's order; FrameError for others."""
    named = message.fields.get("reasons")
    names = named if isinstance(named, list) else [None]
    if not all(isinstance(name, str) and name in clock.REASONS for name in names):
        raise FrameError(f"{message.op}: reasons is not a list of known reasons")
    return tuple(name for name in clock.REASONS if name in names)


@dataclass(frozen=True)
class Look:
    """One synchronisation: how the instance's clock lay to the controller's."""

    number: int
    """Of this agent's, from 1."""
    why: LookReason
    shared: bool
    fix: clock.Fix
    """`local_ns` is the controller's, and the offset is what the instance's clock is ahead."""
    messages: int
    took_ns: int
    reasons: tuple[str, ...]
    """What the instance says of its clock."""
    aside: bool = False
    """By the other way, and by one exchange over the channel, which agrees with that."""

    def mirrored(self) -> clock.Fix:
        """The same, seen from the instance: for the way from its instants to the controller's."""
        fix = self.fix
        # When it was is not known better than the offset, while the offset moves.
        more_ns = fix.half_ns * WORST_PPB // 1_000_000_000 + 2
        return clock.Fix(
            local_ns=fix.local_ns + fix.offset_ns,
            offset_ns=-fix.offset_ns,
            half_ns=fix.half_ns + more_ns,
            sure_ns=fix.sure_ns + more_ns,
            noise_ns=fix.noise_ns + more_ns,
            rtt_ns=fix.rtt_ns,
        )


@dataclass(frozen=True)
class Instant:
    """An instance's instant on the controller's clock."""

    ns: int
    hard_ns: int
    """It is not further off, as long as the two rates keep within WORST_PPB of each other."""
    sure_ns: int
    """The same in 99.9 % of all cases, if rates wander by less than 1 ppm."""


class ClockMap:
    """How an instance's clock lies to the controller's: by one look, or between two."""

    def __init__(self, first: Look, last: Look | None = None, *, apart_ns: int = 0) -> None:
        """`apart_ns`: how far the cores of both may see the time apart, if the line is shared.

        ContradictionError when the two looks cannot both be true.
        """
        self.first, self.last, self.apart_ns = first, last, apart_ns
        self._by: clock.Global | clock.Correction | None = None
        if first.shared:
            return
        if last is None:
            self._by = clock.Global.once(first.mirrored(), _drift())
        else:
            self._by = clock.Correction(first.mirrored(), last.mirrored(), _drift())

    @property
    def shared(self) -> bool:
        """Both show the same time."""
        return self.first.shared

    @property
    def offset_ns(self) -> int:
        """What the controller's clock was ahead of the instance's, at the last look."""
        return 0 if self.shared else -(self.last or self.first).fix.offset_ns

    @property
    def bound_ns(self) -> int:
        """The offset was not further off, then."""
        return self.apart_ns if self.shared else (self.last or self.first).fix.half_ns

    def closed_by(self, last: Look) -> ClockMap:
        """The better map of what lies between, now that there is another look."""
        return ClockMap(self.first, last, apart_ns=self.apart_ns)

    def to_controller(self, agent_ns: int) -> Instant:
        """An instant of the instance on the controller's clock; FrameError where it can be none."""
        if self._by is None:
            instant = Instant(agent_ns, self.apart_ns, self.apart_ns)
        else:
            at = self._by.at(agent_ns)
            if at.hard_ns is None or at.bound_ns is None:
                raise FrameError("an instant before all time")
            hard_ns, bound_ns = (min(ns, LATEST_NS - 1) for ns in (at.hard_ns, at.bound_ns))
            instant = Instant(at.ns, hard_ns, bound_ns)
        if not 0 <= instant.ns < LATEST_NS:
            raise FrameError("an instant outside of this machine's time")
        return instant

    def to_agent(self, controller_ns: int) -> int:
        """An instant of the controller on the instance's clock."""
        return max(0, controller_ns - self.offset_ns)


class ClockLooks:
    """All looks at one clock since it last stood still, for the residual."""

    MOST: Final = 64
    """So many are held against the chord; of a longer series every other one is dropped."""

    def __init__(self) -> None:
        self._fixes: list[clock.Fix] = []

    def add(self, look: Look) -> None:
        """Go on with it, or begin anew where it cannot belong to all that came before.

        To all: beside a first look of long ago, a halt of milliseconds would pass for drift.
        """
        fix = look.mirrored()
        if not all(agree(before, fix) for before in self._fixes):
            self._fixes.clear()
        self._fixes.append(fix)
        if len(self._fixes) > self.MOST:
            self._fixes = [self._fixes[0], *self._fixes[2:-1:2], fix]

    def residual_ns(self) -> int | None:
        """How far the looks in between are off the chord; None when there are none."""
        if len(self._fixes) < 3:
            return None
        chord = clock.Correction(self._fixes[0], self._fixes[-1], _drift())
        for fix in self._fixes[1:-1]:
            chord.check(fix)
        return chord.residual_ns


def knows_nothing(outcome: clock.Outcome) -> bool:
    """The instance says of itself that it is further off than any that is well.

    What it says widens the bound, and within that nothing that it tells can be refused.
    """
    fix = outcome.fix
    ways_ns = fix.rtt_ns // 2 + outcome.took_ns * WORST_PPB // 1_000_000_000
    most_ns = ways_ns + UNPROMISED_NS + 1_000
    return fix.half_ns > most_ns or abs(fix.offset_ns) >= LATEST_NS


def widened(fix: clock.Fix, apart_ns: int) -> clock.Fix:
    """The same of a clock that may see the time so far apart from the one that was asked."""
    return clock.Fix(
        local_ns=fix.local_ns,
        offset_ns=fix.offset_ns,
        half_ns=fix.half_ns + apart_ns,
        sure_ns=fix.sure_ns + apart_ns,
        noise_ns=fix.noise_ns + apart_ns,
        rtt_ns=fix.rtt_ns,
    )


def agree(first: clock.Fix, second: clock.Fix) -> bool:
    """Both can be true of two clocks."""
    try:
        clock.Correction(first, second, _drift())
    except clock.ContradictionError:
        return False
    return True


def apart_ns(claims: ClockClaims, facts: dict[str, Any]) -> int:
    """How far the cores of the controller and of an instance may see one line's time apart."""
    own, theirs = clock.promise().ordered_ns, claims.ordered_ns
    if own is None or theirs is None:
        return UNPROMISED_NS
    compared = clock.facts().synchrony
    cores = set(facts.get("cpus_allowed") or ())
    if clock.promise().source == "counter" and (
        compared is None or not cores or not cores <= set(compared.cpus)
    ):
        return UNPROMISED_NS
    return max(own, theirs)


def check_shared(agent: str, look: Look, apart: int) -> None:
    """AGENT_CLOCK unless a look at a clock that is said to be ours agrees with that."""
    fix = look.fix
    if abs(fix.offset_ns) > fix.half_ns + apart:
        reason = (
            f"it says that it shows this host's time, and is {fix.offset_ns} ns off it"
            f" where {fix.half_ns + apart} ns are possible"
        )
        raise UllageError(errors.AGENT_CLOCK, agent=agent, reason=reason)
