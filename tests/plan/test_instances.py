"""What instances a run needs follows from its plan alone."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.common.errors import HOST_TOO_SMALL, UllageError
from ullage.environments.native import Native, NativeOptions
from ullage.environments.placement import Resources
from ullage.plan.instances import HOST, Needs
from ullage.plan.matrix import Case, Environment, Matrix
from ullage.plan.neighbours import NEIGHBOUR
from ullage.plan.schema import Neighbour
from ullage.workloads.base import Place, Role, Workload
from ullage.workloads.command import CommandParameters, OwnCommand


class Played(OwnCommand):
    """Any roles that a test wants."""

    def __init__(self, roles: Sequence[Role], partner: str | None = None) -> None:
        self._roles, self._partner = roles, partner

    def roles(self, parameters: CommandParameters) -> Sequence[Role]:
        return self._roles

    def partner(self, parameters: CommandParameters) -> str | None:
        return self._partner


def environment(key: str, instances: int = 1, neighbour: Neighbour | None = None) -> Environment:
    provider = Native(NativeOptions())
    return Environment(key, key, provider, {}, Resources(), instances, neighbour=neighbour)


def needs(*environments: Environment, **case: Any) -> Needs:
    workload: Workload[Any] = Played(**case)
    parameters = CommandParameters(argv=["true"])
    return Needs(Matrix("a", environments, (Case("command", "command", workload, parameters, {}),)))


def test_each_place_of_a_role_asks_for_instances() -> None:
    roles = [Role("x"), Role("y", "second"), Role("z", "away"), Role("h", "host")]
    required = needs(environment("a", 3), roles=roles)
    a = required.environment("a")
    assert required.copies(a) == {"instance": 3, "second": 3, "away": 3}
    assert [required.kind(a, i) for i in range(9)] == ["instance"] * 3 + ["second"] * 3 + [
        "away"
    ] * 3
    assert required.all == ["a", HOST]
    assert required.environment(HOST).instances == 3
    assert required.copies(required.environment(HOST)) == {"instance": 3}


def test_other_ends_of_all_kinds_run_on_the_same_cpus() -> None:
    roles = [Role("x"), Role("y", "second"), Role("z", "away")]
    required = needs(environment("a", 2), roles=roles)
    placed = [required.place(required.environment("a"), i) for i in range(6)]
    assert placed[2:4] == placed[4:6]
    if len(os.sched_getaffinity(0)) > 3:
        assert len(set(placed[:4])) == 4


def test_a_partner_has_spares_for_the_largest_environment() -> None:
    roles = [Role("x"), Role("y", "partner")]
    required = needs(environment("a", 2), environment("b"), roles=roles, partner="b")
    assert required.copies(required.environment("a")) == {"instance": 2}
    assert required.copies(required.environment("b")) == {"instance": 1, "spare": 2}


def test_every_instance_in_one_trial_asks_for_no_more() -> None:
    required = needs(environment("a", 4), roles=[Role("rank", "each")])
    assert required.count(required.environment("a")) == 4
    assert required.places == {"each"}


def test_a_neighbour_stands_in_an_environment_of_its_own() -> None:
    neighbour_ = Neighbour(cpus="other", environment="a")
    required = needs(environment("a"), environment("b", 2, neighbour_), roles=[Role("x")])
    assert required.renewed == ["a", "b", "b" + NEIGHBOUR]
    stands_in = required.environment("b" + NEIGHBOUR)
    assert (stands_in.neighbour, stands_in.neighbour_of, stands_in.instances) == (None, "b", 2)
    assert stands_in.provider is required.environment("a").provider
    assert [planned.key for planned, _ in required.counts()] == required.renewed


OTHER = Neighbour(cpus="other")
ROLES: dict[str, Sequence[Role]] = {
    "alone": [Role("x")],
    "second": [Role("x"), Role("y", "second")],
    "away": [Role("x"), Role("y", "away")],
    "host": [Role("x"), Role("y", "host")],
    "partner": [Role("x"), Role("y", "partner")],
    "each": [Role("x", "each"), Role("y", "host")],
    "all": [Role("x"), Role("y", "second"), Role("z", "away"), Role("h", "host")],
}


def on(monkeypatch: pytest.MonkeyPatch, cpus: int) -> None:
    """Be on a host that has so many."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cpus)))


def members(required: Needs, key: str, instances: int) -> list[set[int]]:
    """CPUs of whom a trial of `key` takes, apart from neighbours."""
    mine = required.environment(key)
    cpu_sets = [
        set(required.place(mine, i)[0])
        for i in range(required.count(mine))
        if required.kind(mine, i) != "spare"
    ]
    if HOST in required.all:
        most = 1 if "each" in required.places else instances
        cpu_sets += [set(required.place(required.environment(HOST), i)[0]) for i in range(most)]
    b = required.environment("b")
    return cpu_sets + [
        set(required.place(b, i)[0])
        for i in range(required.count(b))
        if required.kind(b, i) == "spare"
    ]


@pytest.mark.parametrize("roles", list(ROLES.values()), ids=list(ROLES))
@given(cpus=st.integers(1, 32), instances=st.integers(1, 4), whole=st.integers(1, 3))
def test_other_cpus_are_those_that_nobody_of_the_trial_uses(
    roles: Sequence[Role], cpus: int, instances: int, whole: int
) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        on(monkeypatch, cpus)
        resources = Resources(cpus=whole)
        tested = replace(environment("a", instances, OTHER), resources=resources)
        partner = "b" if Role("y", "partner") in roles else None
        b = replace(environment("b"), resources=resources)
        required = needs(tested, b, roles=roles, partner=partner)
        stands_in = required.environment("a" + NEIGHBOUR)
        if whole > cpus:
            return
        used = set[int]().union(*members(required, "a", instances))
        try:
            placed = [required.place(stands_in, i)[0] for i in range(instances)]
        except UllageError as error:
            assert error.kind is HOST_TOO_SMALL
            assert whole * instances > cpus - len(used), "there was room"
            return
        flat = [cpu for cpu_ids in placed for cpu in cpu_ids]
        assert len(flat) == len(set(flat)) == whole * instances, "neighbours share no CPU"
        assert used.isdisjoint(flat)


@pytest.mark.parametrize("place", ["second", "away", "host"])
def test_a_host_without_other_cpus_is_refused(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    on(monkeypatch, 2)
    needs(environment("a", 1, OTHER), roles=[Role("x")]).check()
    required = needs(environment("a", 1, OTHER), roles=[Role("x"), Role("y", place)])
    with pytest.raises(UllageError) as caught:
        required.check()
    assert caught.value.kind is HOST_TOO_SMALL
    assert "asks for 3 CPUs, 1 of them for neighbours on `other` ones" in caught.value.message
    on(monkeypatch, 3)
    required.check()
    assert required.place(required.environment("a" + NEIGHBOUR), 0)[0] not in (
        required.place(required.environment("a"), i)[0]
        for i in range(required.count(required.environment("a")))
    )
