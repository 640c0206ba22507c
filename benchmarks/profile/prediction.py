"""How near does a profile come to what an application really costs elsewhere?

Applications are profiled on this host (`ullage profile`). One run then measures them, and the
resources by the tools that people trust for them, on the machine itself, in an OCI and an LXC
container, and in a VM. The prediction (from the profile and the resources' ratios) is put beside
the measured ratio of the application, which it has not seen. Programs that nobody looked at while
the method was made have a line of their own. `--keep DIR` keeps profiles and run, and `--from DIR`
tells the same of them without measuring again; `--only NAME` takes one program.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from benchmarks.figures import Figure, median_interval, options, write
from benchmarks.profile.applications import EVERY, HELD_OUT, PACKAGES, Application, material
from benchmarks.progress import FaultsOnly
from ullage import environments, workloads
from ullage.analysis import overhead
from ullage.analysis.comparison.model import Analysis, Comparison
from ullage.analysis.profiles.model import Prediction, Profile
from ullage.analysis.profiles.prediction import predict
from ullage.common.errors import UllageError
from ullage.common.files import put
from ullage.common.quantities import Bytes
from ullage.engine.engine import Engine
from ullage.environments.base import Provider
from ullage.environments.native import Native
from ullage.environments.placement import Resources
from ullage.experiments.profile import run
from ullage.experiments.profile.request import ProfileRequest
from ullage.plan.matrix import Case, Environment, Matrix
from ullage.plan.schema import Blocks, EnvironmentPlan, Plan, WorkloadPlan
from ullage.runs import writer
from ullage.runs.reader import RunFolder, newest_run
from ullage.workloads.command import CommandParameters, OwnCommand

REACH: Final = 0.1
"""Aim for the median absolute error."""
ENVIRONMENTS: Final = {"native": "native", "oci": "oci", "lxc": "lxc", "vm": "qemu"}
"""Key → provider; native is the baseline."""
RESOURCES: Final[Mapping[str, Mapping[str, Any]]] = {
    "sysbench-cpu": {"time_s": 1},
    "sysbench-memory": {"time_s": 1, "block_size": 64 << 20},
    "sysbench-fileio": {"total_size": 128 << 20, "files": 4, "time_s": 1},
    "iperf3": {"time_s": 1},
}
"""The workloads that tell a resource's ratio. Memory beyond the caches, as the profile's probe."""
PROFILE: Final = ".profile.json"
"""How the file of a program's profile ends."""


class Installed(OwnCommand):
    """A command with what it works on."""

    def __init__(self, material: Mapping[str, Path]) -> None:
        self.material = material

    def files(self, parameters: CommandParameters) -> Mapping[str, Path]:
        return self.material


@dataclass(frozen=True)
class Sizes:
    """How much is done."""

    blocks: int
    repeat: int
    budget_s: float
    """Of each profile."""


QUICK: Final = Sizes(blocks=3, repeat=4, budget_s=240)
FULL: Final = Sizes(blocks=8, repeat=12, budget_s=900)


@dataclass(frozen=True)
class Cell:
    """One application in one environment."""

    application: str
    prediction: Prediction
    measured: Comparison

    @property
    def error(self) -> float:
        """Of the prediction, relative to what was measured."""
        assert self.measured.ratio is not None
        return self.prediction.overhead.estimate / self.measured.ratio - 1

    @property
    def agrees(self) -> bool:
        """Do the two intervals overlap?"""
        interval, span = self.measured.interval, self.prediction.overhead
        return interval is not None and interval.low <= span.high and interval.high >= span.low


def measure(
    quick: bool, *, keep: Path | None = None, only: Sequence[Application] = EVERY
) -> list[Figure]:
    """Profile, run, predict, compare; `keep`: where profiles and run stay."""
    sizes = QUICK if quick else FULL
    with tempfile.TemporaryDirectory(prefix="ullage-prediction-") as name:
        root = Path(name)
        folder = keep or root / "kept"
        folder.mkdir(parents=True, exist_ok=True)
        material(root)
        for application in only:
            file = folder / f"{application.key}{PROFILE}"
            file.unlink(missing_ok=True)
            if (profile := _profiled(application, root, sizes)) is not None:
                put(file, profile.model_dump_json().encode())
        _measured(root, folder, only, sizes)
        return figures_of_kept(folder)


def figures_of_kept(folder: Path) -> list[Figure]:
    """The same of what was kept: the profiles, and the newest run."""
    profiles = {
        application.key: Profile.model_validate_json(file.read_bytes())
        for application in EVERY
        if (file := folder / f"{application.key}{PROFILE}").is_file()
    }
    analysis = overhead.analyse(RunFolder.open(newest_run(folder / "runs")))
    return figures(cells(profiles, analysis), profiles)


def _profiled(application: Application, root: Path, sizes: Sizes) -> Profile | None:
    """Its weights; None, and the reason is said, where there are none."""
    request = ProfileRequest(
        argv=application.argv,
        directory=root,
        variables={"PATH": os.environ["PATH"], "LC_ALL": "C"},
        repeat=sizes.repeat,
        budget_s=sizes.budget_s,
    )
    print(f"profiling {application.key}", file=sys.stderr)
    try:
        return asyncio.run(run.run(request, root / "profiles", FaultsOnly()))
    except UllageError as error:
        print(f"no profile of {application.key}: {error}", file=sys.stderr)
        return None


