"""Doubts about the machine: what the meters saw on either side."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from tests.analysis.doubtkit import SHARED, clock, doubted, draft, role, trial
from ullage.analysis.comparison.model import Doubt
from ullage.analysis.doubts import machine
from ullage.runs.events import InstanceClock
from ullage.runs.records import Resource

MACHINE = {"steal", "frequency", "throttled", "pressure", "co-tenant"}
QUIET = {"cpu_time": 2.0, "busy": 0.52, "programs": 0.51, "controller": 0.005, "steal": 0.0}


def doubts_of(
    mine: Mapping[str, float] | None = None,
    theirs: Mapping[str, float] | None = None,
    *,
    meter: str = "host",
    resource: Resource = "cpu",
    scatter: float = 0.0,
    blocks: int = 12,
    **more: Any,
) -> dict[str, Doubt]:
    """Doubts about a comparison of which either side had these readings, give or take."""
    rng = np.random.default_rng(1)

    def readings(values: Mapping[str, float] | None) -> dict[str, Any]:
        return {"meters": {meter: dict(values or {})}, "roles": (role(1.0),), **more}

    fields = [
        {
            "meters": {
                meter: {k: max(0.0, v + scatter * rng.normal()) for k, v in (mine or {}).items()}
            }
        }
        for _ in range(blocks)
    ]
    x = rng.normal(1, 0.01, blocks)
    comparison = draft(
        x, x[::-1], mine=readings(mine), theirs=readings(theirs), fields=fields, resource=resource
    )
    return {code: doubt for code, doubt in doubted(comparison).items() if code in MACHINE}


def test_nothing_is_said_of_equal_sides() -> None:
    quiet = {**QUIET, "psi_cpu": 0.01, "psi_io": 0.0, "psi_memory": 0.0}
    assert doubts_of(quiet, quiet, scatter=0.004) == {}


def test_nor_where_nothing_was_metered() -> None:
    assert doubts_of() == {}


@pytest.mark.parametrize(
    ("meter", "quantity", "mine", "theirs", "code", "says"),
    [
        ("host", "steal", 0.06, 0.01, "steal", "took 6 % of the CPU time while qemu-kvm ran"),
        ("cpu", "frequency", 2.6e9, 2.8e9, "frequency", "at 2.60 GHz after trials of qemu-kvm"),
        ("cpu", "throttled", 2.0, 0.0, "throttled", "in 100 % of the trials of qemu-kvm, and in 0"),
        ("host", "psi_cpu", 0.4, 0.03, "pressure", "waited for a CPU in 40 % of the time"),
        ("host", "psi_io", 0.3, 0.0, "pressure", "waited for a disk in 30 % of the time"),
        ("host", "psi_memory", 0.0, 0.1, "pressure", "waited for memory in 0 % of the time"),
    ],
)
def test_sides_that_differ(
    meter: str, quantity: str, mine: float, theirs: float, code: str, says: str
) -> None:
    observed = doubts_of({quantity: mine}, {quantity: theirs}, meter=meter)
    assert set(observed) == {code}
    assert says in observed[code].message


@pytest.mark.parametrize(
    ("meter", "quantity", "mine", "theirs"),
    [
        ("host", "steal", 0.012, 0.004),
        ("cpu", "frequency", 2.61e9, 2.6e9),
        ("cpu", "throttled", 0.0, 0.0),
        ("host", "psi_cpu", 0.1, 0.03),
        ("host", "psi_memory", 0.01, 0.0),
    ],
)
def test_small_differences_are_not_told(
    meter: str, quantity: str, mine: float, theirs: float
) -> None:
    assert doubts_of({quantity: mine}, {quantity: theirs}, meter=meter) == {}


def test_what_scatters_from_trial_to_trial_is_not_told() -> None:
    """Of six trials with a standard deviation of 10 %, 3 % between the means is chance."""
    assert doubts_of({"steal": 0.13}, {"steal": 0.1}, scatter=0.1, blocks=6) == {}


def test_a_disk_workload_waits_for_its_disk() -> None:
    assert doubts_of({"psi_io": 0.7}, {"psi_io": 0.2}, resource="disk") == {}
    assert "pressure" in doubts_of({"psi_io": 0.7}, {"psi_io": 0.2}, resource="network")


def test_a_guests_own_threads_are_no_doubt_where_nobody_else_ran() -> None:
    """A VM's threads share its CPU; that its control group used all there was shows whose it is."""
    mine = {**QUIET, "instances": 0.5, "psi_cpu": 0.4}
    theirs = {**QUIET, "instances": 0.5, "psi_cpu": 0.01}
    assert doubts_of(mine, theirs) == {}
    unknown = doubts_of(
        {**QUIET, "psi_cpu": 0.4}, theirs, instance=clock(drifted_ns=0), scatter=0.001
    )
    assert set(unknown) == {"pressure"}, "without an account of the VM nobody knows"


