"""Whole runs over two machines with real sshd: their answer, and all that can befall them."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from testing.two_nodes.lab import Lab, lab
from tests.lab.traces import left_by
from tests.lab.two_nodes.labkit import clean, folder_of, machines, ullage
from ullage.common import errors

__all__ = ["machines"]

pytestmark = [pytest.mark.lab, pytest.mark.root]

PLAN = """\
name: two-nodes
baseline: near
image: {image}
nodes:
  here: {{local: true}}
  a: {{ssh: root@node-a, config: {config}}}
  b: {{ssh: root@node-b, config: {config}}}
resources: {{cpus: 1, memory: 256MiB}}
environments:
  near: {{provider: native}}
  far: {{provider: native, place: {{a: 1}}}}
{more}
workloads:
  - {{name: command, argv: [sleep, "{seconds}"]}}
blocks: {{min: {blocks}, max: {blocks}}}
allow: [instances]
seed: 5
"""
BOTH = "  both: {provider: native, instances: 2, place: spread}"
KINDS = """\
  container: {provider: oci, place: {a: 1}}
  lxc: {provider: lxc, place: {b: 1}}"""

KILL = """for one in /proc/[0-9]*; do
    if grep -q 'nodes[.]serve' "$one/cmdline"; then kill -9 "${one#/proc/}"; fi
