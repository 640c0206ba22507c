"""How many viewers a node takes, where an earlier run has measured it.

Step 1 of ElasticMovie: how many streams an instance serves without a violation. The workload
`streaming` looks for that number; here it becomes the room of a node, for each environment its own.
It holds for the bit rate and the node at which it was measured, so another run's is no figure.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ullage.common.errors import ELASTIC_NO_CAPACITY, UllageError
from ullage.environments.placement import Resources
from ullage.experiments.elastic.folder import Capacity
from ullage.runs.reader import RunFolder
from ullage.runs.records import WorkloadRecord

_WORKLOAD: Final = "streaming"
_FIGURE: Final = "viewers"


@dataclass(frozen=True)
class Rates:
    """Of a film, in bit/s."""

    bitrate: float
    sent: float | None
    """None: as it plays."""

    def __str__(self) -> str:
        own = "" if self.sent is None else f" and `sent: {self.sent:.0f}`"
        return f"`bitrate: {self.bitrate:.0f}`{own}"


def measured(path: Path, key: str, resources: Resources, rates: Rates) -> Capacity:
    """What its trials have found, of that environment; ELASTIC_NO_CAPACITY where they do not fit.

    resources: of a node.
    """
    run = RunFolder.open(path)
    reasons = [*_other_setting(run, key, resources)]
    search = _search(run.resolved.workloads, rates)
    if search is None:
        reasons.append(f"no workload `{_WORKLOAD}` with {rates} looks for the largest number")
    if reasons or search is None:
        raise _none(path, key, "; ".join(reasons))
    numbers = sorted(
        figure
        for trial in run.trials
        if (trial.environment, trial.workload, trial.status) == (key, search.key, "ok")
        and isinstance(figure := trial.metrics.get(_FIGURE), float)
    )
    if not numbers or statistics.median(numbers) < 1:
        raise _none(path, key, "no trial has a figure, or not one viewer could be served")
    return Capacity(
        run=run.resolved.run,
        environment=key,
        viewers=math.floor(statistics.median(numbers)),
        trials=len(numbers),
        lowest=math.floor(numbers[0]),
        highest=math.floor(numbers[-1]),
    )


def _other_setting(run: RunFolder, key: str, resources: Resources) -> Sequence[str]:
    """What is not as here."""
    environments = {environment.key: environment for environment in run.resolved.environments}
    if key not in environments:
        return [f"its environments are {', '.join(environments)}"]
    if (instances := environments[key].nuisances.get("instances", "1")) != "1":
        return [f"{instances} instances of it served together, and a node is one"]
    return [
        f"`resources: {name}` is {there} there and {here} here"
        for name, here in resources.model_dump(mode="json").items()
        if (there := run.resolved.resources.get(name)) != here
    ]


def _search(workloads: Sequence[WorkloadRecord], rates: Rates) -> WorkloadRecord | None:
    """The one that looked for the largest number, at these rates."""
    searches = (
        record
        for record in workloads
        if record.workload == _WORKLOAD
        and record.parameters.get("viewers") is None
        and record.parameters.get("bitrate") == rates.bitrate
        and record.parameters.get("sent") == rates.sent
    )
    return next(searches, None)


def _none(path: Path, key: str, reason: str) -> UllageError:
    return UllageError(ELASTIC_NO_CAPACITY, run=path, environment=key, reason=reason)
