"""One turn: a trial, or the two of a duet at the same time; each checked and parsed.

Services come up, everybody else starts at one agreed instant. With iterations the work is done
several times in a row in the same instances, services and all, each time at an instant of its own.
Nothing here decides whether a figure is good: `check` of the workload does, and a trial that fails
it has a reason and no figures.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ullage.common.errors import (
    AGENT_CLOCK,
    AGENT_LOST,
    AGENT_SILENT,
    AGENT_SLOW,
    NODE_ALLOCATION,
    RUN_DISK_FULL,
    UllageError,
)
from ullage.common.text import printable
from ullage.engine import trial_clocks
from ullage.engine.program import Part, TrialFailedError
from ullage.engine.trial import Attempt, StartAndEnd
from ullage.host import clock
from ullage.meters import APART, Scene, metered
from ullage.meters.guest import Guest
from ullage.meters.perf.inside import GuestSamples
from ullage.meters.perf.sampler import Watch
from ullage.runs.events import Reason, RoleRecord, Trial
from ullage.runs.records import Metered
from ullage.runs.writer import now_ns
from ullage.workloads.base import InvalidTrialError

if TYPE_CHECKING:
    from ullage.engine.fleet import Fleet
    from ullage.environments import Instance
    from ullage.plan.matrix import Case
    from ullage.plan.schedule import Turn

LEAD_NS: Final = 2_000_000
"""The agreed instant lies so far ahead, plus ten round trips of the slowest instance. Who starts
alone has nobody to agree with."""
LEAD_EACH_NS: Final = 1_000_000
"""And so much for each program: they are asked for one after the other, and forked on one CPU in
the worst case. Whoever hears of the instant too late begins late."""


_ENDS_THE_RUN: Final = (RUN_DISK_FULL, NODE_ALLOCATION)
"""No trial after this one could have figures; `--resume` goes on where there is room again."""
_UNHEARD: Final = {kind.code for kind in (AGENT_CLOCK, AGENT_LOST, AGENT_SILENT, AGENT_SLOW)}

LEAST_OVERLAP: Final = 0.9
"""The two of a duet overlap for so much of the shorter one, or neither has figures. What ran alone
was not slowed by the neighbour: up to a tenth of that, a figure is off by a tenth of what the
neighbour costs. From one agreed instant they miss it only where a program did not start, or was
held up for long."""


async def run(
    fleet: Fleet,
    case: Case,
    turn: Turn,
    folders: Sequence[Path],
    *,
    seed: int,
    iterations: int = 1,
) -> list[Trial]:
    """Run the trials of one turn. Whatever goes wrong inside one becomes its reason."""
    began, epoch_ns = clock.ordered_ns(), now_ns()
    attempts = [
        Attempt(fleet, case, slot, folder, seed, iterations)
        for slot, folder in zip(turn, folders, strict=True)
    ]
    meters: list[Metered] = [{} for _ in attempts]
    watches: list[Watch] = []
    insides: list[GuestSamples] = []
    try:
        with _blamed(*attempts):
            own = trial_clocks.Own.now()
            if await _all_at_once(attempts, Attempt.wake):
                if fleet.sampler and not fleet.needs.environment(turn[0].environment).away:
                    watches = [fleet.sampler.watch(_scene(attempt)) for attempt in attempts]
                meters = await _rounds(attempts, iterations, insides)
            await _all_at_once(attempts, Attempt.conclude, own)
        await _write(attempts, insides)
        _judge_overlap(attempts)
        # Before what does not answer is removed: then nobody could tell why.
        if len(attempts) == 1:  # who is alone needs no task of its own
            await _blame_node(attempts[0])
        else:
            await asyncio.gather(*(_blame_node(attempt) for attempt in attempts))
    except asyncio.CancelledError:
        raise  # the run ends: its instances are removed next, with all that runs in them
    except BaseException:
        await _rest(fleet, attempts, insides)
        raise
    await _rest(fleet, attempts, insides)
    trials = [
        _trial(attempt, began, epoch_ns, readings)
        for attempt, readings in zip(attempts, meters, strict=True)
    ]
    fleet.note(trials)
    if fleet.sampler:
        for watch, attempt, done in zip(watches, attempts, trials, strict=False):
            fleet.sampler.note(watch, attempt.folder, done.start_ns, done.end_ns)
        await fleet.sampler.settle()
    return trials


async def _rest(fleet: Fleet, attempts: Sequence[Attempt], insides: Sequence[GuestSamples]) -> None:
    """End what is left of the programs, and freeze the instances."""
    await _end(insides)
    if unended := [attempt.stop() for attempt in attempts if attempt.unended()]:
        await asyncio.gather(*unended)
    await fleet.freeze([team for attempt in attempts for team in attempt.teams])


async def _blame_node(attempt: Attempt) -> None:
    """Where an agent does not answer because its whole machine does not, that is the reason."""
    if attempt.reason is None or attempt.reason.code not in _UNHEARD:
        return
    # Of the environment: a trial whose instances could not be woken has none of its own.
    others = [member for team in attempt.teams for member in team.members]
    for instance in (*attempt.fleet.instances(attempt.slot.environment), *others):
        if why := await instance.why_gone():
            attempt.reason = Reason(code=why.code, message=printable(why.message, 2000))


def _scene(*attempts: Attempt) -> Scene:
    workers = [instance for attempt in attempts for instance in attempt.workers()]
    names = [instance.name for instance in workers]
    guests = [instance.name for instance in workers if instance.own_kernel]
    ends = [
        instance.name for attempt in attempts for team in attempt.teams for instance in team.ends
    ]
    return Scene(attempts[0].fleet.tag, tuple(names), tuple(ends), tuple(guests))


async def _rounds(
    attempts: Sequence[Attempt], iterations: int, insides: list[GuestSamples]
) -> list[Metered]:
    """All iterations, or up to the first that goes wrong; what the meters saw of each attempt.

    Nobody goes on before all are ready: the one that ends first waits. insides: takes what looks
    into the guests of each attempt.
    """
    readings: Metered = {}
    apart: list[Metered] = [{} for _ in attempts]
    guests = [Guest() for _ in attempts]
    members = [one for attempt in attempts for team in attempt.teams for one in team.members]
    node = attempts[0].fleet.metered_on(members)
    async with AsyncExitStack() as meters:
        for number in range(iterations):
            if not await _all_at_once(attempts, Attempt.begin):
                break
            if number == 0:
                insides += await _look_inside(attempts)
                await _ask(guests, attempts)
                for guest in guests:
                    guest.begin()
                if node is not None:
                    watched = node.metered(_scene(*attempts))
                    readings = await meters.enter_async_context(watched)
                    apart = [
                        meters.enter_context(metered(APART, _scene(attempt)))
                        for attempt in attempts
                    ]
            starters = sum(attempt.starters() for attempt in attempts)
            together = starters > 1
            rtt_ns = max(attempt.rtt_ns() for attempt in attempts)
            instant = clock.ordered_ns() + (lead_ns(starters, rtt_ns) if together else 0)
            await _all_at_once(attempts, Attempt.work, instant, together)
            if number == iterations - 1:
                await meters.aclose()
                await _ask(guests, attempts)
                await _end(insides)
            if not await _all_at_once(attempts, Attempt.end, instant):
                break
    return [
        {**readings, **own, **({Guest.name: counters} if (counters := guest.end()) else {})}
        for guest, own in zip(guests, apart, strict=True)
    ]


def lead_ns(starters: int, rtt_ns: int) -> int:
    """So far ahead an instant has to lie that so many programs hear of in time."""
    return LEAD_NS + LEAD_EACH_NS * starters + 10 * rtt_ns


async def _ask(guests: Sequence[Guest], attempts: Sequence[Attempt]) -> None:
    """Ask every guest of each attempt for its counters."""
    for guest, attempt in zip(guests, attempts, strict=True):
        if inside := [instance.agent.get for instance in _guests(attempt)]:
            await guest.ask(inside)


def _guests(attempt: Attempt) -> list[Instance]:
    return [one for one in attempt.workers() if one.own_kernel and one.alive]


async def _look_inside(attempts: Sequence[Attempt]) -> list[GuestSamples]:
    """Have perf look in the guests of each attempt, where the plan asks for it."""
    sampler = attempts[0].fleet.inside
    if sampler is None:
        return []
    return await asyncio.gather(*(sampler.begin(_guests(attempt)) for attempt in attempts))


async def _end(insides: Sequence[GuestSamples]) -> None:
    """Have perf look in the guests no longer."""
    if insides:
        await asyncio.gather(*(inside.end() for inside in insides))


async def _write(attempts: Sequence[Attempt], insides: Sequence[GuestSamples]) -> None:
    """Keep what was seen in the guests of the trials that went well."""
    for attempt, inside in zip(attempts, insides, strict=False):
        spans = [span for span in attempt.spans() if span is not None]
        if attempt.status == "ok" and spans:
            start_ns, end_ns = min(span[0] for span in spans), max(span[1] for span in spans)
            await inside.write(attempt.folder, start_ns, end_ns)


async def _all_at_once(
    attempts: Sequence[Attempt], step: Callable[..., Awaitable[None]], *arguments: Any
) -> bool:
    """A step of all that have not failed, at the same time; none waits for one that fails.

    True when all is well.
    """

    async def guarded(attempt: Attempt) -> None:
        with _blamed(attempt):
            await step(attempt, *arguments)

    todo = [guarded(attempt) for attempt in attempts if attempt.status != "failed"]
    if len(todo) == 1:  # who is alone needs no task of its own
        await todo[0]
    else:
        for result in await asyncio.gather(*todo, return_exceptions=True):
            if isinstance(result, BaseException):
                raise result
    return not any(attempt.reason for attempt in attempts)


@contextmanager
def _blamed(*attempts: Attempt) -> Iterator[None]:
    """A failure within is the reason why these trials have no figures; some end the run."""
    try:
        yield
    except TrialFailedError as error:
        blame = "failed", error.reason.code, error.reason.message
    except InvalidTrialError as error:
        blame = "invalid", error.code, str(error)
    except UllageError as error:
        if error.kind in _ENDS_THE_RUN:
            raise
        blame = "failed", error.code, error.message
    else:
        return
    for attempt in attempts:
        attempt.blame(*blame)


def _judge_overlap(attempts: Sequence[Attempt]) -> None:
    """The two of a duet have figures only if they ran beside each other, in every iteration."""
    if len(attempts) == 1:
        return
    for first, second in zip(*(attempt.spans() for attempt in attempts), strict=False):
        if (share := _overlap(first, second)) < LEAST_OVERLAP:
            for attempt in attempts:
                attempt.blame(
                    "invalid",
                    "not-beside",
                    f"{share:.0%} of the shorter of the two ran beside {attempt.slot.partner}: "
                    f"at least {LEAST_OVERLAP:.0%} must",
                )


def _overlap(first: StartAndEnd | None, second: StartAndEnd | None) -> float:
    """Share of the shorter of two spans that lies within the other."""
    if first is None or second is None:
        return 0.0
    shorter = min(end - start for start, end in (first, second))
    return max(0, min(first[1], second[1]) - max(first[0], second[0])) / max(1, shorter)


def _trial(attempt: Attempt, began: int, epoch_ns: int, readings: Metered) -> Trial:
    """What is kept of it, whatever became of it."""
    ended = clock.ordered_ns()
    slot, ok, failed = attempt.slot, attempt.status == "ok", attempt.status == "failed"
    parts = [part for round_ in attempt.rounds for part in round_]
    spans = [span for span in attempt.spans() if span is not None]
    start = min((first for first, _ in spans), default=began)
    end = max((last for _, last in spans), default=ended)
    return Trial.model_validate(
        {
            "trial": slot.trial,
            "block": slot.block,
            "order": slot.order,
            "position": slot.position,
            "environment": slot.environment,
            "workload": slot.workload,
            "generation": attempt.fleet.generation,
            "partner": slot.partner,
            "side": slot.side,
            "status": attempt.status,
            "reason": attempt.reason,
            "epoch_ns": epoch_ns + start - began,
            "start_ns": start,
            "end_ns": end,
            "spread_ns": attempt.spread_ns(),
            "overhead_s": (ended - began - (end - start if spans else 0)) / 1e9,
            "metrics": attempt.metrics if ok else {},
            "iterations": attempt.iteration_figures() if ok and attempt.iterations > 1 else (),
            "instances": attempt.instances if ok else {},
            "steps": attempt.steps if ok else {},
            "facts": attempt.facts,
            "roles": tuple(_record(part, attempt.folder) for part in parts if part.finished),
            "clocks": {} if failed else attempt.clocks,
            "meters": {} if failed else readings,
        }
    )


def _record(part: Part, folder: Path) -> RoleRecord:
    done = part.finished
    assert done is not None
    raw = f"trials/{folder.name}/{part.name}"
    return RoleRecord(
        role=part.name,
        instance=part.instance.name,
        argv=part.task.argv,
        status=done.status,
        signal=done.signal,
        start_ns=done.start_ns,
        end_ns=done.end_ns,
        late_ns=done.late_ns,
        start_local_ns=done.start_local_ns,
        end_local_ns=done.end_local_ns,
        clock_bound_ns=done.clock_bound_ns,
        clock_sure_ns=done.clock_sure_ns,
        usage=done.usage,
        stdout=f"{raw}.stdout",
        stderr=f"{raw}.stderr",
    )