def _measured(root: Path, keep: Path, only: Sequence[Application], sizes: Sizes) -> None:
    """The run with the applications and the resources."""
    resources = Resources(cpus=1, memory=Bytes(1 << 30))
    environments = tuple(
        Environment(key, key, _provider(kind), {}, resources, 1)
        for key, kind in ENVIRONMENTS.items()
    )
    loads = tuple(_load(application, root) for application in only) + tuple(
        _resource(name, fields) for name, fields in RESOURCES.items()
    )
    plan = Plan.model_validate(
        {
            "name": "prediction",
            "baseline": "native",
            "resources": resources,
            "environments": {k: EnvironmentPlan(provider=p) for k, p in ENVIRONMENTS.items()},
            "workloads": [WorkloadPlan(name=load.key) for load in loads],
            "blocks": Blocks(min=sizes.blocks, max=sizes.blocks),
        }
    )
    folder = writer.new_folder(keep / "runs", plan.name)
    asyncio.run(Engine(plan, Matrix("native", environments, loads), folder, FaultsOnly()).run())


class Stocked(Native):
    """The native environment, whose image has the applications."""

    def packages(self) -> tuple[str, ...]:
        return tuple(sorted(set(PACKAGES)))


def _provider(kind: str) -> Provider:
    provider = Stocked if kind == Stocked.name else environments.get(kind)
    return provider(provider.options_model())


def _resource(name: str, fields: Mapping[str, Any]) -> Case:
    workload = workloads.get(name)
    return Case(name, name, workload, workload.parameters_model.model_validate(fields), {})


def _load(application: Application, root: Path) -> Case:
    files = {name: root / name for name in application.files}
    parameters = CommandParameters(
        argv=list(application.argv), expect_output=application.says, timeout_s=300
    )
    return Case(application.key, application.key, Installed(files), parameters, {})


def cells(profiles: Mapping[str, Profile], analysis: Analysis) -> list[Cell]:
    """Every application that has a profile, in every environment where it was measured."""
    predicted: list[Cell] = []
    for key, profile in profiles.items():
        measured = {
            c.environment: c
            for c in analysis.primary()
            if c.workload == key and c.ratio is not None and not c.no_verdict
        }
        try:
            predictions = predict(profile, analysis).predictions
        except UllageError as error:
            print(f"no prediction for {key}: {error}", file=sys.stderr)
            continue
        predicted += [
            Cell(key, prediction, measured[prediction.environment])
            for prediction in predictions
            if prediction.environment in measured
        ]
    return predicted


def figures(predicted: Sequence[Cell], profiles: Mapping[str, Profile]) -> list[Figure]:
    """A row for each cell; the median absolute error of each environment and over all of them, and
    apart from these that of the programs that were held out."""
    rows = [_row(cell, profiles) for cell in predicted]
    names = {application.key for application in HELD_OUT}
    apart = [cell for cell in predicted if cell.application in names]
    tuned = [cell for cell in predicted if cell.application not in names]
    for environment in dict.fromkeys(cell.prediction.environment for cell in tuned):
        of = [abs(c.error) for c in tuned if c.prediction.environment == environment]
        rows.append(_median(f"median error, {environment}", of))
    if apart:
        line = _median("median error, programs held out", [abs(cell.error) for cell in apart])
        held_out = ", ".join(dict.fromkeys(cell.application for cell in apart))
        rows.append(replace(line, note=f"{held_out}: never used while the method was tuned"))
    every = [abs(cell.error) for cell in tuned]
    if every:
        total = _median("median error of the predicted overhead", every)
        agree = sum(cell.agrees for cell in tuned)
        note = f"{len(tuned)} cells; in {agree} the two intervals overlap"
        rows.append(
            replace(
                total,
                reach=f"under {100 * REACH:g} %",
                holds=total.value < 100 * REACH,
                note=note,
            )
        )
    return rows


def _median(name: str, errors: Sequence[float]) -> Figure:
    middle = median_interval([100 * error for error in errors])
    return Figure(name=name, value=middle.estimate, unit="%", low=middle.low, high=middle.high)


def _row(cell: Cell, profiles: Mapping[str, Profile]) -> Figure:
    span, profile = cell.prediction.overhead, profiles[cell.application]
    weights = ", ".join(f"{w.name} {w.share.estimate:.2f}" for w in profile.weights)
    return Figure(
        name=f"{cell.application} in {cell.prediction.environment}",
        value=span.estimate,
        unit="×",
        low=span.low,
        high=span.high,
        peer="measured",
        peer_value=cell.measured.ratio,
        note=f"{100 * cell.error:+.0f} %; {weights}",
    )


def main() -> None:
    parser = options(__doc__ or "")
    applications = {application.key: application for application in EVERY}
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--keep", type=Path, metavar="DIR", help="keep profiles and run there")
    where.add_argument(
        "--from",
        type=Path,
        metavar="DIR",
        dest="kept",
        help="tell of what was kept; measure nothing",
    )
    parser.add_argument(
        "--only", action="append", choices=[*applications], help="a program, not all"
    )
    arguments = parser.parse_args()
    if arguments.kept is not None:
        rows = figures_of_kept(arguments.kept)
    else:
        only = [applications[name] for name in arguments.only or applications]
        rows = measure(arguments.quick, keep=arguments.keep, only=only)
    write(rows, as_json=arguments.json)


if __name__ == "__main__":
    main()
