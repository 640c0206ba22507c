"""The tables: what the campaigns came to."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.figures import Figure
from benchmarks.statistics import campaign, peers, racing, trial_length
from benchmarks.statistics.aims import CHANCE, HIGH, LOW, RATE, figures, inside
from benchmarks.statistics.attacks import figures as attack_figures
from benchmarks.statistics.attacks import limits
from benchmarks.statistics.attacks import tables as hurting
from benchmarks.statistics.campaign import COUNTS, MAIN, TRUTHS, Outcome
from benchmarks.statistics.design import Plan
from benchmarks.statistics.run_all import Results
from benchmarks.statistics.sample_size import MOST_TRIALS, Row, SampleSize
from benchmarks.statistics.table import Share, Table, percent


def tables(results: Results) -> list[Table]:
    return [
        aimed(figures(results)),
        hurting.attacked(results.struck),
        hurting.unheard(results.struck),
        hurting.doubts(results.struck),
        *([limits.table(results.limits)] if results.limits else []),
        hurting.totals(results.paid),
        coverage(results),
        false_claims(results),
        verdicts(results),
        levels(results),
        by_design(results),
        power_by_design(results),
        trials(results),
        records(results),
        *(table for race in results.races for table in racing.tables(race)),
        *([trial_length.table(results.lengths)] if results.lengths else []),
        besides(results),
        designs(results),
    ]


def of_attacks(results: Results) -> list[Table]:
    """Those of a run of the attacks alone."""
    struck = results.struck
    aims = aimed(attack_figures.figures(struck, []))
    return [aims, hurting.attacked(struck), hurting.unheard(struck), hurting.doubts(struck)]


def aimed(figures: Sequence[Figure]) -> Table:
    """The worst of all regimes in each aim."""
    table = Table(
        "Aims",
        ["figure", "value", "chance", "aim", "holds", "where"],
        says="The worst of all regimes in each; `chance` is the Monte-Carlo error.",
    )
    for figure in figures:
        ends = (figure.low, figure.high)
        chance = " to ".join(f"{end:.4f}" for end in ends if end is not None)
        holds = {True: "yes", False: "no", None: ""}[figure.holds]
        value = f"{figure.value:.4f}" if chance else f"{figure.value:.2f} {figure.unit}"
        table.rows.append([figure.name, value, chance, figure.reach, holds, figure.note])
    return table


def coverage(results: Results) -> Table:
    """Does the 95 % interval hold the truth?"""
    table = Table(
        "Coverage of the 95 % interval",
        [
            "noise",
            *(f"t, {n}" for n in COUNTS),
            f"bootstrap, {MAIN}",
            f"ranks, {MAIN}",
            *(f"stop, {name}" for name in results.outcomes[0].targets),
            "sequential Welch",
        ],
        says="Percent of campaigns. Columns: the t interval that verdicts rest on after a fixed "
        f"number of blocks (aim {100 * LOW:g} to {100 * HIGH:g} in synthetic noise, but for "
        "chance), the two intervals beside it, the t interval where the stop rule ended the run "
        "(aim: not below 95 beyond chance; mean number of blocks in brackets), and Welch's "
        f"interval on log times when all {peers.TRIALS} trials of the baseline come first. A "
        "star: the aim is missed. Above 97 the interval is wider than it need be, for a few wild "
        "pairs make its spread: it then claims less, not more.",
    )
    for outcome in results.outcomes:
        s, synthetic = outcome.shares, outcome.regime.synthetic
        cells = [percent(s[f"t {n}"], synthetic and not inside(s[f"t {n}"])) for n in COUNTS]
        cells += [percent(s["bootstrap"]), percent(s.get("ranks"))]
        for name in outcome.targets:
            share = s[f"stop {name}"]
            missed = synthetic and not share.at_least(1 - RATE)
            cells.append(f"{percent(share, missed)} ({outcome.blocks[name]:.0f})")
        table.rows.append([outcome.regime.name, *cells, percent(s["Welch's t test covers"])])
    table.notes = [chance(results), *notes(results)]
    return table


def chance(results: Results) -> str:
    """The Monte-Carlo error, in words."""
    count = results.size.campaigns
    low, high = Share(round(0.95 * count), count).interval
    return (
        f"{count:,} campaigns per cell: a true 95 % shows as {100 * low:.1f} to {100 * high:.1f} "
        "(exact binomial, 95 %)."
    )


def notes(results: Results) -> list[str]:
    """What regimes are, and what cannot be helped."""
    regimes = [f"{o.regime.name}: {o.regime.says}." for o in results.outcomes if o.regime.synthetic]
    return [
        *regimes,
        *(f"{o.regime.name}: {o.regime.note}" for o in results.outcomes if o.regime.note),
    ]


def false_claims(results: Results) -> Table:
    """How often is there a difference where there is none?"""
    name = middle(results)
    table = Table(
        "False claims of a difference, truth 1",
        ["noise", "one t test", "Holm", "verdict", "stop: one", "stop: Holm", "stop: verdict"],
        says=f"Percent of campaigns of {MAIN} blocks, three workloads × two environments. One t "
        "test at 5 %; any of the six after Holm; any called worse or better (Holm, against either "
        "copy of the baseline). Then the same under the stop rule. Aim after Holm: at most "
        f"{100 * RATE:g} beyond chance.",
    )
    for outcome in results.outcomes:
        s, synthetic = outcome.shares, outcome.regime.synthetic
        cells = []
        for design in ("fixed", f"stop {name}"):
            for claim in ("one", "Holm", "verdict"):
                share = s[f"{design} false, {claim}"]
                missed = synthetic and claim != "one" and not share.at_most(RATE)
                cells.append(percent(share, missed))
        table.rows.append([outcome.regime.name, *cells])
    return table


def middle(results: Results) -> str:
    """The stop rule's target that claims are shown for."""
    return list(results.outcomes[0].targets)[1]


