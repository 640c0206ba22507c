"""One line on what a run of so many trials could not have seen."""

from __future__ import annotations

from ullage.analysis.comparison.model import Analysis
from ullage.stats.unseen import unseen


def line(analysis: Analysis) -> str:
    """Of the cell that has the fewest figures among those compared; empty without any."""
    counts = [cell.ok for c in analysis.primary() for cell in (c.environment_cell, c.baseline_cell)]
    fewest = min(counts, default=0)
    return sentence(fewest) if fewest else ""


def sentence(trials: int) -> str:
    """By the exact form of the rule of three, at 95 %."""
    if trials == 1:
        return "One trial of each environment shows nothing of how often anything happens."
    return (
        f"What befalls fewer than {share_words(trials)} of the trials may have happened in none of "
        f"the {trials:,} of an environment: this run cannot tell (`rare:` plans for it)."
    )


def share_words(trials: int) -> str:
    """`22 %`: an event that so many trials miss with a chance of 5 %."""
    return f"{float(f'{100 * unseen(trials):.2g}'):g} %"
