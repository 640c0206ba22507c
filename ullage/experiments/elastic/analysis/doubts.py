"""What a reader should know before believing a figure: missing repetitions, clocks, limits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from ullage.analysis.comparison.rounding import quantity, share
from ullage.analysis.comparison.words import listed
from ullage.common.quantities import many
from ullage.common.text import clean
from ullage.experiments.elastic.analysis import reading
from ullage.experiments.elastic.analysis.contrasts import MARGIN, EnvironmentSide
from ullage.experiments.elastic.analysis.definitions import BY_NAME, DEFINITIONS
from ullage.experiments.elastic.analysis.reading import ElasticRun, Repetition
from ullage.experiments.elastic.analysis.summary import Summary
from ullage.experiments.elastic.analysis.words import counted, effect, effect_interval, figure
from ullage.experiments.elastic.folder import (
    FrontEnded,
    Lost,
    NotReady,
    Ready,
    Release,
    Requested,
    Retried,
    TakenBack,
)
from ullage.runs.records import Record
from ullage.stats import LEAST_PAIRS

MOST_NAMED: Final = 8
MATTERS: Final = 0.1
"""A bound matters that is more than this part of a figure, or moves a share by over a margin."""

TIME_SCALED: Final = "time-scaled"
"""The code with which a run may have warned of its scale itself."""

RARE: Final = 0.02
"""A share below this: see the coverages in docs/method/elastic-metrics.md."""


class ElasticDoubt(Record):
    """A reason to trust a figure less, or to know what it does not hold."""

    code: str
    message: str
    advice: str = ""


def doubts(
    run: ElasticRun, summary: Summary, sides: Sequence[EnvironmentSide]
) -> list[ElasticDoubt]:
    """Everything that speaks against the figures, or limits what they say."""
    return [
        *_missing(run),
        *_lost(run),
        *_untold(run),
        *_few(run, sides),
        *_rare(summary),
        *_floor(summary),
        *_clocks(summary),
        *_course(run),
        *_machines(run),
        *_unended(run),
        *_capped(run, summary),
        *_energies(run),
        *_injected(run),
        *_scaled(run),
        *(
            ElasticDoubt(code=clean(w.code, 60), message=clean(w.message, 600))
            for w in run.warnings
        ),
    ]


def _missing(run: ElasticRun) -> Iterator[ElasticDoubt]:
    """Repetitions without figures, each with its reason."""
    advice = {
        "invalid": "Their viewers did not come as they should have, so what was measured is not "
        "what was asked for. Use fewer viewers, or more shards or machines.",
        "failed": "Nothing of them is in any figure.",
        "unfinished": "The run ended before them; `--resume` takes it up again.",
    }
    for status, hint in advice.items():
        repetitions = [r for r in run.repetitions if r.status == status]
        if repetitions:
            head = f"{counted(len(repetitions))} {_how(status, len(repetitions))} no figures: "
            names = _first([_named(run, r) for r in repetitions])
            yield ElasticDoubt(
                code=f"repetition-{status}",
                message=f"{head}{names}.",
                advice=hint,
            )
    if run.finished is None:
        yield ElasticDoubt(
            code="not-finished", message="The run has no end: it was interrupted or runs."
        )
    nobody = [r for r in run.repetitions if r.counts and not r.sessions]
    if nobody:
        yield ElasticDoubt(
            code="nobody-came",
            message=f"In {counted(len(nobody))} no viewer came: there is no demand to follow.",
            advice="Raise the rate of arrivals, or the time in which they come.",
        )


def _how(status: str, number: int) -> str:
    """`failed and has`, `were invalid and have`."""
    single = number == 1
    verb = "" if status == "failed" else "was " if single else "were "
    return f"{verb}{status} and {'has' if single else 'have'}"


def _lost(run: ElasticRun) -> Iterator[ElasticDoubt]:
    """Viewers who were due, and of whom there is no record: the generator was killed."""
    for r in run.repetitions:
        due = r.viewers.due if r.counts and r.viewers is not None else None
        if due is not None and due != len(r.sessions):
            yield ElasticDoubt(
                code="viewers-missing",
                message=f"{_named(run, r)}: of {due:,} viewers who were due {len(r.sessions):,} "
                "have a record.",
                advice="Its figures are those of the viewers that have one.",
            )


def _untold(run: ElasticRun) -> Iterator[ElasticDoubt]:
    """Viewers who were gone, and whose places the front has kept."""
    good = [r for r in run.repetitions if r.counts]
    untold = [(r, n) for r in good if r.viewers is not None and (n := r.viewers.untold)]
    if untold:
        places = _first([f"{_named(run, r)}: {many(n, 'viewer')}" for r, n in untold])
        yield ElasticDoubt(
            code="viewers-untold",
            message="Viewers were gone and could not tell the front, which kept their places until "
            f"the end of the repetition: {places}.",
            advice="A node with such a place is never idle, and has room for fewer: supply, PcBl "
            "and the metrics of elasticity are off. Look why the front was away for so long.",
        )


def _first(names: Sequence[str]) -> str:
    """The first of them, and how many more there are."""
    more = len(names) - MOST_NAMED
    return "; ".join(names[:MOST_NAMED]) + (f"; and {more} more" if more > 0 else "")


def _named(run: ElasticRun, r: Repetition) -> str:
    why = f" ({clean(r.reason.message, 300)})" if r.reason else ""
    return f"{clean(run.label(r.environment), 60)} no. {r.number + 1}{why}"


def _energies(run: ElasticRun) -> Iterator[ElasticDoubt]:
    """Whether they were measured at all, and in all repetitions."""
    meter = reading.meter(run.resolved)
    if meter is None:
        return
    counting = [r for r in run.repetitions if r.counts]
    having = [r for r in counting if r.energy_j is not None]
    if having and meter.channels[0].method != "measured":
        yield ElasticDoubt(
            code="energy-not-measured",
            message=f"The energies are {meter.channels[0].method}, by the meter "
            f"{clean(meter.label, 60)} ({clean(meter.meter, 60)}): no instrument saw them.",
            advice="docs/guide/energy-meters.md has the meters that measure.",
        )
    if len(having) < len(counting):
        yield ElasticDoubt(
            code="energy-missing",
            message=f"{len(counting) - len(having)} of {len(counting)} repetitions have no energy: "
            "the meter was not read, or failed, in some of their time.",
            advice="Its file in `meters/` says when and why.",
        )


def _few(run: ElasticRun, sides: Sequence[EnvironmentSide]) -> Iterator[ElasticDoubt]:
    few = [side for side in sides if 0 < len(side.figures) < LEAST_PAIRS]
    if few:
        counts = listed(f"{clean(s.label, 60)} {len(s.figures)}" for s in few)
        consequence = "intervals are wide, and no verdict is given"
        if any(len(s.figures) == 1 for s in few):
            consequence += "; from one repetition there is no interval"
        yield ElasticDoubt(
            code="too-few-repetitions",
            message=f"Repetitions with figures: {counts}. With fewer than {LEAST_PAIRS} "
            f"{consequence}.",
            advice=f"Set `repetitions: {LEAST_PAIRS}` or more.",
        )
    if len(sides) > 1 and run.resolved.baseline is None:
        yield ElasticDoubt(
            code="no-baseline",
            message="No environment is the baseline, so nothing is compared.",
            advice="Name one in `baseline:`.",
        )


def _rare(summary: Summary) -> Iterator[ElasticDoubt]:
    """Shares so small that the t interval over repetitions is known to be too short."""
    shares = [
        f"{d.symbol} of {clean(e.label, 60)}"
        for e in summary.environments
        for d in (BY_NAME["blocked"], BY_NAME["affected"])
        if (x := e.estimate(d.name)) is not None and x.low is not None and 0 < x.mean < RARE
    ]
    if shares:
        yield ElasticDoubt(
            code="rare",
            message=f"Under {share(RARE)}, where few viewers make the figure: {listed(shares)}.",
            advice="An interval that says 95 % covers about 82 to 94 % there; more viewers in a "
            "repetition help more than more repetitions.",
        )


def _floor(summary: Summary) -> Iterator[ElasticDoubt]:
    """The baseline's second copy, where it is further from the first than chance should make it."""
    differing = [
        f"{BY_NAME[c.metric].title} ({effect(c)}, {effect_interval(c)})"
        for c in summary.contrasts
        if c.again and BY_NAME[c.metric].primary and c.low is not None and c.high is not None
        if not c.low <= (1.0 if c.kind == "ratio" else 0.0) <= c.high
    ]
    if differing:
        yield ElasticDoubt(
            code="again-differs",
            message=f"The baseline differs from its second copy, which is the same: "
            f"{listed(differing)}.",
            advice=f"Chance does so in {share(1 - summary.confidence)} of the metrics; else what "
            "differs by no more than this shows nothing.",
        )


