"""ullage itself one level down: VMs under a KVM that works, vhost-net, bonds and delays."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lab import big_guest
from tests.lab.big_guest.disks import CHECKOUT as ROOT
from tests.lab.big_guest.guest import RUNSC, BigGuest, started
from ullage.analysis import doubts
from ullage.runs.events import Synchronised, Trial
from ullage.runs.reader import RunFolder

# From nothing to the last report: 25 minutes on a quiet machine, of which the first test's setup
# has the boot, and once more 5 minutes where no disk is cached. Of `make long`: its parts were
# seen one by one, the whole of it not yet.
pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.root, pytest.mark.timeout(7200)]

EVERYWHERE = """\
name: everywhere
baseline: native
resources: {cpus: 1, memory: 512MiB}
environments:
  native: {provider: native}
  crun: {provider: oci}
  lxc: {provider: lxc}
  vm: {provider: qemu, accel: kvm}
workloads:
  - {name: sysbench-cpu, time_s: 1}
  - {name: sysbench-memory, time_s: 1}
  - {name: sysbench-fileio, mode: rndrd, total_size: 32MiB, files: 4, time_s: 1}
  - {name: iperf3, time_s: 1}
  - {name: netpipe, largest: 64KiB}
blocks: {min: 2, max: 2}
seed: 1
"""
VHOST = """\
name: vhost
baseline: native
resources: {cpus: 1, memory: 512MiB}
environments:
  native: {provider: native}
  vm: {provider: qemu, accel: kvm, vary: {vhost: [false, true]}}
workloads:
  - {name: iperf3, time_s: 1}
  - {name: netpipe, largest: 64KiB}
blocks: {min: 2, max: 2}
seed: 1
"""
BUNDLE = """\
name: bundle
baseline: native
resources: {cpus: 1, memory: 512MiB}
network: {rate: 10Mbit, links: 2, bond: 802.3ad, delay: 1ms}
environments:
  native: {provider: native}
  crun: {provider: oci}
  lxc: {provider: lxc}
  vm: {provider: qemu, accel: kvm}
workloads:
  - {name: iperf3, time_s: 2, vary: {streams: [1, 8]}}
blocks: {min: 1, max: 1}
seed: 1
"""
DEAD = """\
name: dead
baseline: native
resources: {cpus: 1, memory: 512MiB}
network: {rate: 10Mbit, links: 2, bond: balance-rr}
environments:
  native: {provider: native}
  crun: {provider: oci}
workloads:
  - {name: iperf3, time_s: 2, streams: 2}
blocks: {min: 2, max: 2}
seed: 1
"""
PLATFORMS = (ROOT / "docs/plans/platforms.yaml").read_text(encoding="utf-8")
RATE = 10e6
KILL = """\
import json, os, signal, subprocess, sys, time
from pathlib import Path

run = subprocess.Popen(["ullage", "run", "everywhere.yaml"], stderr=subprocess.DEVNULL)
while run.poll() is None:
    time.sleep(0.5)
    for journal in Path("runs").glob("*/journal.jsonl"):
        if journal.read_bytes().count(b'"event":"trial"') >= int(sys.argv[1]):
            os.kill(run.pid, signal.SIGKILL)
print(run.wait(), *Path("runs").iterdir())
"""
CUT = """\
import subprocess, time
from pathlib import Path

run = subprocess.Popen(["ullage", "run", "dead.yaml"], stderr=subprocess.DEVNULL)
whole = True
while run.poll() is None:
    time.sleep(0.2)
    for journal in Path("runs").glob("*-dead/journal.jsonl"):
        if whole and b'"event":"trial"' in journal.read_bytes():
            names = Path("/sys/class/net").glob("*/ifalias")
            (bond,) = (file.parent for file in names if file.read_text().strip() == "native-0")
            cable = (bond / "bonding/slaves").read_text().split()[0]
            subprocess.run(["ip", "link", "set", "dev", cable, "down"], check=True)
            whole = False
