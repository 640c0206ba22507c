"""How near does a profile come to what an application really costs elsewhere?

Applications are profiled on this host (`ullage profile`). One run then measures them, and the
resources by the tools that people trust for them, on the machine itself, in an OCI and an LXC
container, and in a VM. The prediction (from the profile and the resources' ratios) is put beside
the measured ratio of the application, which it has not seen.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.figures import Figure, main, median_interval
from benchmarks.injection.perform import Quiet
from ullage import environments, journal, workloads
from ullage.analysis import overhead
from ullage.analysis.model import Analysis, Comparison
from ullage.analysis.profiles.model import Prediction, Profile
from ullage.analysis.profiles.predicting import predict
from ullage.engine import Engine
from ullage.environments.base import Provider
from ullage.environments.native import Native
from ullage.errors import UllageError
from ullage.folder import RunFolder
from ullage.matrix import Environment, Load, Matrix
from ullage.plan import Blocks, EnvironmentPlan, Plan, Resources, WorkloadPlan
from ullage.profiling import running
from ullage.profiling.asked import Asked
from ullage.quantities import Bytes
from ullage.workloads.command import Command, CommandParameters

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
PORT: Final = 18_461


@dataclass(frozen=True)
class Application:
    """A real program, with all that it works on."""

    key: str
    argv: tuple[str, ...]
    files: tuple[str, ...]
    """Of the material."""
    package: str
    says: str | None = None
    """What it prints when it has worked."""


APPLICATIONS: Final = (
    Application("gcc", ("gcc", "-O2", "-c", "work.c", "-o", "work.o"), ("work.c",), "gcc"),
    Application("gzip", ("gzip", "-9", "-k", "-f", "text"), ("text",), "gzip"),
    Application("xz", ("xz", "-0", "-k", "-f", "text"), ("text",), "xz-utils"),
    Application("zstd", ("zstd", "-q", "-f", "-9", "text"), ("text",), "zstd"),
    Application("sort", ("sort", "-o", "sorted", "text"), ("text",), "coreutils"),
    Application("sqlite", ("sqlite3", "work.db", ".read work.sql"), ("work.sql",), "sqlite3"),
    Application("python", ("python3", "work.py"), ("work.py",), "python3"),
    Application(
        "nginx",
        ("sh", "web.sh"),
        ("web.sh", "web.conf", "page"),
        "nginx-light",
        "requests 6000 replies 6000",
    ),
    Application(
        "dd",
        ("dd", "if=/dev/zero", "of=written", "bs=16k", "count=4000", "oflag=direct"),
        (),
        "coreutils",
    ),
)
PACKAGES: Final = ("libc6-dev", "httperf", *(each.package for each in APPLICATIONS))


class Installed(Command):
    """A command with what it works on."""

    def __init__(self, material: Mapping[str, Path]) -> None:
        self.material = material

    def files(self, parameters: CommandParameters) -> Mapping[str, Path]:
        """What it works on."""
        return self.material


def material(directory: Path) -> None:
    """Everything that the applications work on, the same each time."""
    rng = random.Random(1)
    words = ["".join(rng.choices("abcdefghijklmnop", k=rng.randint(2, 9))) for _ in range(4000)]
    lines = (" ".join(rng.choices(words, k=12)) for _ in range(120_000))
    (directory / "text").write_text("\n".join(lines) + "\n")
    functions = (_function(number, rng) for number in range(25))
    (directory / "work.c").write_text("#include <math.h>\n" + "\n".join(functions))
    (directory / "work.sql").write_text(_sql(rng))
    (directory / "work.py").write_text(_PYTHON)
    (directory / "web.sh").write_text(_WEB)
    (directory / "web.conf").write_text(_NGINX)
    (directory / "page").write_text("x" * 4096)


def _function(number: int, rng: random.Random) -> str:
    body = "".join(
        f"  for (int i = 0; i < n; i++) a[i] = sin(a[i] * {rng.random()}) + b[(i * {k}) % n];\n"
        for k in range(3, 9)
    )
    return f"void work_{number}(double *a, const double *b, int n) {{\n{body}}}\n"


def _sql(rng: random.Random) -> str:
    """A hundred and twenty transactions of 200 rows, each on the disk before the next begins."""
    said = ["PRAGMA synchronous=FULL;", "DROP TABLE IF EXISTS t;"]
    said.append("CREATE TABLE t (k INTEGER PRIMARY KEY, v TEXT, n REAL);")
    said.append("CREATE INDEX i ON t (v);")
    for batch in range(120):
        said.append("BEGIN;")
        for row in range(200):
            key, text = 200 * batch + row, f"{rng.random():.12f}"
            said.append(f"INSERT INTO t VALUES ({key}, '{text}', {rng.random()});")
        said.append("COMMIT;")
    said.append("SELECT count(*), avg(n) FROM t WHERE v > '0.5';")
    return "\n".join(said) + "\n"


_PYTHON: Final = """\
def primes(n):
    sieve = bytearray([1]) * n
    for i in range(2, int(n ** 0.5) + 1):
        if sieve[i]:
            sieve[i * i :: i] = bytes(len(range(i * i, n, i)))
    return sum(sieve) - 2

