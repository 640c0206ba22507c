"""What is said before a run: what would refuse it here, and whether the host is busy."""

import os

import pytest

from ullage.common import errors
from ullage.experiments import preflight
from ullage.meters.host import HostReading
from ullage.plan import matrix, schema

PLAN = """\
name: demo
baseline: native
resources: {memory: 512MiB}
environments:
  native: {provider: native}
  other: {provider: %s}
workloads: [{name: command, argv: ["true"]}]
"""


def kinds(other: str, *, image: str = "built", extra: str = "") -> list[errors.ErrorKind]:
    plan, document = schema.loads(PLAN % other + f"image: {image}\n{extra}", "p.yaml")
    return [error.kind for error in preflight.faults(plan, matrix.resolve(plan, document))]


def test_a_plan_that_can_run_has_no_faults() -> None:
    assert kinds("native") == []


def test_what_the_plan_makes_unequal_is_said_before_the_run() -> None:
    smaller = "native, resources: {memory: 256MiB}"
    assert kinds(smaller) == [errors.PARITY_UNEQUAL]
    assert kinds(smaller, extra="allow: [memory]\n") == []
    assert kinds("native, resources: {cpus: 0.5}") == [errors.PARITY_UNEQUAL]


def test_a_runtime_that_is_not_there_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert kinds("oci, runtime: docker, vary: {instances: [1, 2]}", extra="allow: [instances]\n")[
        -1:
    ] == [errors.HOST_MISSING]


def test_what_a_plain_user_cannot_have_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert kinds("native")[0] is errors.HOST_NEEDS_ROOT
    assert kinds("native", image="host") == [errors.INSTANCE_NOT_LIMITED]
    assert errors.HOST_NEEDS_ROOT in kinds("lxc")


@pytest.mark.parametrize(("busy_s", "warned"), [(1.0, True), (0.05, False)])
def test_a_busy_host_is_said(busy_s: float, warned: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    instants = iter((0.0, 1.0))

    def now() -> HostReading:
        seconds = next(instants)
        return HostReading(seconds, busy_s * seconds, (2 - busy_s) * seconds, 0.0, {})

    monkeypatch.setattr(HostReading, "now", now)
    monkeypatch.setattr(preflight, "LOOK_S", 0)
    assert bool(preflight.busy()) is warned


def test_an_environment_keeps_the_plans_resources_but_those_that_it_names() -> None:
    plan, document = schema.loads(PLAN % "native, resources: {cpus: 0.5}", "p.yaml")
    other = matrix.resolve(plan, document).environment("other").resources
    assert (other.cpus, int(other.memory)) == (0.5, 512 << 20)
