"""The answer in plain words. No sentence says more than its interval.

Ratios are factors, above 1 is worse: of a rate that has fallen to 3/4 it can be asked whether it is
25 % or 33 % worse, of 1.33× it cannot. An emulated environment is called by its label, which says
so; nuisances that the plan allowed to be unequal, and that a duet ran side by side, stand in every
sentence. Figures are rounded by their intervals.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from ullage.analysis.comparison.model import Analysis, Comparison, DoubtCode, ResourceSummary, apart
from ullage.analysis.comparison.pairing import excludes_one
from ullage.analysis.comparison.rounding import inverse, ratio, share
from ullage.analysis.comparison.words import (
    RESOURCES,
    SIDE_BY_SIDE,
    Subject,
    between,
    blocks,
    capital,
    counted,
    floor_words,
    listed,
    makings,
    name,
    ratio_words,
    settles,
    systematic,
    unpaired,
)
from ullage.common.text import clean
from ullage.stats import Why
from ullage.stats.memory import LEAST as MEMORY_LEAST

SERIOUS: Final[frozenset[DoubtCode]] = frozenset(
    {
        "drift",
        "robust-disagrees",
        "bootstrap-disagrees",
        "curve-mixed",
        "curve-ragged",
        "some-failures",
        "metric-missing",
        "autocorrelated",
        "bimodal",
        "warm-up",
        "throttled",
        "frequency",
        "coarse",
        "systematic",
        "no-again",
        "totals-disagree",
        "again-differs",
    }
)
"""Doubts that a decided figure may not survive: the answer itself names them."""
DECIDED: Final = ("worse", "better", "equivalent")
MOST_NAMED: Final = 3
MOST_TOGETHER: Final = 8
"""Figures without a verdict for one reason that are named."""
LONGEST_REASON: Final = 600
"""Characters of an error that are told where nothing ran."""


def answer(analysis: Analysis, *, strong: bool = False) -> list[str]:
    """The run in a few sentences: one for each environment, then what to know beside it.

    strong: what matters most stands between `**`, for a page to set in bold.
    """
    if not analysis.trials:
        return [nothing_ran(analysis)]
    if not analysis.comparisons:
        return [f"This run compares nothing with {analysis.baseline_label}."]
    if not analysis.resources:
        return ["No metric of this run is a primary one: nothing is judged."]
    environments = dict.fromkeys(r.environment for r in analysis.resources)
    return [
        *copies_differ(analysis),
        *(
            _environment(analysis, [r for r in analysis.resources if r.environment == key], strong)
            for key in environments
        ),
        *asides(analysis),
    ]


def nothing_ran(analysis: Analysis) -> str:
    """Why a run has not a single trial, as its journal says."""
    stop = analysis.stop
    if stop.reason is None:
        return "No trial has ended: the run goes on, or was killed before one did."
    if stop.reason == "interrupted":
        return "No trial ran: the run was interrupted before its first one ended."
    why = " ".join(clean(stop.message, LONGEST_REASON).replace("**", "").split()).rstrip(".")
    unsaid = "the run failed without a word" if stop.reason == "failed" else "the run had ended"
    return f"No trial ran: {why or unsaid}."


def asides(analysis: Analysis) -> list[str]:
    """Doubts about what is decided, the noise floor, what so few blocks cannot show, old rules."""
    sentences = (
        care(analysis),
        floor_sentence(analysis),
        memory_sentence(analysis),
        rules_sentence(analysis),
    )
    return [sentence for sentence in sentences if sentence is not None]


def copies_differ(analysis: Analysis) -> list[str]:
    """Where two copies of one environment differ by more than chance: that comes first."""
    copies = [
        f"{c.baseline_label} in {c.workload_title} ({ratio_words(c.interval)})"
        for c in apart(analysis.again)
        if c.interval is not None
    ]
    if not copies:
        return []
    return [
        f"Two copies of the same environment differ: {_few(copies)}. The apparatus prefers one of "
        "them; what is called a difference below differs from both."
    ]


def _few(items: Sequence[str]) -> str:
    """The first ones, and how many more."""
    if len(items) <= MOST_NAMED:
        return listed(items)
    return f"{', '.join(items[:MOST_NAMED])} and {len(items) - MOST_NAMED} more"


def memory_sentence(analysis: Analysis) -> str | None:
    """What under so many blocks nobody can tell."""
    numbers = [c.pairs + c.dropped for c in analysis.primary() if c.verdict in DECIDED]
    fewest = min(numbers, default=MEMORY_LEAST)
    if analysis.blocks_each or fewest >= MEMORY_LEAST:
        return None
    return (
        f"From {blocks(fewest)} nobody can tell whether an environment keeps a state from "
        "block to block, which would make its intervals too short: instances made anew "
        "(`repeat: {instances: N}`) would show it."
    )


def rules_sentence(analysis: Analysis) -> str | None:
    """Which verdicts the ullage that made the run had given otherwise, and why they are not now."""
    if not analysis.rejudged:
        return None
    changed = [
        f"{r.environment_label} in {r.workload_title} was {r.before}, is {r.now} "
        f"({CHANGED_FOR.get(r.why, r.why)})"
        for r in analysis.rejudged
    ]
    return f"Verdicts have other rules than when this run was made: {_few(changed)}."


CHANGED_FOR: Final[dict[Why, str]] = {
    "second-copy": "against a second copy it does not hold",
    "unseen": "slow trials may have been missed",
    "correction": "each of the questions must now be surer",
    "interval-too-wide": "a state kept between blocks, or both copies, make it less sure",
    "below-floor": "two equal environments differ as much",
    "losses": "what was lost could overturn it",
    "holes": "places of the curve have too few pairs",
    "no-copy": "the second copy gave no figures",
    "systematic": "what the instruments may be wrong by is now added to the interval",
    "floor-biased": "two equal environments differ",
    "difference": "it holds against both copies",
    "within-margin": "it holds against both copies",
}
"""Why an older ullage gave another verdict, by what the new one rests on."""


@dataclass(frozen=True)
class _Phrase:
    """One figure of a sentence."""

    kind: Literal["worse", "better", "equivalent", "inconclusive", "none"]
    where: str
    subject: Subject


@dataclass
class _Teller:
    """Says confidence and number of blocks once, and again only where they differ."""

    confidence: float
    stated: str | None = field(default=None)

    def basis(self, subject: Subject, interval: str, extra: str = "") -> str:
        """What stands in the bracket: `95 % interval 1.27 to 1.36, 12 blocks`."""
        rests, first = counted(subject), self.stated is None
        text = f"{share(self.confidence)} interval {interval}" if first else interval
        if rests != self.stated:
            text = f"{text}, {rests}"
        self.stated = self.stated or rests
        return f"{text}{extra}"

    def together(self, parts: Sequence[_Phrase], plural: str) -> tuple[list[str], str]:
        """For figures that share a bracket: their names, and the bracket with its space."""
        names = [part.where for part in parts]
        rests, first = [counted(part.subject) for part in parts], self.stated is None
        if set(rests) == {self.stated}:
            return names, ""
        confidence = f"{share(self.confidence)} {plural}"
        if len(set(rests)) == 1:
            self.stated = self.stated or rests[0]
            return names, f" ({confidence}, {rests[0]})" if first else f" ({rests[0]})"
        # Something differs each time, so what follows must say it again.
        self.stated = self.stated or ""
        counts = [f"{where} ({number})" for where, number in zip(names, rests, strict=True)]
        return counts, f" ({confidence})" if first else ""


def _environment(analysis: Analysis, resources: Sequence[ResourceSummary], strong: bool) -> str:
    """One environment: what is worse, better, the same, and what is open."""
    first = resources[0]
    label = _label(first)
    parts = [part for r in resources for part in _parts(analysis, r)]
    tell = _Teller(analysis.confidence)
    decided = [
        *_differences(analysis, parts, tell, strong),
        *_equivalents(analysis, parts, tell, strong),
    ]
    lead = "On these machines" if analysis.several_machines else "On this machine"
    if analysis.design == "duet":
        lead = f"{lead}, {SIDE_BY_SIDE},"
    undecided = [part for part in parts if part.kind == "inconclusive"]
    if len(undecided) > 1:
        names, bracket = tell.together(undecided, "intervals")
        intervals = [
            f"{where} ({_short(part.subject)})"
            for where, part in zip(names, undecided, strict=True)
        ]
        if len(undecided) == len(parts):
            return f"{lead} nothing is decided yet for {label}{bracket}: {listed(intervals)}."
        open_ = [f"inconclusive{bracket} are {listed(intervals)}"]
    else:
        open_ = [f"{part.where} {_open(part.subject, tell)}" for part in undecided]
    clauses = [*decided, *open_, *_none(parts, tell)]
    if decided:
        return f"{lead} {label} {'; '.join(clauses)}."
    return f"{lead.rstrip(',')}, with {label}, {'; '.join(clauses)}."


def _none(parts: Sequence[_Phrase], tell: _Teller) -> list[str]:
    """What has no figure or may have no verdict; what has the same reason stands together."""
    reasons: dict[str, list[str]] = {}
    for part in parts:
        if part.kind == "none":
            reasons.setdefault(_open(part.subject, tell), []).append(part.where)
    plural = {"is": "are", "has": "have"}
    clauses = []
    for reason, where in reasons.items():
        verb, _, predicate = reason.partition(" ")
        several = _several(where, len(parts))
        clauses.append(f"{several} {plural[verb] if len(where) > 1 else verb} {predicate}")
    return clauses


def _several(where: Sequence[str], of: int) -> str:
    """Names that share a reason; of many their number: the table has them."""
    if len(where) <= MOST_TOGETHER:
        return listed(where)
    return f"all {of} figures" if len(where) == of else f"{len(where)} of {of} figures"


def _differences(
    analysis: Analysis, parts: Sequence[_Phrase], tell: _Teller, strong: bool
) -> list[str]:
    """`is 6.9× worse than native in CPU (…) and 2.40× in memory (…)`, and the same for better."""
    mark = "**" if strong else ""
    clauses: list[str] = []
    for kind in ("worse", "better"):
        phrases: list[str] = []
        for part in parts:
            if part.kind != kind or part.subject.interval is None:
                continue
            interval = part.subject.interval if kind == "worse" else inverse(part.subject.interval)
            word = "" if phrases else f" {kind}"
            than = f" than {analysis.baseline_label}" if not phrases and not clauses else ""
            basis = tell.basis(part.subject, between(interval), _extra(part.subject, kind))
            size = f"{ratio(interval)[0]}×{word}{than} in {part.where}"
            phrases.append(f"{mark}{size}{mark} ({basis})")
        if phrases:
            clauses.append(f"{'it is' if clauses else 'is'} {listed(phrases)}")
    return clauses


def _equivalents(
    analysis: Analysis, parts: Sequence[_Phrase], tell: _Teller, strong: bool
) -> list[str]:
    """`CPU and memory are equivalent within 2 %`."""
    equivalent = [part for part in parts if part.kind == "equivalent"]
    if not equivalent:
        return []
    mark = "**" if strong else ""
    margin = share(analysis.margin)
    leads = tell.stated is None
    names, bracket = tell.together(equivalent, "confidence")
    names = [
        f"{where}{_off_one(part.subject)}" for where, part in zip(names, equivalent, strict=True)
    ]
    if leads:
        claim = f"{mark}equivalent to {analysis.baseline_label} within {margin} in {listed(names)}"
        return [f"is {claim}{mark}{bracket}"]
    verb = "is" if len(names) == 1 else "are"
    return [f"{listed(names)} {verb} {mark}equivalent within {margin}{mark}{bracket}"]


def _off_one(subject: Subject) -> str:
    """The interval of a difference that is sure, though within the margin: ` (1.004 to 1.011)`."""
    interval = subject.interval
    return f" ({between(interval)})" if interval and excludes_one(interval) else ""


def _extra(subject: Subject, kind: str) -> str:
    """What the instruments add to a figure, seen from the side that the sentence takes."""
    if not isinstance(subject, Comparison) or subject.interval is None:
        return ""
    if kind != "better" or subject.budget is None:
        return systematic(subject)
    turned = subject.budget.model_copy(
        update={"low": 1 / subject.budget.high, "high": 1 / subject.budget.low}
    )
    return systematic(
        subject.model_copy(update={"interval": inverse(subject.interval), "budget": turned})
    )


def _parts(analysis: Analysis, resource: ResourceSummary) -> list[_Phrase]:
    """The parts of a resource: one, or one for each of its figures when they do not agree."""
    where = RESOURCES[resource.resource]
    members = [
        c
        for c in analysis.comparisons
        if c.environment == resource.environment and (c.workload, c.metric) in resource.members
    ]
    if len(members) == 1:
        named = resource.resource == "other" and has_name(members[0])
        return [_part(members[0], members[0].workload_title if named else where)]
    if resource.verdict in ("worse", "better", "equivalent") and _clear(analysis, resource):
        several = f"{where} (mean of {len(members)} figures)"
        return [_Phrase(resource.verdict, several, resource)]
    titles = [c.workload_title for c in members]
    return [
        _part(c, title if titles.count(title) == 1 else f"{title}, {c.metric}")
        for c, title in zip(members, titles, strict=True)
    ]


def has_name(c: Comparison) -> bool:
    """Does the plan call its workload something (`as:`)? Then its title begins with that."""
    return c.workload_title.partition(", ")[0] == c.workload.partition("[")[0]


def _clear(analysis: Analysis, resource: ResourceSummary) -> bool:
    """Does the mean's own interval bear the verdict of its members?"""
    i = resource.interval
    within = 1 + analysis.margin
    return i is not None and (
        (resource.verdict == "worse" and i.low > 1)
        or (resource.verdict == "better" and i.high < 1)
        or (resource.verdict == "equivalent" and 1 / within <= i.low and i.high <= within)
    )