def _clocks(summary: Summary) -> Iterator[ElasticDoubt]:
    """Metrics that the bound of the clocks could have made."""
    for e in summary.environments:
        if e.clock_share == 0:
            continue
        wide = [
            d.symbol or d.title
            for d in DEFINITIONS
            if d.two_clocks
            and (x := e.estimate(d.name)) is not None
            and e.clock_share > max(MARGIN / 2, MATTERS * abs(x.estimate))
        ]
        if wide:
            yield ElasticDoubt(
                code="clock-bound",
                message=f"The clocks of {clean(e.label, 60)} may stand so far apart that a share "
                f"of time is off by {figure(BY_NAME['timeshare_u'], e.clock_share)}: too wide for "
                f"{listed(wide)}.",
                advice="Do not use these; longer videos, or clocks on one host, narrow it.",
            )


def _course(run: ElasticRun) -> Iterator[ElasticDoubt]:
    """What went wrong in repetitions that still have figures."""
    kinds = (
        (FrontEnded, "front-restarted", "the front ended and was started again on its log"),
        (Lost, "node-lost", "a node that streamed was lost"),
        (NotReady, "node-not-had", "a node could not be allocated"),
        (Retried, "retried", "an allocation or a release was tried again"),
    )
    good = [r for r in run.repetitions if r.counts]
    for kind, code, event in kinds:
        yield from _happened(run, good, kind, code, event)
    left = [(r, act) for r in good for act in r.acts if isinstance(act, Release) and act.left]
    if left:
        leftovers = [
            f"{clean(run.label(r.environment), 60)} no. {r.number + 1}: {clean(act.left, 200)}"
            for r, act in left
        ]
        elsewhere = any(act.machine for _, act in left)
        yield ElasticDoubt(
            code="left-over",
            message="Not all of a released node could be removed: "
            f"{'; '.join(leftovers[:MOST_NAMED])}",
            advice="`ullage clean` removes it"
            + (", on another machine with `--node`." if elsewhere else "."),
        )
    notes = dict.fromkeys(
        clean(note, 300) for r in good if r.outcome is not None for note in r.outcome.notes
    )
    yield from (ElasticDoubt(code="note", message=note) for note in list(notes)[:MOST_NAMED])


