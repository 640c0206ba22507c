"""The trials as a table that can be kept and analysed again: `trials.csv` and `about.json`."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict

from benchmarks.statistics.injection.workloads import SECONDS, WORK, scaled
from ullage.runs.events import Reason, Trial
from ullage.runs.reader import RunFolder
from ullage.runs.records import Resolved

TRIALS: Final = "trials.csv"
ABOUT: Final = "about.json"

Part = Literal["blocks", "sequence", "plausible"]
"""In our order; all of one and then all of the other; hindered instances, in our order."""


class Row(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    part: Part
    run: str
    """Name of the engine's run. Of a sequence: one run for each stretch of equal trials."""
    block: int
    order: int
    position: int
    environment: str
    workload: str
    percent: int
    """Of the nominal work: the exact truth."""
    nominal: int
    status: Literal["ok", "failed", "invalid"]
    seconds: float | None
    """None where it failed."""
    work: int | None
    epoch_ns: int
    start_ns: int
    end_ns: int


class Expected(BaseModel):
    """How long a trial of a hindered environment should take, as far as that is known."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    run: str
    environment: str
    what: str
    low: float
    high: float
    relative: bool
    """The bounds are ratios to the baseline; else seconds."""
    why: str


class Fixed(BaseModel):
    """What a tool takes that does not grow with the work."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    seconds: float
    trial_seconds: float
    """Of a whole trial at factor 1; both are medians."""

    def dilution(self, factor: float) -> float:
        """Relative error of the factor that follows: (s + F(1−s))/F − 1, s the fixed share."""
        share = self.seconds / self.trial_seconds
        return share * (1 - factor) / factor


class About(BaseModel):
    """All that is known beside the trials."""

    model_config = ConfigDict(extra="forbid")

    format: Literal[1] = 1
    size: str
    block: int
    """Blocks in a campaign."""
    works: dict[str, int]
    """Workload → nominal units of work."""
    units: dict[str, str]
    fixed: dict[str, Fixed] = {}
    resolved: dict[str, Resolved] = {}
    """Run → what it was resolved to; not of sequences."""
    expected: list[Expected] = []
    left_out: dict[str, str] = {}
    """What could not be done here, and why."""
    host: dict[str, Any] = {}


@dataclass
class Recording:
    """Everything that one call measured, or has read."""

    about: About
    rows: list[Row] = field(default_factory=list)

    def add(self, part: Part, name: str, folder: RunFolder, percents: Mapping[str, int]) -> None:
        """The trials of a run. percents: environment → percent; a copy is as what it copies."""
        if part != "sequence":
            self.about.resolved[name] = folder.resolved
        nominal = {w.key: int(w.parameters["work"]) for w in folder.resolved.workloads}
        for trial in folder.trials:
            percent = percents[trial.environment]
            self.rows.append(_row(part, name, trial, percent, nominal[trial.workload]))
        self.check_work()

    def of(self, part: Part) -> Iterator[tuple[str, list[Row]]]:
        """The rows of each run of a part, in the order of time."""
        runs: dict[str, list[Row]] = {}
        for row in self.rows:
            if row.part == part:
                runs.setdefault(row.run, []).append(row)
        for name, rows in runs.items():
            yield name, sorted(rows, key=lambda row: row.start_ns)

    def save(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        (directory / ABOUT).write_text(self.about.model_dump_json(indent=1) + "\n")
        with (directory / TRIALS).open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(Row.model_fields))
            writer.writeheader()
            writer.writerows(row.model_dump() for row in self.rows)

    @classmethod
    def load(cls, directory: Path) -> Recording:
        """Read both files; ValueError when they are not what they should be."""
        about = About.model_validate_json((directory / ABOUT).read_text(encoding="utf-8"))
        with (directory / TRIALS).open(newline="", encoding="utf-8") as file:
            rows = [
                Row.model_validate({name: value or None for name, value in line.items()})
                for line in csv.DictReader(file)
            ]
        recording = cls(about, rows)
        recording.check_work()
        return recording

    def check_work(self) -> None:
        """ValueError unless every trial did exactly the work of its factor: else no truth."""
        for row in self.rows:
            expected = scaled(row.nominal, row.percent)
            if row.status == "ok" and row.work != expected:
                raise ValueError(
                    f"{row.run}, block {row.block}, {row.environment}, {row.workload}: did "
                    f"{row.work} units of work in place of {expected}"
                )


def _row(part: Part, name: str, trial: Trial, percent: int, nominal: int) -> Row:
    seconds, work = trial.metrics.get(SECONDS.name), trial.metrics.get(WORK.name)
    return Row(
        part=part,
        run=name,
        block=trial.block,
        order=trial.order,
        position=trial.position,
        environment=trial.environment,
        workload=trial.workload,
        percent=percent,
        nominal=nominal,
        status=trial.status,
        seconds=seconds if isinstance(seconds, float) else None,
        work=int(work) if isinstance(work, float) else None,
        epoch_ns=trial.epoch_ns,
        start_ns=trial.start_ns,
        end_ns=trial.end_ns,
    )


def folder(
    resolved: Resolved, rows: Iterable[Row], again: Sequence[str] | None = None
) -> RunFolder:
    """Rows as the run folder that the product analyses.

    It has the environments and workloads of the rows only, and the time as the only metric. again:
    the environments that count as second copies; None: as the run had it.
    """
    all_rows = list(rows)
    environments = {row.environment for row in all_rows}
    records = [e for e in resolved.environments if e.key in environments]
    if again is not None:
        records = [
            e.model_copy(update={"again_of": resolved.baseline if e.key in again else None})
            for e in records
        ]
    blocks = len({row.block for row in all_rows})
    changed = {
        "environments": tuple(records),
        "workloads": tuple(
            w.model_copy(update={"metrics": (SECONDS,)})
            for w in resolved.workloads
            if w.key in {row.workload for row in all_rows}
        ),
        "blocks": {"min": blocks, "max": blocks},
    }
    return RunFolder(
        Path(), resolved.model_copy(update=changed), tuple(map(_trial, all_rows)), False
    )


def _trial(row: Row) -> Trial:
    metrics = {SECONDS.name: row.seconds} if row.status == "ok" else {}
    return Trial.model_validate(
        {
            "trial": f"b{row.block:03d}-t{row.order:03d}",
            "block": row.block,
            "order": row.order,
            "position": row.position,
            "environment": row.environment,
            "workload": row.workload,
            "status": row.status,
            "reason": None if row.status == "ok" else Reason(code="recorded", message="see there"),
            "epoch_ns": row.epoch_ns,
            "start_ns": row.start_ns,
            "end_ns": row.end_ns,
            "metrics": metrics,
        }
    )