done"""
"""What serves on a machine, among the processes of that machine."""


def planned(place: Path, ours: Lab, **fields: object) -> Path:
    values = {"image": "host", "more": "", "seconds": 0.02, "blocks": 2, **fields}
    file = place / "plan.yaml"
    file.write_text(PLAN.format(config=ours.config, **values), encoding="utf-8")
    return file


def started(plan: Path, runs: Path, *, trials: int) -> subprocess.Popen[bytes]:
    """A run that has so many trials."""
    argv = [sys.executable, "-m", "ullage", "run", str(plan), "--runs", str(runs)]
    process = subprocess.Popen(argv, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    while finished(runs) < trials:
        assert process.poll() is None, "it ended too early"
        time.sleep(0.05)
    return process


def finished(runs: Path) -> int:
    journals = list(runs.glob("*/journal.jsonl"))
    return sum(file.read_bytes().count(b'"event":"trial"') for file in journals)


def test_four_kinds_on_three_machines(machines: Lab, tmp_path: Path) -> None:
    plan = planned(tmp_path, machines, image="built", more=f"{BOTH}\n{KINDS}")
    done = ullage("run", str(plan), "--runs", str(tmp_path / "runs"))
    assert done.returncode == 0, done.stderr
    assert "On these machines" in done.stdout and ", on a and b" not in done.stdout
    folder = folder_of(tmp_path / "runs")
    assert {trial.status for trial in folder.trials} == {"ok"}
    where = {cell.key: cell.nodes for cell in folder.resolved.environments}
    assert where["both"] == ("here", "a") and where["lxc"] == ("b",)
    hosts = {p.environment: p.facts["hostname"] for p in folder.provisioned}
    assert hosts["far"].startswith("far") and folder.resolved.nodes["b"].address == "root@node-b"
    clocks = {t.environment: t.clocks for t in folder.trials}
    assert all(not clock.shared for clock in clocks["far"].values())
    assert all(clock.shared for clock in clocks["near"].values())
    meters = {t.environment: t.meters for t in folder.trials}
    assert "host" in meters["far"] and not meters["both"]
    page = (folder.path / "report.html").read_text(encoding="utf-8")
    assert "The machines that instances stood on" in page and "root@node-a" in page
    assert not left_by(tmp_path / "runs")
    assert clean(machines, "node-a") == clean(machines, "node-b") == []


def test_sixteen_instances_over_one_connection(machines: Lab, tmp_path: Path) -> None:
    more = "  many: {provider: native, instances: 16, place: {a: 16}}"
    plan = planned(tmp_path, machines, more=more, blocks=1)
    done = ullage("run", str(plan), "--runs", str(tmp_path / "runs"))
    assert done.returncode == 0, done.stderr


def test_a_machine_that_dies_fails_its_trials_only(tmp_path: Path) -> None:
    with lab() as ours:
        for name in ours.machines:
            ullage("node", "install", f"root@{name}", "--node-config", str(ours.config))
        plan = planned(tmp_path, ours, seconds=0.5, blocks=4)
        process = started(plan, tmp_path / "runs", trials=4)
        ours.machines["node-a"].kill()
        assert process.wait(600) == 3
    trials = folder_of(tmp_path / "runs").trials
    codes = {t.reason.code for t in trials if t.environment == "far" and t.reason}
    assert codes == {errors.NODE_LOST.code}
    assert all(t.status == "ok" for t in trials if t.environment != "far")
    assert not left_by(tmp_path / "runs")


def test_the_controller_is_killed_and_the_run_taken_up(machines: Lab, tmp_path: Path) -> None:
    plan = planned(tmp_path, machines, seconds=0.5, blocks=3)
    runs = tmp_path / "runs"
    process = started(plan, runs, trials=4)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = finished(runs)
    (path,) = runs.iterdir()
    deadline = time.monotonic() + 60
    while clean(machines, "node-a"):  # its input has ended: it tidies up by itself
        assert time.monotonic() < deadline
        time.sleep(0.5)
    done = ullage("run", "--resume", str(path), "--runs", str(runs))
    assert done.returncode == 0, done.stderr
    names = [trial.trial for trial in folder_of(runs).trials]
    assert len(names) == len(set(names)) == 9 and before >= 4
    assert not left_by(runs)


def test_ullage_there_is_killed(machines: Lab, tmp_path: Path) -> None:
    plan = planned(tmp_path, machines, seconds=0.5, blocks=4)
    runs = tmp_path / "runs"
    process = started(plan, runs, trials=3)
    machines.machines["node-a"].run("sh", "-c", KILL)
    assert process.wait(600) in (0, 3)
    far = [t for t in folder_of(runs).trials if t.environment == "far"]
    codes = {t.reason.code for t in far if t.reason}
    assert codes <= {errors.NODE_LOST.code}
    assert far[-1].status == "ok"  # reached anew, and made anew
    assert clean(machines, "node-a") == []


def test_a_cable_that_is_pulled(machines: Lab, tmp_path: Path) -> None:
    plan = planned(tmp_path, machines, seconds=0.5, blocks=2)
    runs = tmp_path / "runs"
    process = started(plan, runs, trials=2)
    machines.link("node-a", up=False)
    try:
        status = process.wait(900)
    finally:
        machines.link("node-a", up=True)
    assert status == 3
    far = [t for t in folder_of(runs).trials if t.environment == "far" and t.reason]
    assert {t.reason.code for t in far if t.reason} == {errors.NODE_LOST.code}
    deadline = time.monotonic() + 90
    while clean(machines, "node-a"):  # it has heard nothing for long enough
        assert time.monotonic() < deadline
        time.sleep(1)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ("unknown", errors.NODE_KEY_UNKNOWN.code),
        ("changed", errors.NODE_KEY_CHANGED.code),
        ("refused", errors.NODE_KEY_REFUSED.code),
        ("name", errors.NODE_UNKNOWN_HOST.code),
        ("down", errors.NODE_UNREACHABLE.code),
    ],
)
def test_what_the_real_ssh_says(machines: Lab, tmp_path: Path, change: str, code: str) -> None:
    config = tmp_path / "config"
    text = machines.config.read_text(encoding="ascii")
    known = machines.dir / "known_hosts"
    address = machines.machines["node-a"].address
    if change == "unknown":
        text = text.replace(str(known), "/dev/null")
    elif change == "changed":
        other = (machines.dir / "key.pub").read_text(encoding="ascii").split()
        wrong = tmp_path / "known_hosts"
        wrong.write_text(f"{address} {other[0]} {other[1]}\n", encoding="ascii")
        text = text.replace(str(known), str(wrong))
    elif change == "refused":
        key = tmp_path / "key"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
        text = text.replace(f"{machines.dir}/key", str(key))
    elif change == "name":
        text = text.replace(address, "nobody.invalid")
    else:
        text = text.replace(f"HostName {address}\n", f"HostName {address}\n  Port 9\n")
    config.write_text(text, encoding="ascii")
    done = ullage("doctor", "--node", "root@node-a", "--node-config", str(config))
    assert f"error[{code}]" in done.stderr
