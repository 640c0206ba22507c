"""What nodes took to come, as the trials of `provisioning` in an ordinary run measured it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from ullage.allocation_record import Batch, Copy
from ullage.errors import RUN_BAD_FORMAT, SIMULATION_NO_LATENCIES, UllageError
from ullage.events import Trial
from ullage.folder import RunFolder
from ullage.runs import FORMAT

WORKLOAD: Final = "provisioning"
RAW: Final = "main*.stdout"
"""What a trial keeps of each of its batches."""


def of_run(path: Path, environment: str | None, copy: Copy | None) -> dict[int, list[float]]:
    """Instances asked for at the same time → the TaR of each, in seconds, over all good trials.

    RUN_NOT_FOUND, RUN_BAD_FORMAT, SIMULATION_NO_LATENCIES.
    """
    run = RunFolder.open(path)
    copies = {
        load.key: str(load.parameters.get("copy"))
        for load in run.resolved.workloads
        if load.workload == WORKLOAD
    }
    if not copies:
        raise _none(path, f"none of its workloads is {WORKLOAD}")
    own = [each.key for each in run.resolved.environments if each.again_of is None]
    chosen = _chosen(path, environment, own, "environment")
    copied = _chosen(path, copy, sorted(set(copies.values())), "copy")
    found: dict[int, list[float]] = defaultdict(list)
    for trial in run.trials:
        counts = trial.status == "ok" and trial.environment == chosen
        if not counts or copies.get(trial.workload) != copied:
            continue
        for batch in _batches(run, trial):
            found[len(batch.instances)] += _took(run, trial, batch)
    if not found:
        raise _none(path, f"no trial of {WORKLOAD} in {chosen} has figures")
    return found


def _chosen(path: Path, given: str | None, there: Sequence[str], field: str) -> str:
    """The one that was given, or the only one that there is."""
    if given in there:
        return str(given)
    if given is None and len(there) == 1:
        return there[0]
    raise _none(path, f"say with `{field}` one of {', '.join(there)}")


def _batches(run: RunFolder, trial: Trial) -> Iterator[Batch]:
    files = sorted(run.raw(f"trials/{trial.trial}").glob(RAW))
    if not files:
        raise _bad(
            run.path, f"trial {trial.trial} has no {RAW}: the times of its instances are lost"
        )
    for file in files:
        try:
            yield Batch.model_validate_json(file.read_bytes())
        except (OSError, ValidationError) as error:
            reason = f"trial {trial.trial}: {file.name} is no record of a batch of instances"
            raise _bad(run.path, reason) from error


def _took(run: RunFolder, trial: Trial, batch: Batch) -> list[float]:
    """TaR: from an instance's request until it was up."""
    took = []
    for each in batch.instances:
        asked, up = each.steps.get("asked"), each.steps.get("up")
        if asked is None or up is None or up < asked:
            raise _bad(run.path, f"trial {trial.trial}: an instance was not asked for, then up")
        took.append((up - asked) / 1e9)
    return took


def _none(path: Path, reason: str) -> UllageError:
    return UllageError(SIMULATION_NO_LATENCIES, source=path, reason=reason)


def _bad(path: Path, reason: str) -> UllageError:
    return UllageError(RUN_BAD_FORMAT, path=path, format=FORMAT, reason=reason)
