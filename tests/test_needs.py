"""What instances a run needs follows from its plan alone."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from ullage.environments.native import Native, NativeOptions
from ullage.matrix import Environment, Load, Matrix
from ullage.needs import HOST, Needs, of_plan
from ullage.neighbours import NEIGHBOUR
from ullage.plan import Neighbour, Resources
from ullage.workloads.base import Role, Workload
from ullage.workloads.command import Command, CommandParameters


class Played(Command):
    """Any roles that a test wants."""

    def __init__(self, roles: Sequence[Role], partner: str | None = None) -> None:
        self._roles, self._partner = roles, partner

    def roles(self, parameters: CommandParameters) -> Sequence[Role]:
        return self._roles

    def partner(self, parameters: CommandParameters) -> str | None:
        return self._partner


def environment(key: str, instances: int = 1, neighbour: Neighbour | None = None) -> Environment:
    provider = Native(NativeOptions())
    return Environment(key, provider, {}, Resources(), instances, neighbour=neighbour)


def needs(*environments: Environment, **load: Any) -> Needs:
    workload: Workload[Any] = Played(**load)
    parameters = CommandParameters(argv=["true"])
    return Needs(Matrix("a", environments, (Load("command", workload, parameters, {}),)))


def test_each_place_of_a_role_asks_for_instances() -> None:
    roles = [Role("x"), Role("y", "second"), Role("z", "away"), Role("h", "host")]
    found = needs(environment("a", 3), roles=roles)
    a = found.environment("a")
    assert found.copies(a) == {"instance": 3, "second": 3, "away": 3}
    assert [found.kind(a, i) for i in range(9)] == ["instance"] * 3 + ["second"] * 3 + ["away"] * 3
    assert found.all == ["a", HOST]
    assert found.environment(HOST).instances == 3
    assert found.copies(found.environment(HOST)) == {"instance": 3}


def test_other_ends_of_all_kinds_run_on_the_same_cpus() -> None:
    roles = [Role("x"), Role("y", "second"), Role("z", "away")]
    found = needs(environment("a", 2), roles=roles)
    placed = [found.cpus(found.environment("a"), i) for i in range(6)]
    assert placed[2:4] == placed[4:6]
    if len(os.sched_getaffinity(0)) > 3:
        assert len(set(placed[:4])) == 4


def test_a_partner_has_spares_for_the_largest_environment() -> None:
    roles = [Role("x"), Role("y", "partner")]
    found = needs(environment("a", 2), environment("b"), roles=roles, partner="b")
    assert found.copies(found.environment("a")) == {"instance": 2}
    assert found.copies(found.environment("b")) == {"instance": 1, "spare": 2}


def test_every_instance_in_one_trial_asks_for_no_more() -> None:
    found = needs(environment("a", 4), roles=[Role("rank", "each")])
    assert found.count(found.environment("a")) == 4
    assert found.places == {"each"}


def test_a_neighbour_stands_in_an_environment_of_its_own() -> None:
    beside = Neighbour(cpus="other", environment="a")
    found = needs(environment("a"), environment("b", 2, beside), roles=[Role("x")])
    assert found.renewed == ["a", "b", "b" + NEIGHBOUR]
    made = found.environment("b" + NEIGHBOUR)
    assert (made.neighbour, made.instances) == (None, 2)
    assert made.provider is found.environment("a").provider
    assert [each.key for each, _ in found.counts()] == found.renewed


def test_what_no_plan_names() -> None:
    assert of_plan("a") and not of_plan(HOST) and not of_plan("a" + NEIGHBOUR)
