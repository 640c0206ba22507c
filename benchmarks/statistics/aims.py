"""The issue's figures, each with its aim and whether it holds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from benchmarks.figures import Figure, main
from benchmarks.statistics import racing, run_all
from benchmarks.statistics.attacks import figures as attack_figures
from benchmarks.statistics.campaign import COUNTS, Outcome
from benchmarks.statistics.run_all import Results
from benchmarks.statistics.sample_size import MOST_TRIALS
from benchmarks.statistics.table import Share

LOW, HIGH = 0.93, 0.97
RATE = 0.05
"""False claims after Holm, and misses of a 95 % interval."""
CHANCE = 0.08
"""False claims after Holm on real records: 5 % and what chance adds in 200 campaigns."""
HALF = 0.5


def _figure(name: str, share: Share, reach: str, holds: bool, note: str = "") -> Figure:
    low, high = share.interval
    return Figure(name, share.value, "", low, high, reach=reach, holds=holds, note=note)


def _sorted(outcomes: Iterable[Outcome], keys: Iterable[str]) -> list[tuple[Share, str]]:
    """Shares with where they are from, the least first."""
    ordered = list(keys)
    shares = [(o.shares[key], f"{o.regime.name}, {key}") for o in outcomes for key in ordered]
    return sorted(shares, key=lambda share: share[0].value)


def inside(covered: Share) -> bool:
    """Between LOW and HIGH, or not outside beyond chance."""
    return covered.at_least(LOW) and covered.at_most(HIGH)


def figures(results: Results) -> list[Figure]:
    """One row per aim, the worst of all regimes in each.

    A regime with a note, which no interval withstands, has rows of its own.
    """
    synthetic = [o for o in results.outcomes if o.regime.synthetic]
    rows = _of([o for o in synthetic if not o.regime.note], "")
    for outcome in synthetic:
        if outcome.regime.note:
            rows += _of([outcome], f", {outcome.regime.name}")
    for null in results.nulls:
        rows.append(
            _figure(
                f"false claims after Holm, {null.trace}",
                null.holm,
                f"at most {CHANCE}",
                null.holm.value <= CHANCE,
                f"{null.holm.of} campaigns, {null.disjoint} disjoint stretches",
            )
        )
    rows += [row for race in results.races for row in racing.figures(race)]
    return [*rows, *attack_figures.figures(results.struck, results.paid), *_savings(results)]


def _of(outcomes: Sequence[Outcome], name: str) -> list[Figure]:
    """Coverage and false claims, the worst of these regimes."""
    targets = outcomes[0].targets
    covered = _sorted(outcomes, (f"t {n}" for n in COUNTS))
    stopped = _sorted(outcomes, (f"stop {target}" for target in targets))
    claimed = _sorted(
        outcomes, ["fixed false, Holm", *(f"stop {target} false, Holm" for target in targets)]
    )
    (least, least_at), (most, most_at) = covered[0], covered[-1]
    (slack, slack_at), (false, false_at) = stopped[0], claimed[-1]
    cover, rule = "coverage, fixed designs", "coverage under the stop rule"
    false_name = "false claims after Holm, synthetic"
    beyond = (f"at least {1 - RATE} less chance", f"at most {RATE} beyond chance")
    return [
        _figure(f"{cover}, least{name}", least, f"at least {LOW}", least.at_least(LOW), least_at),
        _figure(f"{cover}, most{name}", most, f"at most {HIGH}", most.at_most(HIGH), most_at),
        _figure(f"{rule}, least{name}", slack, beyond[0], slack.at_least(1 - RATE), slack_at),
        _figure(f"{false_name}, most{name}", false, beyond[1], false.at_most(RATE), false_at),
    ]


def measure(quick: bool) -> list[Figure]:
    return figures(run_all.run(run_all.QUICK if quick else run_all.FULL, jobs=2))


def _savings(results: Results) -> list[Figure]:
    """The aim is of a real machine's noise; what synthetic noise says stands beside it."""
    rows = []
    for row in results.sample_sizes:
        ratio = row.ratio("paired t")
        if row.effect != 1.05 or ratio is None:
            continue
        value, bound = ratio
        real = not row.regime.synthetic
        rows.append(
            Figure(
                f"trials for 5 %, ours ÷ sequential, {row.regime.name}",
                value,
                "×",
                peer="sequential t test",
                peer_value=1.0,
                reach=f"at most {HALF}" if real else "",
                holds=_saves(value, bound) if real else None,
                note=f"{bound}{value:.2f}: over {MOST_TRIALS} trials were not simulated"
                if bound
                else "",
            )
        )
    return rows


def _saves(ratio: float, bound: str) -> bool | None:
    """Whether the aim holds; None when the bound does not tell."""
    if bound == "below ":
        return True if ratio <= HALF else None
    return ratio <= HALF


if __name__ == "__main__":
    main(measure, __doc__ or "")
