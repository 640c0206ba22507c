"""What the recorded trials say, as figures and as tables for the docs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.figures import Figure
from benchmarks.statistics.injection import designs, plausibility, truth
from benchmarks.statistics.injection.designs import TrialsNeeded
from benchmarks.statistics.injection.plausibility import Plausibility
from benchmarks.statistics.injection.recording import Recording
from benchmarks.statistics.injection.truth import AACampaigns, CampaignInterval
from benchmarks.statistics.table import Share

LEAST_COVERAGE = 0.93
MOST_FALSE = 0.08
LEAST_CAMPAIGNS = 200
"""Of A/A campaigns, for the limit to mean anything."""
MOST_TRIALS = 0.5


@dataclass(frozen=True)
class Pair:
    """Trials that the two orders need in one workload."""

    workload: str
    ours: TrialsNeeded
    theirs: TrialsNeeded

    @property
    def ratio(self) -> str:
        """Ours over theirs; a bound where one of them was not reached."""
        value = self.ours.bound / self.theirs.bound
        if self.ours.trials is None:
            return "not known" if self.theirs.trials is None else f"above {value:.2f}"
        return f"{'below ' if self.theirs.trials is None else ''}{value:.2f}"

    @property
    def fewer(self) -> bool | None:
        """Are ours at most half of theirs? None: the record is too short to tell."""
        value = self.ours.bound / self.theirs.bound
        if self.ours.trials is not None and value <= MOST_TRIALS:
            return True
        return False if self.theirs.trials is not None and value > MOST_TRIALS else None


def _sum(needs: Sequence[TrialsNeeded]) -> TrialsNeeded:
    bound = sum(need.bound for need in needs)
    reached = all(need.trials is not None for need in needs)
    return TrialsNeeded(bound if reached else None, bound, None, None, math.nan)


@dataclass(frozen=True)
class Answers:
    recording: Recording
    intervals: list[CampaignInterval]
    welch: Share
    aa_campaigns: list[AACampaigns]
    pairs: list[Pair]
    plausibilities: list[Plausibility]

    def truths(self) -> list[float]:
        """The factors, ascending."""
        return sorted({interval.truth for interval in self.intervals})

    def covered(self, *truths: float) -> Share:
        """Intervals that hold the truth, of comparisons with these factors."""
        return truth.share(
            interval.holds for interval in self.intervals if interval.truth in truths
        )

    def called(self, *truths: float) -> Share:
        """Verdicts "worse" among those."""
        return truth.share(
            interval.comparison.verdict == "worse"
            for interval in self.intervals
            if interval.truth in truths and not interval.comparison.again
        )

    def half_width(self, workload: str) -> float:
        """Median, relative."""
        widths = [f.half_width for f in self.intervals if f.workload == workload]
        return median([width for width in widths if width is not None] or [math.nan])

    @property
    def false(self) -> Share:
        return sum((campaigns.claimed for campaigns in self.aa_campaigns), Share(0, 0))

    @property
    def together(self) -> Pair:
        """All workloads; a sum is not reached where a part of it is not."""
        ours = _sum([pair.ours for pair in self.pairs])
        return Pair("all workloads", ours, _sum([pair.theirs for pair in self.pairs]))


def answer(recording: Recording) -> Answers:
    pairs = []
    for workload in recording.about.works:
        ours = designs.trials_needed(designs.of_blocks(recording, workload))
        pairs.append(
            Pair(workload, ours, designs.trials_needed(designs.of_sequences(recording, workload)))
        )
    return Answers(
        recording=recording,
        intervals=truth.intervals(recording),
        welch=truth.welch_holds(recording),
        aa_campaigns=truth.aa_campaigns(recording),
        pairs=pairs,
        plausibilities=plausibility.compared(recording),
    )


def figures(answers: Answers) -> list[Figure]:
    return [*_coverage(answers), *_again(answers), *_needed(answers), *_plausible(answers)]


def _counted(name: str, share: Share, reach: str = "", holds: bool | None = None) -> Figure:
    low, high = share.interval
    note = f"{share.hits} of {share.of}"
    return Figure(name, share.value, "1", low, high, reach=reach, holds=holds, note=note)


def _coverage(answers: Answers) -> Iterator[Figure]:
    for factor in answers.truths():
        share = answers.covered(factor)
        yield _counted(
            f"intervals that hold ×{factor:.2f}",
            share,
            f"not below {LEAST_COVERAGE} beyond chance",
            share.at_least(LEAST_COVERAGE),
        )
    slowed = answers.covered(*(factor for factor in answers.truths() if factor > 1))
    yield _counted(
        "intervals that hold the injected truth",
        slowed,
        f"at least {LEAST_COVERAGE}",
        slowed.value >= LEAST_COVERAGE,
    )
    yield _counted("peer: Welch, all of one and then all of the other", answers.welch)


def _again(answers: Answers) -> Iterator[Figure]:
    for campaigns in answers.aa_campaigns:
        yield _counted(f"false claims: {campaigns.kind}", campaigns.claimed)
    yield _counted(
        "A/A campaigns with a false claim after Holm",
        answers.false,
        f"at most {MOST_FALSE} of at least {LEAST_CAMPAIGNS}",
        answers.false.value <= MOST_FALSE if answers.false.of >= LEAST_CAMPAIGNS else None,
    )


def _needed(answers: Answers) -> Iterator[Figure]:
    for pair in answers.pairs:
        ours, theirs = pair.ours, pair.theirs
        yield Figure(
            f"trials to find 5 %, {pair.workload}",
            ours.bound,
            "trials",
            ours.low,
            ours.high,
            peer="one after the other",
            peer_value=theirs.bound,
            note=f"ours {_trials(ours)}, theirs {_trials(theirs)}, ratio {pair.ratio}",
        )
    together = answers.together
    yield Figure(
        "our trials over theirs, all workloads",
        together.ours.bound / together.theirs.bound,
        "1",
        reach=f"at most {MOST_TRIALS}",
        holds=together.fewer,
        note=f"ratio {together.ratio}",
    )


def _plausible(answers: Answers) -> Iterator[Figure]:
    for hindrance in answers.plausibilities:
        interval = hindrance.comparison.interval
        if interval is None:
            continue
        yield Figure(
            f"plausible: {hindrance.expected.what}",
            interval.estimate,
            "×",
            interval.low,
            interval.high,
            peer="expected",
            peer_value=(hindrance.low + hindrance.high) / 2,
            note=f"expected {hindrance.low:.2f} to {hindrance.high:.2f}: {_agrees(hindrance)}",
        )


def _trials(needed: TrialsNeeded) -> str:
    """`24 (18 to 30)`, `above 44`."""
    if needed.trials is None:
        return f"above {needed.most}"
    above = f"above {needed.most}"
    return f"{needed.trials} ({needed.low or above} to {needed.high or above})"


def _agrees(hindrance: Plausibility) -> str:
    return "agrees" if hindrance.agrees else "differs"


def _percent(share: Share) -> str:
    low, high = share.interval
    return f"{share.value:.1%} ({low:.1%} to {high:.1%}) of {share.of}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def markdown(answers: Answers) -> str:
    """The tables of the docs."""
    about = answers.recording.about
    workloads = ", ".join(
        f"{name} ({work} {about.units[name]}, fixed part "
        f"{1e3 * about.fixed[name].seconds:.1f} ms, which dilutes ×1.05 by "
        f"{abs(about.fixed[name].dilution(1.05)):.2%})"
        for name, work in about.works.items()
    )
    parts = [
        f"{about.host.get('cpu_model', 'unknown CPU')}, kernel {about.host.get('kernel', '?')}. "
        f"Nominal work: {workloads}.",
        _truth_table(answers),
        _again_table(answers),
        _needed_table(answers),
        _plausible_table(answers),
        *(f"Left out: {left_out}: {why}." for left_out, why in about.left_out.items()),
    ]
    return "\n\n".join(parts) + "\n"


def _truth_table(answers: Answers) -> str:
    rows = [
        [
            f"×{factor:.2f}",
            _percent(answers.covered(factor)),
            _percent(answers.called(factor)),
        ]
        for factor in answers.truths()
    ]
    slowed = [factor for factor in answers.truths() if factor > 1]
    rows.append(["all above 1", _percent(answers.covered(*slowed)), ""])
    rows.append(["peer: Welch, one after the other", _percent(answers.welch), ""])
    block = answers.recording.about.block
    head = ("truth", "intervals that hold it", f"called worse after {block} blocks, after Holm")
    widths = ", ".join(f"{w} ±{answers.half_width(w):.1%}" for w in answers.recording.about.works)
    return f"{table(head, rows)}\n\nMedian half width of an interval: {widths}."


def _again_table(answers: Answers) -> str:
    rows = [[campaigns.kind, _percent(campaigns.claimed)] for campaigns in answers.aa_campaigns]
    return table(("A/A campaigns", "with a false claim"), [*rows, ["all", _percent(answers.false)]])


def _needed_table(answers: Answers) -> str:
    rows = [
        [
            pair.workload,
            _trials(pair.ours),
            _trials(pair.theirs),
            pair.ratio,
            f"{pair.ours.nominal_rate:.0%}",
            f"{pair.theirs.nominal_rate:.0%}",
        ]
        for pair in answers.pairs
    ]
    head = (
        "workload",
        "trials in our order",
        "one after the other",
        "ratio",
        "false positives uncalibrated, ours",
        "theirs",
    )
    return f"{table(head, rows)}\n\nAll workloads together: {answers.together.ratio}."


def _plausible_table(answers: Answers) -> str:
    rows = []
    for hindrance in answers.plausibilities:
        interval = hindrance.comparison.interval
        measured = (
            f"{interval.estimate:.2f} ({interval.low:.2f} to {interval.high:.2f})"
            if interval
            else "none"
        )
        expected = f"{hindrance.low:.2f} to {hindrance.high:.2f}"
        rows.append(
            [
                hindrance.expected.what,
                expected,
                measured,
                _agrees(hindrance),
                hindrance.expected.why,
            ]
        )
    head = ("in the way", "expected ratio", "measured ratio", "", "why expected")
    return table(head, rows)
