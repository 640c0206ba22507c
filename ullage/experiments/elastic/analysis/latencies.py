"""What nodes took to come, as measured: of a run's folder, or of somebody's table."""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from ullage.common.errors import (
    SIMULATION_BAD_TABLE,
    SIMULATION_NO_LATENCIES,
    UllageError,
)
from ullage.common.regular import read_document
from ullage.experiments.elastic.analysis.reading import ElasticRun
from ullage.experiments.elastic.folder import Act, Ready, Requested
from ullage.runs.allocations import Batch, Copy
from ullage.runs.events import Trial
from ullage.runs.reader import ORDINARY, RunFolder, is_elastic

WORKLOAD: Final = "provisioning"
RAW: Final = "main*.stdout"
"""What a trial keeps of each of its batches."""


def of_provisioning(
    path: Path, environment: str | None, copy: Copy | None
) -> dict[int, list[float]]:
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
    own = [record.key for record in run.resolved.environments if record.again_of is None]
    chosen = _chosen(path, environment, own, "environment")
    copied = _chosen(path, copy, sorted(set(copies.values())), "copy")
    latencies: dict[int, list[float]] = defaultdict(list)
    for trial in run.trials:
        counts = trial.status == "ok" and trial.environment == chosen
        if not counts or copies.get(trial.workload) != copied:
            continue
        for batch in _batches(run, trial):
            latencies[len(batch.instances)] += _took(run, trial, batch)
    if not latencies:
        raise _none(path, f"no trial of {WORKLOAD} in {chosen} has figures")
    return latencies


def _chosen(path: Path, choice: str | None, names: Sequence[str], field: str) -> str:
    """The one that was given, or the only one that there is."""
    if choice in names:
        return str(choice)
    if choice is None and len(names) == 1:
        return names[0]
    raise _none(path, f"say with `{field}` one of {', '.join(names)}")


def _batches(run: RunFolder, trial: Trial) -> Iterator[Batch]:
    files = sorted(run.raw(f"trials/{trial.trial}").glob(RAW))
    if not files:
        raise ORDINARY.bad(
            run.path, f"trial {trial.trial} has no {RAW}: the times of its instances are lost"
        )
    for file in files:
        ORDINARY.hold(run.path, str(file.relative_to(run.path.resolve())), trial.files)
        try:
            yield Batch.model_validate_json(read_document(file, root=run.path.resolve()))
        except (OSError, ValidationError) as error:
            reason = f"trial {trial.trial}: {file.name} is no record of a batch of instances"
            raise ORDINARY.bad(run.path, reason) from error


def _took(run: RunFolder, trial: Trial, batch: Batch) -> list[float]:
    """TaR: from an instance's request until it was up."""
    took = []
    for instance in batch.instances:
        asked_ns, up_ns = instance.steps.get("asked"), instance.steps.get("up")
        if asked_ns is None or up_ns is None or up_ns < asked_ns:
            raise ORDINARY.bad(
                run.path, f"trial {trial.trial}: an instance was not asked for, then up"
            )
        took.append((up_ns - asked_ns) / 1e9)
    return took


def _none(path: Path, reason: str) -> UllageError:
    return UllageError(SIMULATION_NO_LATENCIES, source=path, reason=reason)


LEAST: Final = 3
"""With fewer values a number of nodes at a time has no distribution of its own."""

MOST_ROWS: Final = 1_000_000
LONGEST_S: Final = 1e9

Latencies = Mapping[int, Sequence[float]]
"""Nodes that were allocated at the same time, this one included → seconds that each took."""


def of_run(path: Path, environment: str | None, copy: Copy | None = None) -> Latencies:
    """Of an elastic run its nodes, of an ordinary one the trials of `provisioning`.

    RUN_NOT_FOUND, RUN_BAD_FORMAT, SIMULATION_NO_LATENCIES.
    """
    if not is_elastic(path):
        return of_provisioning(path, environment, copy)
    if copy is not None:
        raise _none(path, "it is an elastic run, in which there is no `copy` to choose")
    return _of_elastic(path, environment)


