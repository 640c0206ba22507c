"""Lanes of charts and rows of tables: an environment, or in a duet an environment and its partner.

The baseline of a duet has trials beside every other environment. These are different things, as
each partner loads it in its own way, so they never share a lane, a median or a row.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from ullage.analysis.model import Analysis
from ullage.analysis.words import SIDE_BY_SIDE
from ullage.events import Trial
from ullage.runs import Design, EnvironmentRecord, Resolved


def key(design: Design, environment: str, partner: str) -> str:
    """Key of the lane in which the trials of `environment` beside `partner` stand."""
    return f"{environment} beside {partner}" if design == "duet" else environment


def apart(
    resolved: Resolved, trials: Sequence[Trial]
) -> tuple[tuple[EnvironmentRecord, ...], tuple[Trial, ...]]:
    """Environments and trials by lane: as they are, or of a duet renamed by their partner.

    The two lanes of a pair are neighbours.
    """
    if resolved.design == "solo":
        return resolved.environments, tuple(trials)
    records = {e.key: e for e in resolved.environments}
    ran = {(t.environment, t.partner) for t in trials if t.partner is not None}
    order = [
        side
        for one, other in itertools.combinations(records, 2)
        for side in ((one, other), (other, one))
        if side in ran
    ]
    lanes = [
        records[one].model_copy(
            update={
                "key": key("duet", one, other),
                "label": f"{records[one].label} beside {records[other].label}",
            }
        )
        for one, other in order
    ]
    moved = [
        t.model_copy(update={"environment": key("duet", t.environment, t.partner)})
        for t in trials
        if t.partner is not None
    ]
    return tuple(lanes), tuple(moved)


def suffix(analysis: Analysis) -> str:
    """What every caption and label of a duet says."""
    return f", {SIDE_BY_SIDE}" if analysis.design == "duet" else ""