def verdicts(results: Results) -> Table:
    """What is said when there is something to say."""
    name = middle(results)
    table = Table(
        "Verdicts of ours",
        [
            "noise",
            "power 5 / 10 / 25 %",
            "under the stop rule",
            "better though worse",
            "equivalent though 5 % worse",
            "false beside 5 %",
            "equivalent, wide margin",
            "on its edge",
        ],
        says=f"Percent, {MAIN} blocks. Power: one comparison is called worse, with Holm over six "
        "and against either copy. Wrong verdicts are of any of the family: `better though worse` "
        "at the worst of the three truths; `false beside 5 %` when environment a is 5 % slower and "
        "b is called different. Noise like this never lets 12 blocks prove 2 %, so equivalence is "
        f"tried with a margin of {campaign.EDGE_ERRORS:g} standard errors too: how often one "
        "comparison is called equivalent at truth 1, and any where all lie on the edge exactly (at "
        "most 5). The stop rule stops at precision, not at power: where "
        "it needed fewer blocks it finds less.",
    )
    for outcome in results.outcomes:
        s = outcome.shares
        better = max((s[f"fixed better {t}"] for t in TRUTHS), key=lambda share: share.value)
        edge = s["wide, on the edge"]
        table.rows.append(
            [
                outcome.regime.name,
                several(outcome, "fixed power"),
                several(outcome, f"stop {name} power"),
                percent(better),
                percent(s[f"fixed equivalent {TRUTHS[0]}"]),
                percent(s[f"fixed false beside {TRUTHS[0]}"]),
                percent(s["wide, truth 1"]),
                percent(edge, not edge.at_most(RATE)),
            ]
        )
    return table


def several(outcome: Outcome, claim: str) -> str:
    """`12 / 60 / 100`: at all truths."""
    return " / ".join(f"{100 * outcome.shares[f'{claim} {t}'].value:.0f}" for t in TRUTHS)


def levels(results: Results) -> Table:
    table = Table(
        "Instances that differ",
        ["instances", "coverage of the environment's ratio"],
        says=f"{MAIN * campaign.PER_GENERATION} blocks, instances ± 2 %, trials ± 3 %. Made once, "
        "the interval speaks of those instances only (and the report says so: repeatability).",
    )
    for outcome in results.outcomes:
        if not outcome.regime.instance:
            continue
        for key, words in (
            ("once", "made once"),
            ("flat", "made anew every two blocks, blocks taken as independent (what we do not do)"),
            ("collapsed", "made anew every two blocks, means by generation (ours)"),
        ):
            table.rows.append([words, percent(outcome.shares[key])])
    return table


def by_design(results: Results) -> Table:
    """The same noise through what others do: false claims."""
    table = Table(
        "False claims by design, truth 1",
        ["noise", "ours", *(peer.name for peer in peers.DESIGNS)],
        says="Percent of single comparisons (no family) that are called different; of any of six "
        "in brackets. Ours: the t test alone, and any of six after Holm.",
    )
    for outcome in results.outcomes:
        s = outcome.shares
        table.rows.append(
            [
                outcome.regime.name,
                both(s["fixed false, one"], s["fixed false, Holm"]),
                *(
                    both(s[f"{d.name} false, one"], s[f"{d.name} false, any"])
                    for d in peers.DESIGNS
                ),
            ]
        )
    return table


def both(single: Share, any_of: Share) -> str:
    """`5 (21)`."""
    return f"{100 * single.value:.0f} ({100 * any_of.value:.0f})"