def _of_elastic(path: Path, environment: str | None) -> Latencies:
    """From the front's request until it was told that the node streams, in the users' time.

    What a machine takes it takes in any time scale; a delay that was injected counts as the users
    felt it.
    """
    run = ElasticRun.open(path)
    keys = [record.key for record in run.resolved.environments]
    chosen = _chosen(path, environment, keys, "environment")
    latencies: dict[int, list[float]] = defaultdict(list)
    for repetition in run.of(chosen):
        if not repetition.counts:
            continue
        for concurrent, act, seconds in allocations(repetition.acts):
            injected = act.injected_s * (run.resolved.time_scale - 1)
            latencies[concurrent].append(seconds + injected)
    if not latencies:
        raise _none(path, "no node became ready in a repetition that counts")
    return latencies


def allocations(acts: Iterable[Act]) -> list[tuple[int, Ready, float]]:
    """Of each node that became ready: how many were being allocated when it began, and seconds."""
    acts = list(acts)
    asked_ns = {act.node: act.front_ns for act in acts if isinstance(act, Requested)}
    over = {act.node: act.at_ns for act in acts if act.event in ("ready", "not-ready")}
    ready = [act for act in acts if isinstance(act, Ready) and act.node in asked_ns]
    begun = sorted(asked_ns.items(), key=lambda item: item[1])
    result = []
    for act in ready:
        at = asked_ns[act.node]
        # Of those begun at the same instant the first has the fewest beside it.
        concurrent = sum(
            over.get(node, math.inf) > at
            for node, begun_ns in begun
            if (begun_ns, node) <= (at, act.node)
        )
        result.append((concurrent, act, (act.at_ns - at) / 1e9))
    return result


def of_table(file: Path, environment: str | None) -> Latencies:
    """Of a CSV with a header: `seconds`, and where known `concurrent` and `environment`.

    SIMULATION_BAD_TABLE, SIMULATION_NO_LATENCIES.
    """
    latencies: dict[int, list[float]] = defaultdict(list)
    try:
        with file.open(encoding="utf-8-sig", newline="") as stream:
            for line, row in _rows(file, stream):
                if environment is None or _named(file, line, row) == environment:
                    concurrent = _number(file, line, row, "concurrent", "1")
                    if concurrent < 1 or concurrent != int(concurrent) or concurrent >= 2**31:
                        raise _bad(file, line, f"concurrent is {concurrent:g}, not 1 or more")
                    latencies[int(concurrent)].append(_number(file, line, row, "seconds"))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise _bad(file, 1, getattr(error, "strerror", None) or str(error)) from error
    if not latencies:
        rows_of = f" of {environment}" if environment is not None else ""
        raise _none(file, f"it has no rows{rows_of}")
    return latencies


def _rows(file: Path, stream: Iterable[str]) -> Iterable[tuple[int, dict[str, Any]]]:
    reader = csv.DictReader(stream)
    names = reader.fieldnames or ()
    if "seconds" not in names:
        raise _bad(
            file, 1, f"no column is called `seconds`; there are {', '.join(names) or 'none'}"
        )
    for number, row in enumerate(reader):
        if number >= MOST_ROWS:
            raise _bad(file, reader.line_num, f"more than {MOST_ROWS} rows")
        yield reader.line_num, row


def _named(file: Path, line: int, row: Mapping[str, Any]) -> str:
    if "environment" not in row:
        raise _bad(file, line, "no column is called `environment`")
    return str(row["environment"])


def _number(
    file: Path, line: int, row: Mapping[str, Any], name: str, default: str | None = None
) -> float:
    text = row.get(name, default)
    try:
        value = float(text if text is not None else "")
    except ValueError:
        value = math.nan
    if not 0 <= value <= LONGEST_S:
        raise _bad(file, line, f"{name} is {str(text)[:40]!r}, not a number from 0 to 1e9")
    return value


def _bad(file: Path, line: int, reason: str) -> UllageError:
    return UllageError(SIMULATION_BAD_TABLE, file=file, line=line, reason=reason)


def rows(measured: Latencies, name: str = "allocation") -> list[dict[str, Any]]:
    """As the simulator has them: a distribution for each number at a time that has enough values.

    Those of a number with too few go to the next smaller one that has enough, or to the first.
    """
    groups: dict[int, list[float]] = {1: []}
    for concurrent, values in sorted(measured.items()):
        if len(values) >= LEAST and groups[1]:
            groups[concurrent] = list(values)
        else:
            groups[max(groups)].extend(values)
    return [
        {
            "concurrent": concurrent,
            "stages": [{"name": name, "time": {"kind": "empirical", "values_s": values}}],
        }
        for concurrent, values in groups.items()
    ]
