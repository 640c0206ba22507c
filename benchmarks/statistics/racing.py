"""Racing: what a plan saves whose comparisons leave as they are decided, and what that costs.

The plan is the demo's: three environments and four workloads, each with its recorded noise, twelve
comparisons and the A/A copies. Looks, levels and verdicts are the product's (`ullage.stats.stop`,
`ullage.stats.verdict`), computed for many campaigns at once; `proof` puts some of them to the
product itself. Without racing the same looks are taken at the same levels and every cell runs until
all comparisons have a verdict: error rates are equal, and the difference is what leaving saves. A
cell that has left takes no time, and the others stand where they stood in the record. What leaves
because a verdict is unlikely (`verdicts: likely`) might have got one: how many of the verdicts that
`all` gives are then missing stands beside it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.figures import Figure
from benchmarks.statistics import design
from benchmarks.statistics.design import Bools, Ints, Plan, log_ratios, many
from benchmarks.statistics.noise import SYNTHETIC, Regime, Rng, recorded
from benchmarks.statistics.table import Share, Table, percent, share
from benchmarks.statistics.traces import Trace
from ullage.stats import Floats, Verdict
from ullage.stats.interval import moments
from ullage.stats.power import LookAhead, chance_ahead
from ullage.stats.stop import UNLIKELY, LevelShares, Race, look_confidence
from ullage.stats.verdict import Against, FamilyMember, judge, p_values, settled

WORKLOADS = ("cpu", "memory", "disk", "loopback")
ENVIRONMENTS = ("container", "lxc", "vm")
VMS = {"emulated": (7.24, 5.28, 4.04, 26.0), "with KVM": (1.03, 1.10, 1.5, 2.0)}
"""The VM's ratios: as the README's demo measured them, and such as a user of KVM may see. The
containers' are 1."""
FIRST, DEMO, LONG = 6, 40, 1536
"""Fewest blocks, the demo's most, and so many that most comparisons get their verdict."""
REACH = 0.6
MOSTLY = 0.9
"""Where fewer have a verdict in the end there is no time to all of them, only to the last block."""
RATE = 0.05
EDGE_ERRORS = 5.0
"""Standard errors after the last block in the margin at whose edge equivalence is tried."""
MOSTLY_FOUND = 8.0
"""Standard errors after the last block of a difference that nearly always gets its verdict."""
PROVEN = 2
SYNTHETIC_TRIED = ("white", "t3", "speeds", "outliers")
BATCH = 200
TRIAL_S = 1.0


@dataclass(frozen=True)
class Savings:
    """One trace, VM and number of blocks."""

    trace: str
    vm: str
    most: int
    raced: float
    """Trials, mean over the campaigns, with `verdicts: all`."""
    likely: float
    """The same with `verdicts: likely`."""
    unraced: float
    decided: float
    """Share of the comparisons that have a verdict in the end."""
    decided_likely: float
    """The same with `verdicts: likely`."""
    decided_at_once: float
    """The same of a plan without looks, after the most blocks."""

    @property
    def ratio(self) -> float:
        """Time with racing ÷ without."""
        return self.raced / self.unraced

    @property
    def ratio_likely(self) -> float:
        """The same where unlikely verdicts are not waited for."""
        return self.likely / self.unraced


@dataclass(frozen=True)
class Claims:
    """False claims of one noise, over all looks of a campaign of twelve comparisons."""

    noise: str
    different: Share
    """Campaigns with any claim of a difference, all environments being equal."""
    equivalent: Share
    """Campaigns with any claim of equivalence, all being on the edge of the margin."""
    missed: Share
    """Comparisons that left because a verdict was unlikely, and get one if they stay: of truths
    from 1 to where nearly all get one."""


@dataclass(frozen=True)
class Raced:
    """What became of many campaigns: campaigns × comparisons."""

    different: Bools
    equivalent: Bools
    unlikely: Bools
    """They left without a verdict."""
    last: Ints
    """Blocks after which each left, or the run ended."""


@dataclass
class Result:
    savings: list[Savings]
    claims: list[Claims]


