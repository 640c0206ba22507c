"""What instances a run needs: of which environments, how many of each, what for, on which CPUs.

All of it follows from the plan, so nothing is made or asked here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, Literal

from ullage.environments import Options, placement
from ullage.environments.base import DataDisk, DataOptions
from ullage.environments.native import Native
from ullage.environments.placement import Placed
from ullage.nodes.descriptors import Descriptors
from ullage.nodes.provider import on_nodes
from ullage.plan.matrix import Environment, Matrix
from ullage.plan.neighbours import NEIGHBOUR

HOST: Final = "host"
"""Key of the native endpoints that stand for `the host` in network workloads."""

InstanceKind = Literal["instance", "side", "second", "away", "spare"]
"""What an instance is for: under test; the other side of a duet; a second endpoint on the same
node, or on another; the other end of a workload that another environment runs."""


@dataclass(frozen=True)
class Needs:
    matrix: Matrix

    @property
    def duet(self) -> bool:
        """Trials run in pairs."""
        return self.matrix.design == "duet"

    @property
    def places(self) -> set[str]:
        """Places of the roles of all workloads."""
        return {place for case in self.matrix.cases for place in case.places}

    @property
    def renewed(self) -> list[str]:
        """Keys of all that is made anew together: environments and their neighbours."""
        return [*self.matrix.keys, *self._neighbours]

    @property
    def all(self) -> list[str]:
        """Keys of all that is made at the start."""
        return [*self.renewed, *self.hosts]

    @cached_property
    def hosts(self) -> dict[str, Environment]:
        """Key → what stands for `the host`: for each set of nodes that instances stand on."""
        if "host" not in self.places:
            return {}
        return {self.host_key(tested): self._host(tested) for tested in self.matrix.environments}

    def host_key(self, tested: Environment) -> str:
        """Of what stands for the host beside an environment."""
        return "@".join((HOST, *tested.nodes))

    def environment(self, key: str) -> Environment:
        """An environment of the plan, what stands for the host, or what a neighbour stands in."""
        if key in self._neighbours:
            return self._neighbours[key]
        return self.hosts[key] if key in self.hosts else self.matrix.environment(key)

    def _host(self, tested: Environment) -> Environment:
        baseline = self.matrix.environment(self.matrix.baseline)
        provider = Native(Options())
        return Environment(
            self.host_key(tested),
            HOST,
            on_nodes(provider) if tested.away else provider,
            {},
            baseline.resources,
            len(tested.nodes) or self._most,
            image=baseline.image,
            nodes=tested.nodes,
        )

    def copies(self, environment: Environment) -> dict[InstanceKind, int]:
        """Kind → number of its instances of that kind, in their order."""
        counts: dict[InstanceKind, int] = {"instance": environment.instances}
        if environment.key not in self.matrix.keys:
            return counts
        if self.duet:
            counts["side"] = environment.instances
        if "second" in self.places:
            counts["second"] = environment.instances
        if "away" in self.places:
            counts["away"] = environment.instances
        if environment.key in self._partners:
            counts["spare"] = self._most
        return counts

    def count(self, environment: Environment) -> int:
        """Its instances of all kinds."""
        return sum(self.copies(environment).values())

    def counts(self) -> Iterable[tuple[Environment, int]]:
        """Each environment and neighbour, with its number of instances."""
        environments = [self.environment(key) for key in self.renewed]
        return [(environment, self.count(environment)) for environment in environments]

    def here(self) -> Iterable[tuple[Environment, int]]:
        """The same, of those that stand on this machine."""
        counts = {
            environment.key: (environment, count - self._away(environment, count))
            for environment, count in self.counts()
            if not environment.provider.elsewhere
        }
        return [(environment, count) for environment, count in counts.values() if count]

    def _away(self, environment: Environment, count: int) -> int:
        """How many of its instances stand on other machines."""
        names = (self.node(environment, index) for index in range(count))
        return sum(name is not None and not self.matrix.nodes[name].local for name in names)

    def node(self, environment: Environment, index: int) -> str | None:
        """The node of the instance with that number; None: this machine."""
        if not environment.nodes:
            return None
        kind, own = self._own(environment, index)
        nodes = environment.nodes
        if kind == "away" and environment.other_nodes:
            nodes = environment.other_nodes
        return nodes[own % len(nodes)]

    def turn(self, environment: Environment, index: int) -> int:
        """Its turn for CPUs on its node: those under test first, others as if they were there too.

        A `second` and one that is `away` so have CPUs with the same numbers.
        """
        node, (kind, own) = self.node(environment, index), self._own(environment, index)
        others = range(index - own, index)
        before = sum(self.node(environment, other) == node for other in others)
        if kind == "instance" and environment.name != HOST:
            return before
        beside = environment.nodes[own % len(environment.nodes)]
        return before + environment.nodes.count(beside)

    def check(self) -> str | None:
        """HOST_TOO_SMALL when this host cannot hold it; a sentence when it will be tight."""
        for key in self.renewed:
            environment = self.environment(key)
            if self._tested_apart(environment):
                self.place(environment, 0)  # where one finds a place, all do
        return placement.check(list(self.here()), self.matrix.design)

    @property
    def descriptors(self) -> Descriptors:
        """What all of it takes of this process."""
        everybody = [(self.environment(key), self.count(self.environment(key))) for key in self.all]
        groups = sorted((count for _, count in everybody), reverse=True)
        here = sum(
            count - self._away(environment, count)
            for environment, count in everybody
            if not environment.provider.elsewhere
        )
        return Descriptors(
            nodes=sum(not node.local for node in self.matrix.nodes.values()),
            instances=sum(groups),
            here=here,
            working=sum(groups[: 2 if self.duet else 1]),
        )

    def kind(self, environment: Environment, index: int) -> InstanceKind:
        """What the instance with that number is for."""
        return self._kinds(environment)[index]

    def _kinds(self, environment: Environment) -> list[InstanceKind]:
        """The kind of each of its instances, in their order."""
        return [kind for kind, count in self.copies(environment).items() for _ in range(count)]

    def place(self, environment: Environment, index: int) -> Placed:
        """Where the instance with that number runs."""
        if environment.provider.elsewhere:
            return placement.elsewhere(environment.resources)
        if self.duet:
            return placement.side(environment.resources, 1 if index else 0)
        if tested := self._tested_apart(environment):
            used = self._used(tested)
            return placement.apart(environment.resources, environment.instances, used)[index]
        if environment.key in self.matrix.keys:
            index = self._turn(environment, index)
        backwards = environment.name == HOST
        return placement.place(environment.resources, index, backwards=backwards)

    def _turn(self, environment: Environment, index: int) -> int:
        """Its turn for CPUs: instances of all other kinds run where the `second` ones do.

        What is near and what is far then differ in the way between, and in nothing else.
        """
        kind, own = self._own(environment, index)
        return own if kind == "instance" else environment.instances + own

    def _own(self, environment: Environment, index: int) -> tuple[InstanceKind, int]:
        """Its kind, and its number among those of that kind."""
        first = 0
        for kind, count in self.copies(environment).items():
            if index < first + count:
                return kind, index - first
            first += count
        raise IndexError(index)

    def _used(self, tested: Environment) -> set[int]:
        """CPUs of everybody who plays a role in any trial of the environment."""
        used = self._cpus_of(tested, "instance", tested.instances)
        for case in self.matrix.cases:
            teams = 1 if "each" in case.places else tested.instances
            if "second" in case.places:
                used |= self._cpus_of(tested, "second", teams)
            if "away" in case.places:
                used |= self._cpus_of(tested, "away", teams)
            if "host" in case.places:
                used |= self._cpus_of(self.hosts[self.host_key(tested)], "instance", teams)
            if partner := case.workload.partner(case.parameters):
                used |= self._cpus_of(self.environment(partner), "spare", teams)
        return used

    def _cpus_of(self, environment: Environment, kind: InstanceKind, count: int) -> set[int]:
        """CPUs of its first `count` instances of that kind."""
        numbers = [i for i, its_kind in enumerate(self._kinds(environment)) if its_kind == kind]
        return {cpu for i in numbers[:count] for cpu in self.place(environment, i)[0]}

    def _tested_apart(self, environment: Environment) -> Environment | None:
        """For what a neighbour on `other` CPUs stands in: the environment under test."""
        if environment.neighbour_of is None:
            return None
        tested = self.matrix.environment(environment.neighbour_of)
        return tested if tested.neighbour and tested.neighbour.cpus == "other" else None

    @property
    def _most(self) -> int:
        return max(environment.instances for environment in self.matrix.environments)

    @property
    def _partners(self) -> set[str | None]:
        return {case.workload.partner(case.parameters) for case in self.matrix.cases}

    @cached_property
    def _neighbours(self) -> dict[str, Environment]:
        """Key → where a neighbour stands: one instance beside each of the tested one's."""
        environments = {}
        for tested in self.matrix.environments:
            if tested.neighbour is None:
                continue
            key, where = tested.key + NEIGHBOUR, tested.neighbour.environment
            environments[key] = replace(
                tested,
                key=key,
                provider=Native(_beside(tested))
                if where == "host"
                else self.matrix.environment(where).provider,
                factors={},
                again_of=None,
                neighbour=None,
                neighbour_of=tested.key,
            )
        return environments


def _beside(tested: Environment) -> DataOptions:
    """Of a neighbour on the host: it loads the disk that the tested one's data stand on."""
    return DataOptions(disk=DataDisk(path=tested.provider.data_request.path))
