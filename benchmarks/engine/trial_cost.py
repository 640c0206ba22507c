"""What the engine takes around a trial whose program does nothing (`true`).

The whole path: thaw, clock exchange, agreed instant, spawn through the agent, output files,
validity check, journal with fsync, freeze. Seconds per trial = a block's wall time over its trials,
program included. Peers run the same command in turn with us: `hyperfine -N --runs 10` and ReFrame's
`--repeat=10`, their start-up taken out by a run with fewer repetitions.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Mapping
from pathlib import Path

from benchmarks.figures import Figure, main, median_interval, needs

LIMIT_S = 0.020
PLAN = """\
name: engine-cost
baseline: native
image: {image}
resources: {{cpus: 1, memory: 256MiB}}
environments: {{native: {{provider: native}}, container: {{provider: oci}}}}
workloads: [{{name: command, argv: ["true"]}}]
blocks: {{min: {blocks}, max: {blocks}}}
"""
REFRAME = """\
import reframe as rfm
import reframe.utility.sanity as sn

@rfm.simple_test
class TrueTest(rfm.RunOnlyRegressionTest):
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    executable = "true"

    @sanity_function
    def ended(self):
        return sn.assert_true(1)
"""


def ours(blocks: int, work: Path) -> dict[str, list[float]]:
    """Seconds per trial, by environment, from one run of our own."""
    plan = work / "plan.yaml"
    plan.write_text(PLAN.format(image="built", blocks=blocks))
    subprocess.run(
        [sys.executable, "-m", "ullage", "run", str(plan), "--runs", str(work / "runs")],
        check=True,
        capture_output=True,
    )
    folder = max((work / "runs").iterdir())
    events = [json.loads(line) for line in (folder / "journal.jsonl").read_text().splitlines()]
    seconds_by_environment: dict[str, list[float]] = {"whole block": []}
    for event in events:
        if event["event"] == "trial":
            seconds = event["overhead_s"] + (event["end_ns"] - event["start_ns"]) / 1e9
            seconds_by_environment.setdefault(event["environment"].partition("~")[0], []).append(
                seconds
            )
        elif event["event"] == "block":
            seconds_by_environment["whole block"].append(event["seconds"] / 3)
    return seconds_by_environment


def per_run(few: list[str], many: list[str], difference: int, cwd: Path) -> float:
    """Seconds for one repetition: (many repetitions - few repetitions) / difference."""
    return (_wall(many, cwd) - _wall(few, cwd)) / difference


def _wall(argv: list[str], cwd: Path) -> float:
    began = time.perf_counter()
    subprocess.run(argv, check=True, capture_output=True, cwd=cwd)
    return time.perf_counter() - began


def reframe(work: Path) -> list[str] | None:
    """ReFrame in an environment of its own; the command line up to `--repeat`.

    None where it cannot be had.
    """
    home = work / "reframe"
    venv.create(home, with_pip=True)
    pip = [str(home / "bin/pip"), "install", "--quiet", "reframe-hpc==4.7.4"]
    if subprocess.run(pip, check=False, capture_output=True).returncode:
        return None
    (work / "true_test.py").write_text(REFRAME)
    return [str(home / "bin/reframe"), "-c", "true_test.py", "-r", "--exec-policy=serial"]


@needs("hyperfine")
def measure(quick: bool) -> list[Figure]:
    rounds, blocks, runs = (2, 10, 4) if quick else (5, 30, 10)
    work = Path(tempfile.mkdtemp(prefix="ullage-bench-"))
    try:
        return _measure(work, rounds, blocks, runs)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _measure(work: Path, rounds: int, blocks: int, runs: int) -> list[Figure]:
    command = reframe(work)
    mine: dict[str, list[float]] = {}
    hyperfine: list[float] = []
    rfm: list[float] = []
    for _ in range(rounds):
        for name, values in ours(blocks, work).items():
            mine.setdefault(name, []).extend(values)
        fine = ["hyperfine", "-N", "--style", "none", "--warmup", "0", "true", "--runs"]
        hyperfine.append(per_run([*fine, "2"], [*fine, "202"], 200, work))
        if command is not None:
            few, many = [*command, "--repeat=1"], [*command, f"--repeat={runs + 1}"]
            rfm.append(per_run(few, many, runs, work))
    return rows(mine, {"hyperfine -N": hyperfine, "ReFrame --repeat": rfm})


def rows(mine: Mapping[str, list[float]], peers: Mapping[str, list[float]]) -> list[Figure]:
    """One for each environment and peer; of a peer that there is not the row says so."""
    figures = []
    for name, values in mine.items():
        interval = median_interval(values)
        for peer, theirs in peers.items():
            figures.append(
                Figure(
                    f"seconds per trial, {name}",
                    interval.estimate,
                    "s",
                    interval.low,
                    interval.high,
                    peer,
                    median_interval(theirs).estimate if theirs else None,
                    f"at most {LIMIT_S} s",
                    None if interval.high is None else interval.high <= LIMIT_S,
                    "" if theirs else f"not installed: {peer.partition(' ')[0]}",
                )
            )
    return figures


if __name__ == "__main__":
    main(measure, __doc__ or "")
