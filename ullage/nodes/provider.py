"""A provider whose instances stand on other machines: the same in name and options, and what it is
is told by each node."""

from __future__ import annotations

from typing import ClassVar, Final

from ullage.environments import Instance, InstanceSpec, Options, Provider
from ullage.nodes.answers import Offer

ON_NODES: Final = ("native", "oci", "lxc")
"""Providers that work on other machines too."""


class OnNodes(Provider):
    """Made by `on_nodes`."""

    def __init__(self, own: Provider) -> None:
        """own: the same, as it is here."""
        super().__init__(own.options)
        self.own = own
        self.offers: dict[str, Offer] = {}
        """Node → what it is there; filled when the nodes were checked."""

    async def check(self) -> None:
        """Nodes are asked, not this host."""

    async def create(self, spec: InstanceSpec) -> Instance:
        """Nodes make its instances."""
        raise AssertionError(spec.name)

    def packages(self) -> tuple[str, ...]:
        return self.own.packages()

    def label(self) -> str:
        """As the first node calls it, with where it is."""
        if not self.offers:
            return self.own.label()
        return next(iter(self.offers.values())).label

    def writable_root(self) -> str:
        return next((offer.writable_root for offer in self.offers.values()), "")

    def data_treatments(self) -> dict[str, str]:
        """Among the treatments that the nodes tell."""
        return {}

    @property
    def on_network(self) -> bool:
        return self.own.on_network

    @property
    def emulated(self) -> bool:
        """True where one of the nodes emulates."""
        return any(offer.emulated for offer in self.offers.values())

    def treatments(self) -> dict[str, str]:
        """What all nodes tell alike, and what only one tells with its name."""
        if not self.offers:
            return self.own.treatments()
        first, *others = self.offers.values()
        alike = {
            name: text
            for name, text in first.treatments.items()
            if all(other.treatments.get(name) == text for other in others)
        }
        apart = {
            f"{name} on {node}": text
            for node, offer in self.offers.items()
            for name, text in offer.treatments.items()
            if name not in alike
        }
        return {**alike, **apart}


def on_nodes(own: Provider) -> OnNodes:
    """The provider, for nodes."""
    kind = type(own)

    class Placed(OnNodes):
        name = kind.name
        options_model: ClassVar[type[Options]] = kind.options_model
        host_image = kind.host_image
        keeps_memory = kind.keeps_memory
        stands_on = kind.stands_on
        provision_s = kind.provision_s

    return Placed(own)


def inner(provider: Provider) -> Provider:
    """The provider itself, for whoever makes its instances."""
    return provider.own if isinstance(provider, OnNodes) else provider
