"""The instances that play the roles of one trial together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from ullage.environments import Instance
from ullage.workloads.base import Place, Role


@dataclass
class Team:
    """Who is there, by the places that roles have."""

    instance: Instance
    second: Instance | None = None
    away: Instance | None = None
    partner: Instance | None = None
    host: Instance | None = None
    each: Sequence[Instance] = field(default_factory=tuple)
    """Every instance of the environment, `instance` the first of them."""
    neighbours: Sequence[Instance] = field(default_factory=tuple)
    """They play no role of the workload: they load the host."""

    def only(self, places: set[Place]) -> Team:
        """Without those whose place no role has; the instance under test is always there."""
        return replace(
            self,
            second=self.second if "second" in places else None,
            away=self.away if "away" in places else None,
            partner=self.partner if "partner" in places else None,
            host=self.host if "host" in places else None,
            each=self.each if "each" in places else (),
        )

    def players(self, roles: Iterable[Role]) -> dict[str, Instance]:
        """Role → the instance that plays it, for the roles that have one."""
        found: dict[str, Instance] = {}
        for role in roles:
            if role.place == "each":
                found |= {f"{role.name}-{i}": each for i, each in enumerate(self.each)}
            elif player := getattr(self, role.place):
                found[role.name] = player
        return found

    @property
    def ends(self) -> list[Instance]:
        """What others of them work against: a second instance, or what stands for the host."""
        found = (self.second, self.away, self.host)
        return [each for each in found if each is not None and each not in self.each]

    @property
    def members(self) -> list[Instance]:
        """Everybody there is, once."""
        others = (self.second, self.away, self.partner, self.host, *self.neighbours)
        found = [self.instance, *self.each, *(other for other in others if other is not None)]
        return list({each.name: each for each in found}.values())
