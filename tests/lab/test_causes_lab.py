"""Causes of a real guest's overhead: its own counters, QEMU's threads, the CPUs' samples."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lab.runkit import ran
from ullage.analysis import overhead
from ullage.analysis.causes import symbols
from ullage.report import page
from ullage.runs.events import Trial
from ullage.runs.reader import RunFolder
from ullage.runs.symbols import GUEST_FILE, Symbols

pytestmark = [pytest.mark.lab, pytest.mark.root]

PLAN = """\
name: causes
baseline: native
resources: {cpus: 1, memory: 512MiB}
environments:
  native: {provider: native}
  container: {provider: oci}
  vm: {provider: qemu, accel: tcg}
workloads: [{name: sysbench-cpu, time_s: 2}]
blocks: {min: 8, max: 8}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return ran(tmp_path_factory.mktemp("causes"), PLAN)


def table(folder: RunFolder, trial: Trial) -> Symbols:
    stored = symbols.read(folder, trial)
    assert stored is not None
    return stored


def test_every_trial_has_its_samples(folder: RunFolder) -> None:
    """At its own start and end; the vCPU's CPU time is what the threads' account says too."""
    assert not [w for w in folder.warnings if w.code.startswith("perf-")]
    for trial in folder.trials:
        samples = table(folder, trial)
        assert (samples.start_ns, samples.end_ns) == (trial.start_ns, trial.end_ns)
    for environment, group in (("vm", "vcpu"), ("native", "programs"), ("container", "programs")):
        trials = [trial for trial in folder.trials if trial.environment == environment]
        sampled = accounted = 0.0
        for trial in trials:
            samples = table(folder, trial)
            sampled += sum(row.samples for row in samples.rows if row.group == group) / samples.hz
            threads = trial.meters["threads"]
            accounted += threads[group] * threads["window"]
        assert sampled == pytest.approx(accounted, rel=0.3), environment


def test_a_guest_and_nobody_else_has_a_kernel_of_its_own(folder: RunFolder) -> None:
    for trial in folder.trials:
        assert ("guest" in trial.meters) == (trial.environment == "vm")
    for trial in folder.trials:
        if trial.environment == "vm":
            guest = trial.meters["guest"]
            assert guest["refused"] == 0
            assert guest["interrupts"] > 0
            # One CPU, which sysbench keeps busy as far as the host lets it.
            assert 0 < guest["cpu_user"] + guest["cpu_kernel"] < 1.1
            assert guest["window"] >= (trial.end_ns - trial.start_ns) / 1e9


def test_the_worse_comes_with_its_cause(folder: RunFolder) -> None:
    """All instructions are emulated: the time is in QEMU's own code."""
    analysis = overhead.analyse(folder)
    (vm,) = (c for c in analysis.primary() if c.environment == "vm")
    assert vm.verdict == "worse"
    assert vm.causes is not None
    counters = [cause.counter for cause in vm.causes.found]
    assert any(name.startswith("symbols.vcpu/qemu-system-x86_64") for name in counters), counters
    assert "vCPUs in qemu-system-x86_64" in page.render(folder, analysis)


INSIDE = """\
name: inside
baseline: native
resources: {cpus: 1, memory: 512MiB}
causes: guest
environments:
  native: {provider: native}
  vm: {provider: qemu, accel: tcg}
workloads: [{name: command, argv: [dd, if=/dev/zero, of=/dev/null, bs=1, count=400000]}]
blocks: {min: 2, max: 2}
"""


def test_a_guest_is_looked_into(tmp_path: Path) -> None:
    """Its own kernel's functions, and those of the image's files, within the trial."""
    folder = ran(tmp_path, INSIDE)
    assert not [w for w in folder.warnings if w.code == "guest-not-sampled"]
    for trial in folder.trials:
        table = symbols.read(folder, trial, GUEST_FILE)
        assert (table is not None) == (trial.environment == "vm")
        if table is not None:
            assert (table.start_ns, table.end_ns) == (trial.start_ns, trial.end_ns)
            places = {(row.object, row.symbol) for row in table.rows if row.program == "dd"}
            assert places & {("libc.so.6", "read"), ("libc.so.6", "write")}, places
            assert [symbol for file, symbol in places if file == "kernel" and symbol]
            seconds = (table.end_ns - table.start_ns) / 1e9
            busy = sum(row.samples for row in table.rows) + table.rest
            assert busy <= table.cpus * (table.hz * seconds + 2)
    assert "inside: " in page.render(folder, overhead.analyse(folder))
