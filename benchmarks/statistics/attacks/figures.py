"""The figures that were asked for under attack, each with its aim and whether it holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.figures import Figure
from benchmarks.statistics.attacks.counts import Struck
from benchmarks.statistics.attacks.totals import CONSTANT, Paid
from benchmarks.statistics.table import Share

COVERED, REFUSED, PAID = 0.92, 0.8, 0.92
BLOCKS = 12
MEMORY = ("AR 0.5, 12 blocks", "AR 0.5, 30 blocks")


def figures(struck: Sequence[Struck], paid: Sequence[Paid]) -> list[Figure]:
    """A row for each; `at most` and `at least` but for the chance of the simulation."""
    by_name = {s.attack.name: s for s in struck}
    return [*_memory(by_name), *_claims(by_name), *_bills(paid)]


def _memory(struck: dict[str, Struck]) -> Iterator[Figure]:
    """Covered, or the misses mostly told."""
    for of in (struck[name] for name in MEMORY if name in struck):
        name = of.attack.name
        covered, warned = of.shares["covered"], of.shares.get("told", Share(0, 1))
        yield row(
            f"coverage, {name} in one environment",
            covered,
            f"at least {COVERED}, or {REFUSED} of the rest refused",
            covered.at_least(COVERED) or warned.value >= REFUSED,
            f"{100 * warned.value:.0f} % of the rest are refused or doubted",
        )


def _claims(struck: dict[str, Struck]) -> Iterator[Figure]:
    """(What is claimed, attack, at most)."""
    aims = (
        ("claim", "biased baseline 3 %, family of 10", 0.05),
        ("claim", "biased baseline 3 %, twice the noise", 0.05),
        ("claim", "5 % of trials × 1.5, family of 10", 0.1),
        ("claim", "5 % of trials × 1.5, family of 30", 0.1),
        *(("better", f"4 % of trials × 2, {n} blocks", 0.05) for n in (6, 12, 30)),
        ("equivalent", "edge of the margin, family of 10, skew", 0.05),
        ("claim", "clean, family of 10", 0.05),
        ("claim", "clean, family of 30", 0.05),
    )
    words = {"claim": "any false claim", "better": "false better", "equivalent": "false equivalent"}
    for kind, name, most in aims:
        if name in struck:
            share = struck[name].shares[kind]
            yield row(f"{words[kind]}, {name}", share, f"at most {most}", share.at_most(most))


def _bills(paid: Sequence[Paid]) -> Iterator[Figure]:
    for of in paid:
        if of.blocks != BLOCKS or of.times == CONSTANT.name:
            continue
        kinds = (("bills", of.bill), ("ratios of totals", of.ratio), ("the same, both", of.both))
        for kind, share in kinds:
            name = f"coverage of {kind}, {of.times}, {BLOCKS} blocks"
            yield row(name, share, f"at least {PAID}", share.at_least(PAID))


def row(name: str, share: Share, reach: str, holds: bool, note: str = "") -> Figure:
    """A figure from a counted share."""
    low, high = share.interval
    campaigns = f"{share.of:,} campaigns"
    return Figure(
        name,
        share.value,
        "",
        low,
        high,
        reach=reach,
        holds=holds,
        note=f"{campaigns}; {note}" if note else campaigns,
    )
