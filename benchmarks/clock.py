"""The clock: what a read costs, how strict it is, how wrong the global clock is, and what it says.

Everything is measured here and now; what others got is beside it, named "elsewhere" where that was
on another machine. Costs and times are ratios within one run. Errors have an exact truth: the
second oscillator is made up (`rust/clocklab/src/accuracy.rs`), the exchanges are real.
"""

from __future__ import annotations

import json
from typing import Any, Final

from scipy import stats

from benchmarks import clock_mpi
from benchmarks.figures import Figure, main, median_interval
from ullage import _clock
from ullage.clock import lab
from ullage.clock.outcomes import CostOptions, Probe, StrictOptions

NS: Final = 1e-9
TOLD: Final = 0.999
"""What the statistical bound claims."""

Json = dict[str, Any]


def accuracy(**options: int) -> Json:
    """Real exchanges against an exact truth."""
    found: Json = json.loads(_clock.lab("accuracy", json.dumps(options), _clock.Progress()))
    return found


def costs(quick: bool) -> list[Figure]:
    """One read, as ratios."""
    asked = CostOptions(rounds=20, reads=50_000) if quick else CostOptions()
    found = {cost.clock: cost for cost in lab.cost(asked, _quiet).clocks}

    def row(clock: Probe, over: Probe, name: str, peer: str, most: float) -> Figure:
        ratio = next(it.ratio for it in found[clock].ratios if it.over == over)
        return Figure(
            name,
            ratio.median,
            "×",
            ratio.low,
            ratio.high,
            peer=peer,
            peer_value=1.0,
            reach=f"at most {most:g} ×",
            holds=ratio.high <= most,
        )

    return [
        row("rvec", "counter", "read, strict and migration-guarded ÷ rdtsc", "rdtsc", 1.35),
        row("rvec-ordered", "monotonic", "ordered read ÷ vDSO", "clock_gettime", 1.2),
    ]


def strictness(quick: bool) -> list[Figure]:
    """Steps that are not forward."""
    asked = StrictOptions(reads=20_000_000, comparisons=2_000_000) if quick else StrictOptions()
    found = lab.strict(asked, _quiet)
    alone = found.alone
    if alone is None:
        raise SystemExit("; ".join(f"{it.what}: {it.why}" for it in found.absent))
    across = {it.clock: it for it in found.across}
    ordered, raw = across.get("rvec-ordered"), across.get("counter")
    figures = [
        Figure(
            "per-thread reads that are no step forward, forced migration",
            alone.backward + alone.equal,
            "",
            reach="none of 1e9",
            holds=alone.backward + alone.equal == 0 if alone.reads >= 10**9 else None,
            note=f"{alone.reads:,} reads, moved {alone.moves:,} times",
        )
    ]
    if ordered is not None:
        figures.append(
            Figure(
                "ordered reads across cores that go back",
                ordered.backward,
                "",
                peer="rdtsc, unfenced" if raw else "",
                peer_value=raw.backward if raw else None,
                reach="none of 1e8",
                holds=ordered.backward == 0 if ordered.comparisons >= 10**8 else None,
                note=f"{ordered.comparisons:,} comparisons",
            )
        )
    return figures


def errors(quick: bool) -> list[Figure]:
    """How wrong, and whether the bounds say so."""
    asked = (
        {"synchronisations": 600, "oscillators": 2, "follow_ns": 22 * 10**9, "firsts": 100}
        if quick
        else {"synchronisations": 12_500}
    )
    found = accuracy(**asked)
    figures = _first(found["first"])
    for key, way in (("memory", "shared memory"), ("udp", "UDP on one host")):
        figures += _ages(found["ages"][key], way)
        figures += _coverage(found["coverage"][key], way)
    return figures


def _first(first: Json) -> list[Figure]:
    pairs = zip(first["capped_ns"], first["published_ns"], strict=True)
    ratio = median_interval([ours / theirs for ours, theirs in pairs])
    took = median_interval(first["capped_ns"])
    messages = first["capped_messages"]["p50_ns"]
    return [
        Figure(
            "first synchronisation ÷ the published rule, UDP",
            ratio.estimate,
            "×",
            ratio.low,
            ratio.high,
            peer="published rule, no caps",
            peer_value=1.0,
            reach="at most 1.5 ×",
            holds=ratio.estimate <= 1.5,
            note=f"{took.estimate / 1000:.0f} µs, {messages:.0f} messages; the longest was"
            f" {first['overrun_ns'] / 1000:.0f} µs over the cap of 1 ms",
        )
    ]


def _ages(ages: Json, way: str) -> list[Figure]:
    aims = way == "shared memory"
    rows = (
        ("error right after", "at_once", 50e-9, "HCA3", 4e-9),
        ("error at 10 s, 11.25 ppm, one shot", "one_shot_10_s", None, "HCA3 100 × 20", 9.8e-6),
        ("error at 10 s, 11.25 ppm, rate known", "rated_10_s", 100e-9, "HCA3 1000 × 100", 53e-9),
        ("traffic for that, both synchronisations", "traffic", 1e-3, "HCA3 1000 × 100", 0.271),
        ("error within 60 s, corrected", "corrected_60_s", 0.2e-6, "HCA3 1000 × 100", 0.9e-6),
    )
    return [
        Figure(
            f"{way}: {name}",
            ages[key]["p50_ns"] * NS,
            "s",
            ages[key]["p01_ns"] * NS,
            ages[key]["p99_ns"] * NS,
            peer=f"{peer}, elsewhere",
            peer_value=theirs,
            reach=f"at most {most:g} s" if aims and most else "",
            holds=ages[key]["p50_ns"] * NS <= most if aims and most else None,
            note=f"median of {ages[key]['count']}, 1 % and 99 %;"
            f" the largest {ages[key]['max_ns'] * NS:.3g} s",
        )
        for name, key, most, peer, theirs in rows
        if ages[key] is not None
    ]


def _coverage(coverage: Json, way: str) -> list[Figure]:
    figures = []
    for key, name in (
        ("now", "right after"),
        ("once", "one synchronisation, ages to 60 s"),
        ("rated", "rate known, ages to 60 s"),
    ):
        case = coverage[key]
        count = case["error"]["count"]
        inside = count - case["outside_bound"]
        interval = stats.binomtest(inside, count).proportion_ci(0.95, "exact")
        figures += [
            Figure(
                f"{way}: inside the statistical bound, {name}",
                inside / count,
                "",
                interval.low,
                interval.high,
                reach=f"at least {TOLD}",
                holds=inside / count >= TOLD,
                note=f"{count} looks, {case['outside_bound']} outside, of the hard bound"
                f" {case['outside_hard']}",
            ),
            Figure(
                f"{way}: statistical bound ÷ 99.9 % of the errors, {name}",
                case["tightness"],
                "×",
                reach="at most 3 ×",
                holds=case["tightness"] <= 3,
                note=f"bound {case['bound']['p50_ns'] * NS:.3g} s, error"
                f" {case['error']['p999_ns'] * NS:.3g} s, hard bound"
                f" {case['hard']['p50_ns'] * NS:.3g} s",
            ),
        ]
    return figures


def _quiet(_done: int, _of: int) -> None:
    pass


def measure(quick: bool) -> list[Figure]:
    """All rows of the issue's table."""
    return [*costs(quick), *clock_mpi.measure(quick), *strictness(quick), *errors(quick)]


if __name__ == "__main__":
    main(measure, __doc__ or "")