print(run.wait())
"""


@pytest.fixture(scope="module")
def guest() -> Iterator[BigGuest]:
    # Where there is no Go, the test that needs it is skipped.
    subprocess.run(["make", "--quiet", "runsc"], cwd=ROOT, check=False)
    with started(EVERYWHERE, VHOST, BUNDLE, PLATFORMS) as running:
        yield running


def finished(guest: BigGuest, plan: str, *resume: str) -> RunFolder:
    """The plan's run in there, brought here whole; it has left nothing."""
    (name,) = re.findall("^name: (.*)", plan, re.M)
    guest.write(f"{name}.yaml", plan)
    guest.run("ullage", "run", *(resume or (f"{name}.yaml",)))
    return brought(guest, name)


def brought(guest: BigGuest, name: str) -> RunFolder:
    """The run of that name, which has left nothing in there."""
    folder = guest.run("sh", "-c", f"ls -d runs/*-{name}").output.strip()
    assert "0 leftovers found" in guest.run("ullage", "clean", "--dry-run").output
    place = Path(tempfile.mkdtemp(prefix="ullage-lab-"))
    return RunFolder.open(guest.copy_out(folder, place))


def lost(folder: RunFolder) -> list[tuple[str, str, object]]:
    """Trials without figures."""
    trials = folder.trials
    return [(t.workload, t.environment, t.reason) for t in trials if t.status != "ok"]


def of(folder: RunFolder, environment: str, workload: str = "") -> list[Trial]:
    trials = [t for t in folder.trials if t.environment == environment]
    chosen = [t for t in trials if t.workload.startswith(workload)]
    assert chosen, (environment, workload)
    return chosen


def test_the_doctor_sees_that_kvm_works(guest: BigGuest) -> None:
    answer = json.loads(guest.run("ullage", "doctor", "--json").output)
    states = {one["what"]: (one["state"], one["detail"]) for one in answer["findings"]}
    assert states["provider qemu"] == ("ok", "qemu-kvm")
    assert states["provider lxc"][0] == "ok"


def test_a_killed_controller_is_taken_up_and_every_trial_has_figures(guest: BigGuest) -> None:
    guest.write("everywhere.yaml", EVERYWHERE)
    status, run = guest.script(KILL, "12").output.split()
    assert status == "-9"
    folder = finished(guest, EVERYWHERE, "--resume", run)
    assert [session.resumed for session in folder.sessions] == [False, True]
    assert len(folder.trials) == 2 * 5 * 5, "native twice"
    assert lost(folder) == []
    _is_kvm(folder)
    _stood_still_between_trials(folder)
    host = [doubt for doubt in doubts.of_run(folder, ()) if doubt.code == "host-emulated"]
    assert len(host) == 1


def _is_kvm(folder: RunFolder) -> None:
    environments = {one.key: one for one in folder.resolved.environments}
    assert environments["vm"].label == "qemu-kvm"
    assert not environments["vm"].emulated
    vms = [one.facts for one in folder.provisioned if one.environment == "vm"]
    assert {(facts["clocksource"], facts["hypervisor"]) for facts in vms} == {("kvm-clock", "kvm")}
    for trial in of(folder, "vm"):
        assert trial.meters["threads"]["vcpu"] > 0


def _stood_still_between_trials(folder: RunFolder) -> None:
    """It is thawed for each of its trials, and its clock looked at, which is no other's."""
    looks = [e for e in folder.events if isinstance(e, Synchronised) and e.environment == "vm"]
    thawed = [look for look in looks if look.why == "thaw"]
    assert len(thawed) >= len(of(folder, "vm"))
    for trial in of(folder, "vm"):
        assert trial.clocks
        assert all(clock.hard_ns > 0 for clock in trial.clocks.values())