def race(
    ratios: Floats, truths: Floats, looks: Sequence[int], margin: float, *, likely: bool = False
) -> Raced:
    """Judge at each look what is not decided yet, as `analysis/racing.py` does.

    ratios: campaigns × blocks × workloads × environments at truth 1, the second copy first; truths:
    log, workloads × environments; likely: who will hardly get a verdict leaves too.
    """
    count, size = len(ratios), truths.size
    different, equivalent, unlikely = (np.zeros((count, size), dtype=bool) for _ in range(3))
    last = np.full((count, size), looks[-1])
    for number, blocks in enumerate(looks, start=1):
        confidence = look_confidence(design.CONFIDENCE, number)
        of = design.copies(ratios[:, :blocks]).shifted(truths)
        gone = design.Gone(different, equivalent, unlikely)
        verdicts = design.judged(of, margin, confidence, gone).verdicts
        open_ = ~(different | equivalent | unlikely)
        last[open_ & (verdicts != design.INCONCLUSIVE)] = blocks
        different |= open_ & design.differs(verdicts)
        equivalent |= open_ & (verdicts == design.EQUIVALENT)
        if likely:
            left = _Left(different, equivalent, unlikely)
            unlikely = _unlikely(of, left, Ahead(looks, number), margin)
            last[unlikely & open_] = blocks
    return Raced(different, equivalent, unlikely, last)


@dataclass(frozen=True)
class _Left:
    """What became of comparisons until now: campaigns × comparisons."""

    different: Bools
    equivalent: Bools
    unlikely: Bools


@dataclass(frozen=True)
class Ahead:
    """What is to come after the look of that number."""

    looks: Sequence[int]
    number: int

    def levels(self, shares: LevelShares) -> Sequence[LookAhead]:
        """The highest there, by the product."""
        race = Race(self.looks[0], self.looks[-1])
        return race.ahead(self.looks[self.number - 1], self.number, design.CONFIDENCE, shares)


def _unlikely(of: design.Copies, left: _Left, ahead: Ahead, margin: float) -> Bools:
    """Those too that will hardly get a verdict, as `analysis/racing.py` finds them."""
    unlikely, shape = left.unlikely, left.unlikely.shape
    while True:
        shares = LevelShares(
            *(
                1 / (1 + (unlikely | other).sum(axis=1, keepdims=True))
                for other in (left.equivalent, left.different)
            )
        )
        chances = [
            chance_ahead(
                copy.mean.reshape(shape),
                copy.error.reshape(shape),
                copy.n,
                ahead.levels(shares),
                math.log1p(margin),
            )
            for copy in (of.first, of.second)
        ]
        open_ = ~(left.different | left.equivalent | unlikely)
        more = open_ & (np.minimum(*chances) < UNLIKELY)
        if not more.any():
            return unlikely
        unlikely |= more


def product(ratios: Floats, truths: Floats, looks: Sequence[int], margin: float) -> list[Verdict]:
    """One campaign, blocks × workloads × environments, by the product's own functions."""
    verdicts: list[Verdict] = ["inconclusive"] * truths.size
    for number, blocks in enumerate(looks, start=1):
        confidence = look_confidence(design.CONFIDENCE, number)
        cases = []
        for place, verdict in enumerate(verdicts):
            workload, environment = divmod(place, truths.shape[1])
            units = ratios[:blocks, workload, 1 + environment] + truths[workload, environment]
            m = moments(units)
            copy = Against.of(moments(units - ratios[:blocks, workload, 0]), margin)
            member = FamilyMember(m, p_values(m, margin), None, copies=(copy,), pairs=blocks)
            cases.append(member if verdict == "inconclusive" else settled(verdict))
        judged = judge(cases, margin, confidence)
        verdicts = [
            now.verdict if was == "inconclusive" else was
            for was, now in zip(verdicts, judged, strict=True)
        ]
    return verdicts


def proof(ratios: Floats, truths: Floats, looks: Sequence[int], margin: float) -> None:
    """DisagreementError where the product says otherwise of one of the campaigns."""
    raced = race(ratios, truths, looks, margin)
    for i, campaign in enumerate(ratios):
        verdicts = product(campaign, truths, looks, margin)
        decided = [v in {"worse", "better"} for v in verdicts]
        equal = [v == "equivalent" for v in verdicts]
        if decided != raced.different[i].tolist() or equal != raced.equivalent[i].tolist():
            raise design.DisagreementError(f"campaign {i}, racing: {verdicts}")


def trials(raced: Raced) -> tuple[float, float]:
    """Mean number with racing, and of a run in which all stay until all have a verdict."""
    by_cell = raced.last.reshape(len(raced.last), len(WORKLOADS), len(ENVIRONMENTS))
    # The baseline and its copy stay with the last of their workload.
    with_racing = by_cell.sum(axis=(1, 2)) + 2 * by_cell.max(axis=2).sum(axis=1)
    without = raced.last.max(axis=1) * len(WORKLOADS) * (len(ENVIRONMENTS) + 2)
    return float(with_racing.mean()), float(without.mean())


