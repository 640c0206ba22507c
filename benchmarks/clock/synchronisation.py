"""The global clock: how wrong it is, and whether its bounds say so.

Errors have an exact truth: the second oscillator is made up (`rust/clocklab/src/accuracy.rs`), the
exchanges are real. What others got is beside them, named "elsewhere" where that was on another
machine.
"""

from __future__ import annotations

import json
from typing import Any, Final

from scipy import stats

from benchmarks.figures import Figure, main, median_interval
from ullage import _clock

NS: Final = 1e-9
COVERED: Final = 0.999
"""What the statistical bound claims."""

Json = dict[str, Any]


def accuracy(**options: int) -> Json:
    """Real exchanges against an exact truth."""
    outcome: Json = json.loads(_clock.lab("accuracy", json.dumps(options), _clock.Progress()))
    return outcome


def measure(quick: bool) -> list[Figure]:
    """How wrong, and whether the bounds say so."""
    options = (
        {"synchronisations": 600, "oscillators": 2, "follow_ns": 22 * 10**9, "firsts": 100}
        if quick
        else {"synchronisations": 12_500}
    )
    outcome = accuracy(**options)
    figures = _first(outcome["first"])
    for key, way in (("memory", "shared memory"), ("udp", "UDP on one host")):
        figures += _ages(outcome["ages"][key], way)
        figures += _coverage(outcome["coverage"][key], way)
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
                reach=f"at least {COVERED}",
                holds=inside / count >= COVERED,
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


if __name__ == "__main__":
    main(measure, __doc__ or "")
