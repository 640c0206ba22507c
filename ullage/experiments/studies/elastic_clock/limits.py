"""Step 1: what kept the streams of a host from being more, as each trial says of itself."""

from __future__ import annotations

from collections import Counter
from typing import Final

from ullage.experiments.studies.base import Column, DerivedRow, DerivedTable
from ullage.experiments.studies.measured import StudiedRun
from ullage.experiments.studies.within import environments, label, workloads
from ullage.runs.records import WorkloadRecord

LIMIT: Final = "limit"
"""Fact of a trial of `streaming`: `the link: 97% used`."""


def table(run: StudiedRun) -> DerivedTable | None:
    """A row an environment and number: its limits, with the trials that had each; None of none."""
    rows = [
        DerivedRow(label=_label(run, environment, record), cells=(_limits(limits),))
        for record in workloads(run.folder, "streaming")
        for environment in environments(run.folder)
        if (limits := _counted(run, environment, record))
    ]
    if not rows:
        return None
    return DerivedTable(
        key="limits-fresh",
        caption="What was the limit of the streams",
        of="environment and work",
        columns=(Column(title="limit, and trials that had it"),),
        rows=tuple(rows),
        notes=(
            "Of the step that was no longer sustained: whatever was used up first of the viewers' "
            "own CPU, the servers', this host's, and the link. Where it is the link, equal numbers "
            "of streams say nothing of who could serve more.",
        ),
    )


def _label(run: StudiedRun, environment: str, record: WorkloadRecord) -> str:
    return f"{label(run.folder, environment)}, {record.title}"


def _counted(run: StudiedRun, environment: str, record: WorkloadRecord) -> Counter[str]:
    """Limit, without its share → trials with a figure."""
    return Counter(
        trial.facts[LIMIT].partition(":")[0]
        for trial in run.folder.trials
        if (trial.environment, trial.workload) == (environment, record.key)
        and trial.status == "ok"
        and LIMIT in trial.facts
    )


def _limits(limits: Counter[str]) -> str:
    return "; ".join(f"{limit} ({number})" for limit, number in limits.most_common())
