"""32 machines, each reached by ssh, an instance on each, one trial, all removed.

The machines are namespaces of this host with an sshd each, and have ullage already; peak memory is
the controller's, of the whole run.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.figures import Figure, main
from benchmarks.nodes.machines import Machines, entries, folder, machines
from ullage.runs.reader import RunFolder

LIMIT_S, LIMIT_BYTES = 60.0, 300e6
PLAN = """\
name: nodes-fleet
baseline: all
image: host
allow: [instances]
nodes:
{nodes}
resources: {{cpus: 0.05, memory: 64MiB}}
environments: {{all: {{provider: native, instances: {count}, place: spread}}}}
workloads: [{{name: command, argv: ["true"]}}]
blocks: {{min: 1, max: 1}}
"""
PEAK = "import resource,runpy,sys; sys.argv=sys.argv[1:]; " + (
    "import ullage.cli.main as m\n"
    "try: m.main()\n"
    "finally: print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)"
)


def run(lab: Machines, place: Path) -> tuple[float, float, bool]:
    """Seconds from start to end, the controller's peak in bytes, and whether all went well."""
    plan = place / "plan.yaml"
    words = PLAN.format(nodes=entries(lab), count=len(lab.names))
    plan.write_text(words, encoding="utf-8")
    argv = [sys.executable, "-c", PEAK, "ullage", "run", str(plan), "--runs", str(place / "runs")]
    began = time.perf_counter()
    done = subprocess.run(argv, check=False, capture_output=True, text=True)
    seconds = time.perf_counter() - began
    if done.returncode != 0:
        raise RuntimeError(done.stderr[-2000:])
    trials = RunFolder.open(folder(place / "runs")).trials
    peak = float(done.stderr.split()[-1]) * 1024
    return seconds, peak, all(trial.status == "ok" for trial in trials)


def measure(quick: bool) -> Iterator[Figure]:
    """All of it once."""
    count = 8 if quick else 32
    with machines(count) as lab, tempfile.TemporaryDirectory() as place:
        seconds, peak, well = run(lab, Path(place))
    yield Figure(
        f"{count} nodes: reached, an instance on each, one trial, removed",
        seconds,
        "s",
        reach=f"at most {LIMIT_S:g} s",
        holds=well and seconds <= LIMIT_S,
        note="all of them namespaces of this host",
    )
    yield Figure(
        f"{count} nodes: the controller's peak memory",
        peak / 1e6,
        "MB",
        reach=f"at most {LIMIT_BYTES / 1e6:g} MB",
        holds=peak <= LIMIT_BYTES,
    )


if __name__ == "__main__":
    main(measure, __doc__ or "")