def _part(c: Comparison, where: str) -> _Phrase:
    if c.no_verdict is not None or c.interval is None or c.verdict is None:
        return _Phrase("none", where, c)
    return _Phrase(c.verdict, where, c)


def _open(subject: Subject, tell: _Teller) -> str:
    """Why there is no verdict yet, and what would settle it: `is inconclusive (…): …`."""
    assert isinstance(subject, Comparison)
    if subject.no_verdict is not None:
        return f"has no verdict: {subject.no_verdict}"
    bracket = ""
    if subject.interval is not None:
        basis = tell.basis(subject, between(subject.interval), _below(subject))
        bracket = f" ({basis})"
    if subject.why == "too-few-blocks":
        return f"is inconclusive{bracket}: {too_few(subject)}"
    return f"is inconclusive{bracket}: {settles(subject)}"


def _short(subject: Subject) -> str:
    """Of one undecided figure among several: `0.97 to 1.19: about 18 more blocks`."""
    assert isinstance(subject, Comparison)
    assert subject.interval is not None
    return f"{between(subject.interval)}{_below(subject)}: {settles(subject)}"


def _below(c: Comparison) -> str:
    if c.why == "below-floor" and c.floor is not None:
        return f", below the noise floor of {floor_words(c.floor)}"
    return ""


