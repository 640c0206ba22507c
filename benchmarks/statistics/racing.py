"""Racing: what a plan saves whose comparisons leave as they are decided, and what that costs.

The plan is the demo's: three environments and four workloads, each with its recorded noise, twelve
comparisons and the A/A copies. Looks, levels and verdicts are the product's (`ullage.stats.stop`,
`ullage.stats.verdict`), computed for many campaigns at once; `proof` puts some of them to the
product itself. Without racing the same looks are taken at the same levels and every cell runs until
all comparisons have a verdict: error rates are equal, and the difference is what leaving saves. A
cell that has left takes no time, and the others stand where they stood in the record.
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
from ullage.stats.stop import Race, look_confidence
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
    """Trials, mean over the campaigns."""
    unraced: float
    decided: float
    """Share of the comparisons that have a verdict in the end."""
    decided_at_once: float
    """The same of a plan without looks, after the most blocks."""

    @property
    def ratio(self) -> float:
        """Time with racing ÷ without."""
        return self.raced / self.unraced


@dataclass(frozen=True)
class Claims:
    """False claims of one noise, over all looks of a campaign of twelve comparisons."""

    noise: str
    different: Share
    """Campaigns with any claim of a difference, all environments being equal."""
    equivalent: Share
    """Campaigns with any claim of equivalence, all being on the edge of the margin."""


@dataclass(frozen=True)
class Raced:
    """What became of many campaigns: campaigns × comparisons."""

    different: Bools
    equivalent: Bools
    last: Ints
    """Blocks after which each was decided, or the run ended."""


@dataclass
class Result:
    savings: list[Savings]
    claims: list[Claims]


def race(ratios: Floats, truths: Floats, looks: Sequence[int], margin: float) -> Raced:
    """Judge at each look what is not decided yet, as `analysis/racing.py` does.

    ratios: campaigns × blocks × workloads × environments at truth 1, the second copy first; truths:
    log, workloads × environments.
    """
    count, size = len(ratios), truths.size
    different, equivalent = np.zeros((count, size), dtype=bool), np.zeros((count, size), dtype=bool)
    last = np.full((count, size), looks[-1])
    for number, blocks in enumerate(looks, start=1):
        confidence = look_confidence(design.CONFIDENCE, number)
        of = design.copies(ratios[:, :blocks]).shifted(truths)
        gone = design.Gone(different, equivalent)
        verdicts = design.judged(of, margin, confidence, gone).verdicts
        open_ = ~(different | equivalent)
        last[open_ & (verdicts != design.INCONCLUSIVE)] = blocks
        different |= open_ & design.differs(verdicts)
        equivalent |= open_ & (verdicts == design.EQUIVALENT)
    return Raced(different, equivalent, last)


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
                once = design.judged(design.copies(ratios[:, :most]).shifted(truths))
                sums.setdefault((vm, most), []).append(
                    (
                        *trials(raced),
                        float((raced.different | raced.equivalent).mean()),
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
    return Claims(noise, share(at_one.different.any(axis=1)), share(at_edge.equivalent.any(axis=1)))


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
    rows = [
        Figure(
            f"time to all verdicts, racing ÷ without, {s.trace}, VM {s.vm}, up to {s.most} blocks",
            s.ratio,
            "×",
            peer="the same looks, nobody leaves",
            peer_value=1.0,
            reach=f"at most {REACH}" if s.decided >= MOSTLY else "",
            holds=s.ratio <= REACH if s.decided >= MOSTLY else None,
            note=f"{_minutes(s.raced)} in place of {_minutes(s.unraced)} minutes; "
            f"{s.decided:.0%} have a verdict in the end",
        )
        for s in result.savings
    ]
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


def tables(result: Result) -> list[Table]:
    """Savings, then false claims."""
    saved = Table(
        "Racing: time to all verdicts",
        ["noise", "VM", "blocks", "minutes", "without", "ratio", "decided", "without looks"],
        says="The demo's plan with `until: {verdicts: all}`: mean minutes at a second a trial, "
        "beside a run with the same looks which nobody leaves; percent of the twelve comparisons "
        "that have a verdict in the end, beside a run that is judged once, after the last block.",
    )
    for s in result.savings:
        minutes = (_minutes(count) for count in (s.raced, s.unraced))
        ends = (f"{100 * x:.0f}" for x in (s.decided, s.decided_at_once))
        saved.rows.append([s.trace, s.vm, f"{s.most:,}", *minutes, f"{s.ratio:.2f}", *ends])
    false = Table(
        "Racing: false claims over all looks",
        ["noise", "any difference", "any equivalence"],
        says=f"Percent of campaigns of {DEMO} blocks with any false claim at any look: all "
        f"environments equal, and all on the edge of a margin of {EDGE_ERRORS:g} standard errors "
        "(aim of either: at most 5 beyond chance; a star: missed).",
    )
    for c in result.claims:
        cells = [percent(s, not s.at_most(RATE)) for s in (c.different, c.equivalent)]
        false.rows.append([c.noise, *cells])
    return [saved, false]