total = 0.0
for i in range(1, 2_000_000):
    total += 1.0 / (i * i)
print(primes(3_000_000), total)
"""
_WEB: Final = f"""\
set -e
here=$(pwd)
nginx -p "$here" -c web.conf -e stderr
trap 'nginx -p "$here" -c web.conf -e stderr -s stop' EXIT
httperf --server 127.0.0.1 --port {PORT} --uri /page --num-conns 600 --num-calls 10
"""
_NGINX: Final = f"""\
user root;
worker_processes 1;
pid web.pid;
events {{ worker_connections 128; }}
http {{
  access_log off;
  client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;
  uwsgi_temp_path uwsgi; scgi_temp_path scgi;
  server {{ listen 127.0.0.1:{PORT}; root .; }}
}}
"""


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
        found, span = self.measured.interval, self.prediction.overhead
        return found is not None and found.low <= span.high and found.high >= span.low


def measure(quick: bool) -> list[Figure]:
    """Profile, run, predict, compare."""
    sizes = QUICK if quick else FULL
    with tempfile.TemporaryDirectory(prefix="ullage-prediction-") as name:
        root = Path(name)
        material(root)
        profiles = {each.key: _profiled(each, root, sizes) for each in APPLICATIONS}
        analysis = _measured(root, sizes)
        return figures(cells(profiles, analysis), profiles)


def _profiled(application: Application, root: Path, sizes: Sizes) -> Profile | None:
    """Its weights; None, and the reason is said, where there are none."""
    asked = Asked(
        argv=application.argv,
        directory=root,
        variables={"PATH": os.environ["PATH"], "LC_ALL": "C"},
        repeat=sizes.repeat,
        budget_s=sizes.budget_s,
    )
    print(f"profiling {application.key}", file=sys.stderr)
    try:
        return asyncio.run(running.run(asked, root / "profiles", Quiet()))
    except UllageError as error:
        print(f"no profile of {application.key}: {error}", file=sys.stderr)
        return None


def _measured(root: Path, sizes: Sizes) -> Analysis:
    """The run with the applications and the resources."""
    resources = Resources(cpus=1, memory=Bytes(1 << 30))
    made = tuple(
        Environment(key, _provider(kind), {}, resources, 1) for key, kind in ENVIRONMENTS.items()
    )
    loads = tuple(_load(each, root) for each in APPLICATIONS) + tuple(
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
    folder = journal.new_folder(root / "runs", plan.name)
    asyncio.run(Engine(plan, Matrix("native", made, loads), folder, Quiet()).run())
    return overhead.analyse(RunFolder.open(folder))


class Stocked(Native):
    """The native environment, whose image has the applications."""

    def packages(self) -> tuple[str, ...]:
        """Theirs."""
        return tuple(sorted(set(PACKAGES)))


def _provider(kind: str) -> Provider:
    found = Stocked if kind == Stocked.name else environments.get(kind)
    return found(found.options_model())


def _resource(name: str, fields: Mapping[str, Any]) -> Load:
    workload = workloads.get(name)
    return Load(name, workload, workload.parameters_model.model_validate(fields), {})


def _load(application: Application, root: Path) -> Load:
    files = {name: root / name for name in application.files}
    parameters = CommandParameters(
        argv=list(application.argv), expect_output=application.says, timeout_s=300
    )
    return Load(application.key, Installed(files), parameters, {})


def cells(profiles: Mapping[str, Profile | None], analysis: Analysis) -> list[Cell]:
    """Every application that has a profile, in every environment where it was measured."""
    found: list[Cell] = []
    for key, profile in profiles.items():
        if profile is None:
            continue
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
        found += [
            Cell(key, each, measured[each.environment])
            for each in predictions
            if each.environment in measured
        ]
    return found


def figures(found: Sequence[Cell], profiles: Mapping[str, Profile | None]) -> list[Figure]:
    """A row for each cell; the median absolute error over all, and of each environment."""
    rows = [_row(cell, profiles) for cell in found]
    for environment in dict.fromkeys(cell.prediction.environment for cell in found):
        of = [abs(c.error) for c in found if c.prediction.environment == environment]
        rows.append(_median(f"median error, {environment}", of))
    every = [abs(cell.error) for cell in found]
    if every:
        total = _median("median error of the predicted overhead", every)
        agree = sum(cell.agrees for cell in found)
        note = f"{len(found)} cells; in {agree} the two intervals overlap"
        rows.append(
            Figure(
                **{
                    **vars(total),
                    "reach": f"under {100 * REACH:g} %",
                    "holds": total.value < 100 * REACH,
                    "note": note,
                }
            )
        )
    return rows


def _median(name: str, errors: Sequence[float]) -> Figure:
    middle = median_interval([100 * error for error in errors])
    return Figure(name=name, value=middle.estimate, unit="%", low=middle.low, high=middle.high)


def _row(cell: Cell, profiles: Mapping[str, Profile | None]) -> Figure:
    span, profile = cell.prediction.overhead, profiles[cell.application]
    assert profile is not None
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


if __name__ == "__main__":
    main(measure, __doc__ or "")
