"""The run's own copy of the trace that its plan names.

A relative path in a plan is one from where the command was started, as in any plan. So that a run
is taken up from anywhere, and although the file has changed, it goes by what it was given first.
"""

from __future__ import annotations

from pathlib import Path

from ullage.elastic import folder as folders
from ullage.elastic.plan import ElasticPlan
from ullage.journal import put


def keep(plan: ElasticPlan, run: Path) -> ElasticPlan:
    """Copy it into the run's folder; the plan that reads it there. OSError."""
    if plan.arrivals.file is None:
        return plan
    put(run / folders.TRACE, plan.arrivals.file.read_bytes())
    return kept(plan, run)


def kept(plan: ElasticPlan, run: Path) -> ElasticPlan:
    """The plan with the copy of an earlier session; as it is where there is none."""
    file = run / folders.TRACE
    if plan.arrivals.file is None or not file.is_file():
        return plan
    arrivals = plan.arrivals.model_copy(update={"file": file})
    return plan.model_copy(update={"arrivals": arrivals})