def _happened(
    run: ElasticRun, good: Iterable[Repetition], kind: type, code: str, event: str
) -> Iterator[ElasticDoubt]:
    times: dict[str, int] = {}
    for r in good:
        number = sum(isinstance(act, kind) for act in r.acts)
        if number:
            label = clean(run.label(r.environment), 60)
            times[label] = times.get(label, 0) + number
    if times:
        counts = listed(f"{number} times in {label}" for label, number in times.items())
        yield ElasticDoubt(
            code=code,
            message=f"It happened that {event}: {counts}.".replace(" 1 times", " once"),
            advice="What it cost the viewers is in the figures.",
        )


def _machines(run: ElasticRun) -> Iterator[ElasticDoubt]:
    """Repetitions, or sides of a contrast, whose nodes stood on other machines."""
    courses: dict[str, Counter[tuple[str, ...]]] = {}
    for r in (r for r in run.repetitions if r.counts):
        if names := {act.machine for act in r.acts if isinstance(act, Ready) and act.machine}:
            courses.setdefault(r.environment, Counter())[tuple(sorted(names))] += 1
    if len({names for counts in courses.values() for names in counts}) < 2:
        return
    where = [
        f"{clean(run.label(key), 60)} on {listed(clean(name, 60) for name in names)} "
        f"in {many(number, 'repetition')}"
        for key, counts in courses.items()
        for names, number in counts.most_common()
    ]
    yield ElasticDoubt(
        code="other-machines",
        message=f"Not all repetitions had nodes on the same machines: {_first(where)}.",
        advice="What differs may be the machines: one was lost, had no room or could make no node, "
        "or the nodes were too few for all.",
    )


