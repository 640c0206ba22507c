"""The tables of what hurts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from benchmarks.statistics.attacks import counts
from benchmarks.statistics.attacks.counts import ANY, Struck
from benchmarks.statistics.attacks.totals import CONFIDENCE, Paid
from benchmarks.statistics.table import Share, Table, percent


def attacked(struck: Sequence[Struck]) -> Table:
    """What is said under each attack."""
    table = Table(
        "Attacks",
        [
            "attack",
            "family",
            "blocks",
            "campaigns",
            "covered",
            "refused",
            "covered or refused",
            "any false claim",
            "false better",
            "false equivalent",
        ],
        says="Percent of campaigns, each analysed as `ullage show` analyses a run. Covered: the "
        "interval of one comparison with the environment under attack holds the truth. Refused: "
        "that comparison has no verdict, or a doubt that is serious (“Read with care”). Then any "
        "comparison of the family that is called worse or better, better, or equivalent, against "
        "the truth. Geometric means of all environments are equal but for what is named. Doubts "
        f"are looked for in the first {counts.READ_WHOLE:,} campaigns of each.",
    )
    for of in struck:
        layout, shares = of.attack.layout, of.shares
        table.rows.append(
            [
                of.attack.name,
                str(layout.family),
                str(layout.blocks),
                f"{of.campaigns:,}",
                *(
                    percent(shares[name])
                    for name in (
                        "covered",
                        "refused",
                        "covered or refused",
                        "claim",
                        "better",
                        "equivalent",
                    )
                ),
            ]
        )
    table.notes = [
        f"{of.attack.name}: {of.attack.says}." for of in struck if of.attack.says != "the same"
    ]
    return table


def doubts(struck: Sequence[Struck]) -> Table:
    """Does a doubt speak where it should?"""
    table = Table(
        "Doubts, given that the verdict is false",
        ["doubt", "of all false verdicts", "most in", "of clean comparisons"],
        says="Percent of the false verdicts under all attacks that the doubt stands beside; the "
        "attack in which it speaks most often (of those with 20 false verdicts or more); and of "
        "comparisons in which nothing is wrong.",
    )
    clean = [of for of in struck if of.attack.name.startswith("clean")]
    wrong = sum(of.false_verdicts for of in struck)
    quiet = sum(of.comparisons for of in clean)
    beside, alarms = Counter[str](), Counter[str]()
    for of in struck:
        beside.update(of.spoke)
    for of in clean:
        alarms.update(of.spoke_at_all)
    codes = sorted({*beside, *alarms}, key=lambda code: (code != ANY, -beside[code], code))
    for code in codes:
        table.rows.append(
            [
                code,
                _of(beside[code], wrong),
                _most(struck, code),
                _of(alarms[code], quiet),
            ]
        )
    table.notes = [f"{wrong:,} false verdicts, {quiet:,} clean comparisons."]
    return table


def unheard(struck: Sequence[Struck]) -> Table:
    """Which false verdicts no doubt stands beside."""
    table = Table(
        "False verdicts, attack by attack",
        ["attack", "false verdicts", "with a serious doubt", "doubts beside them"],
        says="Percent of the false verdicts; a verdict may have several doubts.",
    )
    for of in struck:
        if not of.false_verdicts:
            continue
        codes = [
            f"{code} {_of(count, of.false_verdicts)}"
            for code, count in of.spoke.most_common()
            if code != ANY
        ]
        serious = _of(of.spoke[ANY], of.false_verdicts)
        row = [of.attack.name, f"{of.false_verdicts:,}", serious, ", ".join(codes) or "none"]
        table.rows.append(row)
    return table


def totals(paid: Sequence[Paid]) -> Table:
    """Coverage of what is paid."""
    table = Table(
        "Coverage of totals and bills",
        ["trials", "blocks", "bill", "ratio of totals", "ratio, the baseline alike"],
        says=f"Percent of {paid[0].bill.of:,} campaigns in which the {100 * CONFIDENCE:g} % "
        "interval of the arithmetic mean, or of the ratio of two, holds the truth. The ratio is to "
        "a baseline of constant spread, then to one whose trials are as wild.",
    )
    for of in paid:
        cells = (percent(share) for share in (of.bill, of.ratio, of.both))
        table.rows.append([of.times, str(of.blocks), *cells])
    table.notes = [
        "20 % of trials × 5: 26.2 % of samples of 6 trials, and 6.9 % of 12, have no slow one; no "
        "interval made of such a sample can cover."
    ]
    return table


def _most(struck: Sequence[Struck], code: str) -> str:
    """`robust-disagrees` → `coarse constant, 40 blocks: 77.0`."""
    shares = [
        (of.spoke[code] / of.false_verdicts, of.attack.name)
        for of in struck
        if of.false_verdicts >= 20 and of.spoke[code]
    ]
    return "" if not shares else f"{max(shares)[1]}: {100 * max(shares)[0]:.1f}"


def _of(hits: int, of: int) -> str:
    return percent(Share(hits, of)) if of else ""
