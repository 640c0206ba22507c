"""Who plays which role, and who is there."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

from ullage.engine import turn
from ullage.engine.team import Team
from ullage.engine.trial import Attempt
from ullage.environments import Instance
from ullage.meters import Scene
from ullage.workloads.base import Role


@dataclass
class Named:
    """All that a team looks at."""

    name: str
    own_kernel: bool = False


def instance(name: str) -> Instance:
    return cast(Instance, Named(name))


ONE, TWO, THREE, HOST = (instance(name) for name in ("vm-0", "vm-1", "vm-2", "host-0"))


def team(**more: Any) -> Team:
    return Team(ONE, second=TWO, away=THREE, host=HOST, each=(ONE, TWO, THREE), **more)


def test_roles_are_played_where_they_stand() -> None:
    roles = (Role("main"), Role("server", "host"), Role("peer", "second"), Role("far", "away"))
    assert team().players(roles) == {"main": ONE, "server": HOST, "peer": TWO, "far": THREE}


def test_each_instance_plays_under_a_number() -> None:
    players = team().players((Role("main"), Role("rank", "each")))
    assert players == {"main": ONE, "rank-0": ONE, "rank-1": TWO, "rank-2": THREE}


def test_a_role_whose_place_nobody_has_is_not_played() -> None:
    assert Team(ONE).players((Role("main"), Role("peer", "second"))) == {"main": ONE}


def test_everybody_is_a_member_once() -> None:
    assert team().members == [ONE, TWO, THREE, HOST]
    assert Team(ONE).members == [ONE]


def test_only_those_whose_place_a_role_has() -> None:
    assert team().only({"instance", "host"}).members == [ONE, HOST]
    assert team().only({"instance", "away"}).members == [ONE, THREE]
    assert team().only({"each"}).members == [ONE, TWO, THREE]
    assert team(partner=instance("lxc-0")).only({"instance"}).members == [ONE]
    assert team().only(set()).instance is ONE


def test_the_other_end_is_not_under_test() -> None:
    assert team().only({"second", "host"}).ends == [TWO, HOST]
    assert team().only({"each", "second", "host"}).ends == [HOST]
    assert Team(ONE).ends == []


def test_meters_are_told_who_is_at_the_other_end() -> None:
    mine = team().only({"second"})
    attempt = SimpleNamespace(
        fleet=SimpleNamespace(tag="u0000000"), teams=[mine], workers=lambda: mine.members
    )
    scene = turn._scene(cast(Attempt, attempt))
    assert scene == Scene("u0000000", ("vm-0", "vm-1"), ("vm-1",))


def test_meters_are_told_who_is_a_vm() -> None:
    guest = cast(Instance, Named("vm-3", own_kernel=True))
    attempt = SimpleNamespace(
        fleet=SimpleNamespace(tag="u0000000"), teams=[], workers=lambda: [ONE, guest]
    )
    scene = turn._scene(cast(Attempt, attempt))
    assert scene == Scene("u0000000", ("vm-0", "vm-3"), (), ("vm-3",))
