"""A read of the clock: what it costs, and how strict it is.

Both are measured here and now. Costs are ratios within one run.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.figures import Figure, main
from ullage.experiments.clock import lab
from ullage.experiments.clock.outcomes import ClockReader, CostOptions, StrictOptions


def costs(quick: bool) -> list[Figure]:
    """One read, as ratios."""
    options = CostOptions(rounds=20, reads=50_000) if quick else CostOptions()
    costs_by_clock = {cost.clock: cost for cost in lab.cost(options, _quiet).clocks}

    def row(clock: ClockReader, over: ClockReader, name: str, peer: str, most: float) -> Figure:
        ratio = next(cost.ratio for cost in costs_by_clock[clock].ratios if cost.over == over)
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
    options = StrictOptions(reads=20_000_000, comparisons=2_000_000) if quick else StrictOptions()
    outcome = lab.strict(options, _quiet)
    alone = outcome.alone
    if alone is None:
        raise SystemExit("; ".join(f"{absent.what}: {absent.why}" for absent in outcome.absent))
    across = {strictness.clock: strictness for strictness in outcome.across}
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


def _quiet(_done: int, _of: int) -> None:
    pass


def measure(quick: bool) -> Iterator[Figure]:
    yield from costs(quick)
    yield from strictness(quick)


if __name__ == "__main__":
    main(measure, __doc__ or "")