def power_by_design(results: Results) -> Table:
    """The same noise through what others do: power."""
    table = Table(
        "Power by design at 5 / 10 / 25 %",
        ["noise", "ours", *(peer.name for peer in peers.DESIGNS)],
        says="Percent of single comparisons that are called slower. To be read beside the false "
        "claims: who claims much has power cheaply. Ours pays for Holm over six and the second "
        "copy.",
    )
    for outcome in results.outcomes:
        cells = [several(outcome, f"{peer.name} power") for peer in peers.DESIGNS]
        table.rows.append([outcome.regime.name, several(outcome, "fixed power"), *cells])
    return table


def trials(results: Results) -> Table:
    """How much must be run?"""
    table = Table(
        "Trials for power 0.8",
        [
            "noise",
            "slower by",
            "ours: paired t",
            "sequential t",
            "ratio",
            "ours: verdict",
            "ratio",
            "its false claims",
        ],
        says="One environment, one workload; all trials are counted, the A/A copy's (a third of "
        "ours) too; a trial is a second, minutes in brackets. Both t tests are calibrated to 5 % "
        "false claims on A/A data of the same noise; the verdict is the product's own.",
    )
    for row in results.sample_sizes:
        of = row.designs
        false = of["verdict"].false
        table.rows.append(
            [
                row.regime.name,
                f"{100 * (row.effect - 1):.0f} %",
                needs(of["paired t"]),
                needs(of["sequential t"]),
                ratio(row, "paired t"),
                needs(of["verdict"]),
                ratio(row, "verdict"),
                "" if false is None else percent(false),
            ]
        )
    table.notes = [
        f"{results.size.calibration:,} campaigns for calibration and as many for power. Recorded "
        "noise is made of segments of four minutes; where two meet the level jumps, which helps "
        "whoever averages over many of them. A test of four trials rests on the calibration alone: "
        "that the noise is known beforehand.",
    ]
    return table


def needs(needed: SampleSize) -> str:
    """`36 (0.6)`."""
    if needed.trials is None:
        return f"over {MOST_TRIALS}"
    return f"{needed.trials} ({needed.trials * campaign.TRIAL_S / 60:.1f})"


def ratio(row: Row, ours: str) -> str:
    """`0.42`, `below 0.1`."""
    bound = row.ratio(ours)
    return "" if bound is None else f"{bound[1]}{bound[0]:.2f}"


def records(results: Results) -> Table:
    """A/A on real records."""
    table = Table(
        "A/A on recorded trials",
        ["trace", "family", "Holm", "verdict", "worst stretch", "Welch, one", "Welch, any"],
        says=f"Percent of {results.size.aa_traces:,} campaigns of {MAIN} blocks per trace in which "
        f"any comparison is called different (aim: at most {100 * CHANCE:g}), intervals exact "
        "binomial. Stretches begin anywhere and orders are drawn anew; only the stretches counted "
        "in the next column share no row, so the intervals are those of the orders. Welch's t test "
        "sees the same rows in sequence.",
    )
    for null in results.nulls:
        low, high = null.holm.interval
        missed = not null.holm.value <= CHANCE
        table.rows.append(
            [
                null.trace,
                str(null.family),
                f"{percent(null.holm, missed)} ({100 * low:.1f} to {100 * high:.1f})",
                percent(null.verdict),
                f"{percent(null.worst)} of {null.disjoint}",
                percent(null.sequential),
                percent(null.sequential_any),
            ]
        )
    return table


def besides(results: Results) -> Table:
    """What the docs say elsewhere."""
    table = Table(
        "Doubts, looks, dry runs, duets, corrections",
        ["figure", "percent", "chance", "should be"],
        says=f"Percent of {results.size.doc_claims:,} made-up runs each, by the product's own "
        "functions.",
    )
    for claim in results.doc_claims:
        low, high = claim.share.interval
        chance = f"{100 * low:.1f} to {100 * high:.1f}"
        table.rows.append([claim.what, percent(claim.share), chance, claim.expected])
    return table


def designs(results: Results) -> Table:
    table = Table(
        "The designs",
        ["design", "tool", "rule from", "trials of three workloads × (baseline + 2)"],
        says="Mean number of trials over the regimes. All but ours run one environment after the "
        "other.",
    )
    for design in peers.DESIGNS:
        counts = [outcome.trials[design.name] for outcome in results.outcomes]
        mean = sum(counts) / len(counts)
        table.rows.append([design.name, design.tool, design.source, f"{mean:.0f}"])
    cells = Plan().cells
    ours_row = ["ours", "ullage", "ullage/plan/schedule.py, ullage/stats/", f"{MAIN * cells}"]
    table.rows.append([*ours_row[:3], f"{ours_row[3]}, {MAIN * cells // 4} of them the A/A copy"])
    return table