def too_few(c: Comparison) -> str:
    """`4 blocks are too few, at least 2 more`."""
    number = c.generations if c.precision == "intermediate" else c.pairs
    units = makings(number) if c.precision == "intermediate" else blocks(number)
    if unpaired(c):
        units = counted(c)
    return f"{units} {'is' if number == 1 else 'are'} too few, {settles(c)}"


def comparison_sentence(analysis: Analysis, c: Comparison) -> str:
    """One comparison, with interval, confidence and what it rests on."""
    label = _label(c)
    workload = c.workload_title if c.primary else f"{c.workload_title}, {c.metric}"
    text = _clause(analysis, c, label, workload)
    if analysis.design == "duet":
        return f"{capital(SIDE_BY_SIDE)}, {text}."
    return f"{capital(text) if text.startswith('with ') else text}."


def _label(subject: Subject) -> str:
    return name(subject.environment_label, emulated=subject.emulated, unequal=subject.unequal)


def _clause(analysis: Analysis, c: Comparison, label: str, workload: str) -> str:
    tell = _Teller(analysis.confidence)
    if c.interval is None or c.no_verdict is not None:
        return f"with {label}, {workload} {_without_verdict(c, tell)}"
    if c.verdict in ("worse", "better"):
        interval = c.interval if c.verdict == "worse" else inverse(c.interval)
        basis = tell.basis(c, between(interval), _extra(c, c.verdict))
        size = f"{ratio(interval)[0]}× {c.verdict} than {c.baseline_label}"
        return f"{label} is {size} in {workload} ({basis})"
    if c.verdict == "equivalent":
        basis = tell.basis(c, between(c.interval), systematic(c))
        same = f"equivalent to {c.baseline_label} within {share(analysis.margin)}"
        return f"{label} is {same} in {workload} ({basis})"
    if c.verdict == "inconclusive":
        return f"with {label}, {workload} {_open(c, tell)}"
    basis = tell.basis(c, between(c.interval), systematic(c))
    return (
        f"with {label}, {workload} has the ratio {ratio(c.interval)[0]} to {c.baseline_label}, "
        f"above 1 is worse ({basis})"
    )