def figures_of(regimes: Sequence[Regime], rng: Rng, campaigns: int, blocks: int) -> Floats:
    """Log-ratios, campaigns × blocks × workloads × environments; a regime for each workload."""
    plan = Plan(ENVIRONMENTS, WORKLOADS, blocks)
    # Sixty orders are enough: what matters is that pairs are near each other.
    order = design.slots(plan, 60)[np.arange(campaigns) % 60]
    logs = []
    for place, regime in enumerate(regimes):
        series = regime.series(rng, campaigns, blocks * plan.cells)
        at = order[:, :, place]
        taken = np.take_along_axis(series, at.reshape(campaigns, -1), axis=1)
        logs.append(taken.reshape(at.shape))
    return log_ratios(np.stack(logs, axis=2))


def savings(trace: Trace, campaigns: int, seed: int) -> list[Savings]:
    """Of one trace, with either VM, to the demo's most blocks and far beyond."""
    by_name = {regime.name.rpartition(": ")[2]: regime for regime in recorded(trace)}
    regimes = [by_name[workload] for workload in WORKLOADS]
    rng = np.random.default_rng([seed, *trace.name.encode()])
    sums: dict[tuple[str, int], list[tuple[float, ...]]] = {}
    for number in range(-(-campaigns // BATCH)):
        ratios = figures_of(regimes, rng, min(BATCH, campaigns), LONG)
        for vm, of_vm in VMS.items():
            truths = np.zeros((len(WORKLOADS), len(ENVIRONMENTS)))
            truths[:, -1] = np.log(of_vm)
            for most in (DEMO, LONG):
                looks = Race.between(FIRST, most).looks()
                if not number:
                    proof(ratios[:PROVEN], truths, looks, design.MARGIN)
                raced = race(ratios, truths, looks, design.MARGIN)
                likely = race(ratios, truths, looks, design.MARGIN, likely=True)
                whole, unraced = trials(raced)
                once = design.judged(design.copies(ratios[:, :most]).shifted(truths))
                sums.setdefault((vm, most), []).append(
                    (
                        whole,
                        trials(likely)[0],
                        unraced,
                        float((raced.different | raced.equivalent).mean()),
                        float((likely.different | likely.equivalent).mean()),
                        float((once.verdicts != design.INCONCLUSIVE).mean()),
                    )
                )
    return [
        Savings(trace.name, vm, most, *np.mean(rows, axis=0).tolist())
        for (vm, most), rows in sums.items()
    ]


def claims(noise: str, regimes: Sequence[Regime], campaigns: int, seed: int) -> Claims:
    """False claims over the demo's looks, of both kinds."""
    rng = np.random.default_rng([seed, *noise.encode()])
    looks = Race.between(FIRST, DEMO).looks()
    ratios = figures_of(regimes, rng, campaigns, DEMO)
    equal = np.zeros((len(WORKLOADS), len(ENVIRONMENTS)))
    at_one = race(ratios, equal, looks, design.MARGIN)
    # One margin for all, such as the noisiest workload needs.
    margin = math.expm1(EDGE_ERRORS * float(np.median(many(ratios[..., 1:]).error)))
    at_edge = race(ratios, equal + math.log1p(margin), looks, margin)
    proof(ratios[:PROVEN], equal + math.log1p(margin), looks, margin)
    missed = _missed(ratios, looks)
    return Claims(
        noise,
        share(at_one.different.any(axis=1)),
        share(at_edge.equivalent.any(axis=1)),
        missed,
    )


def _missed(ratios: Floats, looks: Sequence[int]) -> Share:
    """As of `Claims`."""
    error = float(np.median(many(ratios[..., 1:]).error))
    truths = np.linspace(0, MOSTLY_FOUND * error, len(WORKLOADS) * len(ENVIRONMENTS))
    truths = truths.reshape(len(WORKLOADS), len(ENVIRONMENTS))
    whole = race(ratios, truths, looks, design.MARGIN)
    hasty = race(ratios, truths, looks, design.MARGIN, likely=True)
    early = hasty.unlikely
    return share((whole.different | whole.equivalent)[early])


def run(traces: Sequence[Trace], campaigns: int, seed: int) -> Result:
    """All of it. Savings need a fiftieth of the campaigns: they are means of large numbers."""
    result = Result([], [])
    for trace in traces:
        result.savings += savings(trace, max(20, campaigns // 50), seed)
        by_name = {regime.name.rpartition(": ")[2]: regime for regime in recorded(trace)}
        regimes = [by_name[workload] for workload in WORKLOADS]
        result.claims.append(claims(trace.name, regimes, campaigns, seed))
    for regime in SYNTHETIC:
        if regime.name in SYNTHETIC_TRIED:
            result.claims.append(claims(regime.name, [regime] * len(WORKLOADS), campaigns, seed))
    return result


def _minutes(trials: float) -> str:
    return f"{trials * TRIAL_S / 60:.1f}"


def figures(result: Result) -> list[Figure]:
    """The issue's figure for each trace, and the worst of either kind of false claim."""
    rows = [row for savings in result.savings for row in _saved(savings)]
    for name in ("different", "equivalent"):
        noise, worst = max(
            ((c.noise, getattr(c, name)) for c in result.claims), key=lambda pair: pair[1].value
        )
        low, high = worst.interval
        rows.append(
            Figure(
                f"any false {name} over all looks, most",
                worst.value,
                "",
                low,
                high,
                reach=f"at most {RATE} beyond chance",
                holds=worst.at_most(RATE),
                note=noise,
            )
        )
    return rows


def _saved(s: Savings) -> list[Figure]:
    """With either rule."""
    where = f"{s.trace}, VM {s.vm}, up to {s.most} blocks"
    aimed = s.decided >= MOSTLY
    without = f"in place of {_minutes(s.unraced)} minutes"
    return [
        Figure(
            f"time to all verdicts, racing ÷ without, {where}",
            s.ratio,
            "×",
            peer="the same looks, nobody leaves",
            peer_value=1.0,
            reach=f"at most {REACH}" if aimed else "",
            holds=s.ratio <= REACH if aimed else None,
            note=f"{_minutes(s.raced)} {without}; {s.decided:.0%} have a verdict in the end",
        ),
        Figure(
            f"the same to all likely verdicts, {where}",
            s.ratio_likely,
            "×",
            peer="the same looks, nobody leaves",
            peer_value=1.0,
            reach=f"at most {REACH}",
            holds=s.ratio_likely <= REACH,
            note=f"{_minutes(s.likely)} {without}; {s.decided_likely:.1%} have a verdict in the "
            f"end, {s.decided:.1%} where all stay",
        ),
    ]


def tables(result: Result) -> list[Table]:
    """Savings, then false claims."""
    saved = Table(
        "Racing: time to all verdicts",
        [
            "noise",
            "VM",
            "blocks",
            "without",
            "`all`",
            "ratio",
            "`likely`",
            "ratio",
            "decided",
            "`likely`",
            "without looks",
        ],
        says="The demo's plan: mean minutes at a second a trial of a run with the same looks which "
        "nobody leaves, with `until: {verdicts: all}`, and with `likely`; then percent of the "
        "twelve comparisons that have a verdict in the end, by `all`, by `likely`, and in a run "
        "that is judged once, after the last block.",
    )
    for s in result.savings:
        ends = (f"{100 * x:.1f}" for x in (s.decided, s.decided_likely, s.decided_at_once))
        minutes = [_minutes(s.unraced)]
        for count, ratio in ((s.raced, s.ratio), (s.likely, s.ratio_likely)):
            minutes += [_minutes(count), f"{ratio:.2f}"]
        saved.rows.append([s.trace, s.vm, f"{s.most:,}", *minutes, *ends])
    false = Table(
        "Racing: false claims over all looks",
        ["noise", "any difference", "any equivalence", "unlikely, yet decided by `all`"],
        says=f"Percent of campaigns of {DEMO} blocks with any false claim at any look: all "
        f"environments equal, and all on the edge of a margin of {EDGE_ERRORS:g} standard errors "
        "(aim of either: at most 5 beyond chance; a star: missed). Then, of differences of 0 to "
        f"{MOSTLY_FOUND:g} standard errors, percent of the comparisons that `likely` lets leave "
        "without a verdict and that get one where they stay (at most 5). What `likely` claims is a "
        "part of what `all` does, and so are its false claims.",
    )
    for c in result.claims:
        cells = [percent(s, not s.at_most(RATE)) for s in (c.different, c.equivalent)]
        false.rows.append([c.noise, *cells, percent(c.missed, not c.missed.at_most(UNLIKELY))])
    return [saved, false]