def _unended(run: ElasticRun) -> Iterator[ElasticDoubt]:
    """Nodes whose end is not in the log, or a log that ends within a line."""
    torn = []
    for r in (r for r in run.repetitions if r.counts):
        begun = {act.node for act in r.acts if isinstance(act, Requested | Ready)}
        ended = {act.node for act in r.acts if isinstance(act, Release | NotReady | TakenBack)}
        if missing := begun - ended:
            torn.append(f"{_named(run, r)} ({many(len(missing), 'node')})")
        elif r.torn:
            torn.append(_named(run, r))
    if torn:
        yield ElasticDoubt(
            code="log-not-whole",
            message="The log of the nodes ends too early, or does not say what became of all that "
            f"were asked for: {_first(torn)}.",
            advice="Such a node counts as there until the end, one whose line is lost not at all: "
            "figures of supply and allocation are off. Run it again, or use a copy that is whole.",
        )


def _capped(run: ElasticRun, summary: Summary) -> Iterator[ElasticDoubt]:
    """Who is blocked at the cap is not blocked by an allocation's latency."""
    for e in summary.environments:
        most, reached = _cap(run, e.key), e.estimate("nodes_most")
        if most is not None and reached is not None and reached.most >= most:
            yield ElasticDoubt(
                code="cap-reached",
                message=f"In {clean(e.label, 60)} all {most} nodes that the plan allows were "
                "allocated at once: who was blocked then may have been blocked by the cap.",
                advice="Raise the cap of nodes, or read PcBl as that of a service of that size.",
            )


def _cap(run: ElasticRun, environment: str) -> int | None:
    most = run.resolved.settings[environment].machine.get("max_nodes")
    return most if isinstance(most, int) else None


def _injected(run: ElasticRun) -> Iterator[ElasticDoubt]:
    """Delays that the plan asks for."""
    delays = [
        f"{clean(run.label(key), 60)} for {quantity(setting.boot_delay_s, 's')}"
        for key, setting in run.resolved.settings.items()
        if setting.boot_delay_s > 0
    ]
    delays += [
        f"{clean(run.label(key), 60)} to {quantity(own.mean_s, 's')} ± "
        f"{quantity(own.deviation_s, 's')} from its request"
        for key, setting in run.resolved.settings.items()
        if (own := setting.allocation) is not None
    ]
    if delays:
        yield ElasticDoubt(
            code="boot-delay",
            message="Every node was held back on purpose before it took viewers, in real time: "
            f"{listed(delays)}.",
            advice="TaR holds it; the stage `injected` shows it apart.",
        )


def _scaled(run: ElasticRun) -> Iterator[ElasticDoubt]:
    scale = run.resolved.time_scale
    if scale == 1 or any(w.code == TIME_SCALED for w in run.warnings):
        return
    yield ElasticDoubt(
        code=TIME_SCALED,
        message=f"The users' time ran {scale:g} times as fast: videos, patience and arrivals are "
        "shorter by that; nodes, the network and the programs are not.",
        advice="An allocation of 1 s weighs as much as one of "
        f"{quantity(scale, 's')} would. Start-up of a connection weighs more than it should.",
    )