def test_vhost_moves_the_packets_of_a_guest_under_kvm(guest: BigGuest) -> None:
    folder = finished(guest, VHOST)
    assert lost(folder) == []
    by_vhost = {
        one.key: "vhost" in one.treatments["nic"]
        for one in folder.resolved.environments
        if one.label == "qemu-kvm"
    }
    assert sorted(by_vhost.values()) == [False, True]
    for key, on in by_vhost.items():
        for trial in of(folder, key, "iperf3"):
            assert (trial.meters["threads"].get("vhost", 0) > 0) is on


@pytest.mark.parametrize(
    ("link", "mode"),
    [
        ({"links": 2, "bond": "802.3ad"}, "802.3ad"),
        ({"links": 2, "bond": "balance-rr"}, "balance-rr"),
        ({"links": 3, "bond": "active-backup", "rate": 1e8, "delay": 0.005}, "active-backup"),
        ({"links": 2, "bond": "balance-xor"}, "balance-xor"),
    ],
)
def test_a_bundle_with_a_dead_cable_still_carries(
    guest: BigGuest, link: dict[str, Any], mode: str
) -> None:
    seen = _looked(guest, link)
    assert seen["mode"] == mode
    assert seen["whole"]["received"] > 0
    in_turn = [count > 5 for count in seen["sent"]]
    assert all(in_turn) if mode == "balance-rr" else any(in_turn)
    if mode == "802.3ad":
        assert seen["ports"] == "2", "of one aggregator, by LACP"
    assert seen["broken"]["received"] > 0
    assert seen["state"] == {"cables": link["links"], "down": 1, "failures": 1}


def test_trials_with_a_dead_cable_have_figures_and_say_so(guest: BigGuest) -> None:
    guest.write("dead.yaml", DEAD)
    assert guest.script(CUT).output.strip() == "0"
    folder = brought(guest, "dead")
    assert lost(folder) == []
    broken = {t.environment for t in folder.trials if t.meters["links"]["down"]}
    assert broken == {"native"}, "one cable of the one instance"
    (doubt,) = [one for one in doubts.of_run(folder, ()) if one.code == "link-down"]
    assert "iperf3 in native:" in doubt.message


def test_a_late_link_is_late_four_times_in_a_round_trip(guest: BigGuest) -> None:
    least_ms = _looked(guest, {"delay": 0.02})["whole"]["least_ms"]
    assert least_ms >= 80


def _looked(guest: BigGuest, link: dict[str, Any]) -> dict[str, Any]:
    program = Path(big_guest.__file__).with_name("links.py").read_text(encoding="utf-8")
    seen: dict[str, Any] = json.loads(guest.script(program, json.dumps(link)).output)
    return seen


def test_every_environment_has_the_same_bundle(guest: BigGuest) -> None:
    folder = finished(guest, BUNDLE)
    assert lost(folder) == []
    written = {"rate": RATE, "queue": 0.01, "delay": 0.001, "links": 2, "bond": "802.3ad"}
    assert folder.resolved.network == written
    for environment in ("native", "crun", "lxc", "vm"):
        for trial in of(folder, environment):
            assert trial.meters["links"] == {"cables": 4, "down": 0, "failures": 0}
            throughput = trial.metrics["throughput"]
            assert isinstance(throughput, float)
            cables = 1 if "8" not in trial.workload.partition("streams")[2] else 2
            assert throughput < 1.05 * cables * RATE, (environment, trial.workload)


def test_all_platforms_of_the_docs_have_figures(guest: BigGuest) -> None:
    if not RUNSC.exists():
        pytest.skip("`make runsc` has not built gVisor's runtime")
    guest.run("systemctl", "start", "libvirtd")
    folder = finished(guest, PLATFORMS)
    assert lost(folder) == []
    labels = {one.label for one in folder.resolved.environments}
    containers = {f"container ({name})" for name in ("crun", "runc", "gVisor, systrap")}
    assert labels >= {*containers, "qemu-kvm", "libvirt-kvm"}
    for machine in ("qemu", "libvirt"):
        for trial in of(folder, machine):
            assert trial.meters["threads"]["vcpu"] > 0