def _without_verdict(c: Comparison, tell: _Teller) -> str:
    if c.verdict == "inconclusive" or c.no_verdict is not None:
        return _open(c, tell)
    return "has no ratio" if c.ratio is None else f"has no interval from {counted(c)}"


def care(analysis: Analysis) -> str | None:
    """Which decided figures have doubts that they may not survive; None without any."""
    decided = [c for c in analysis.primary() if c.verdict in DECIDED]
    doubted = [
        (c, codes)
        for c in decided
        if (codes := sorted({d.code for d in c.doubts if d.code in SERIOUS}))
    ]
    if not doubted:
        return None
    head = f"Read with care, {len(doubted)} of {len(decided)} verdicts may not hold"
    if len(doubted) <= MOST_NAMED:
        verdicts = [
            f"{_label(c)} in {c.workload_title} ({', '.join(codes)})" for c, codes in doubted
        ]
        return f"{head}: {listed(verdicts)}."
    kinds = Counter(code for _, codes in doubted for code in codes)
    return f"{head}: {listed(f'{code} ({n})' for code, n in kinds.most_common())}."


def floor_sentence(analysis: Analysis) -> str | None:
    """What two equal environments differed by; None without an A/A comparison."""
    primary = [c for c in analysis.comparisons if c.primary]
    floors: dict[str, float] = {}
    for c in primary:
        if c.floor is not None and c.floor > 1:
            where = c.workload_title if c.resource == "other" else RESOURCES[c.resource]
            floors[where] = max(c.floor, floors.get(where, 1.0))
    if not floors or not analysis.again_total:
        return None
    floor_list = listed(f"{floor_words(floor)} in {where}" for where, floor in floors.items())
    if len(floors) > MOST_TOGETHER:
        floor_list = f"up to {floor_words(max(floors.values()))}"
    duet = ", side by side," if analysis.design == "duet" else ""
    text = (
        f"{capital(analysis.baseline_label)} against itself{duet} may differ by {floor_list} in "
        "this run: what is called a difference differs from both of its copies"
    )
    lost = list(dict.fromkeys(c.workload_title for c in primary if c.why == "no-copy"))
    if lost:
        text += f"; its second copy gave no figures in {_few(lost)}, where nothing is called one"
    if analysis.again_differing:
        text += (
            f"; {analysis.again_differing} of {analysis.again_total} such comparisons "
            "show a difference where there is none"
        )
    return f"{text}."