def test_others_used_the_cpu_more_on_one_side() -> None:
    mine = {**QUIET, "instances": 0.3, "programs": 0.5}
    theirs = {**QUIET, "instances": 0.5, "programs": 0.51}
    # The programs say that they used 1 s of 2: more than their group does on one side, so there
    # their own word counts.
    assert doubts_of(mine, theirs) == {}
    observed = doubts_of({**mine, "programs": 0.9}, theirs)
    assert set(observed) == {"co-tenant"}
    assert "Others used 39.5 % of all CPU time while qemu-kvm ran" in observed["co-tenant"].message


def share_of_others(
    *,
    instance: InstanceClock = SHARED,
    partner: str | None = None,
    used_s: float = 1.0,
    **host: float,
) -> float | None:
    return machine.others(
        trial(
            0,
            "vm",
            1.0,
            meters={"host": {**QUIET, **host}},
            roles=(role(1.0, used_s=used_s),),
            instance=instance,
            partner=partner,
        )
    )


def test_others_by_the_control_groups() -> None:
    guest = clock(drifted_ns=0)
    assert share_of_others(instances=0.48, programs=0.6) == pytest.approx(0.6 - 0.005 - 0.5)
    assert share_of_others(instances=0.55, programs=0.6, instance=guest) == pytest.approx(0.045)
    assert share_of_others(instances=0.55, programs=0.6, partner="native") == pytest.approx(0.045)


def test_others_by_what_programs_say_only_where_their_kernel_is_the_hosts() -> None:
    guest = clock(drifted_ns=0)
    assert share_of_others(programs=0.6) == pytest.approx(0.095)
    assert share_of_others(programs=0.6, instances=0.01) == pytest.approx(0.095)
    assert share_of_others(programs=0.6, instance=guest) is None
    assert share_of_others(programs=0.6, instances=0.01, instance=guest) is None
    assert share_of_others(programs=0.6, partner="native") is None


def test_others_are_never_less_than_nothing() -> None:
    assert share_of_others(programs=0.4, instances=0.5) == 0


def test_of_a_run_before_there_was_such_a_reading_nothing_is_told() -> None:
    old = trial(0, "vm", 1.0, meters={"host": {"busy": 0.5, "steal": 0.0}})
    assert machine.others(old) is None


@pytest.mark.parametrize("lacks", ["cpu_time", "programs", "controller"])
def test_where_one_reading_is_absent_nothing_is_told(lacks: str) -> None:
    """A trial shorter than a clock tick has none of them, and another machine may leave out any."""
    host = {name: value for name, value in QUIET.items() if name != lacks}
    assert machine.others(trial(0, "vm", 1.0, meters={"host": host})) is None
    assert share_of_others(cpu_time=0.0) is None


def test_a_crowd_is_what_others_and_the_hypervisor_took_where_it_can_be_told() -> None:
    def shared(steal: float, **host: float) -> Any:
        meters = {"host": {**QUIET, "steal": steal, **host}}
        return trial(0, "vm", 1.0, meters=meters, roles=(role(1.0, used_s=1.0),), instance=SHARED)

    old = trial(1, "vm", 1.0, meters={"host": {"busy": 0.5, "steal": 0.5}})
    trials = [shared(0.1, programs=0.6), shared(0.0, programs=0.6), old]
    assert machine.crowd(trials) == pytest.approx(0.095 + 0.05)
    assert machine.crowd([old]) is None
