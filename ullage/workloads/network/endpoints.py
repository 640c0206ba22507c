"""Where the other end of a workload between two stands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Final, TypeVar, cast

from pydantic import BeforeValidator, Field

from ullage.workloads.base import OTHER_NODE, Parameters, Place, Role, Workload

_NAMES: Final = {
    "host": "the host",
    "second": "a second instance",
    "away": f"an instance on {OTHER_NODE}",
}
_ENVIRONMENT: Final = "environment:"


def _peer(value: object) -> object:
    """`{environment: vm}` → `environment:vm`, as it stands in keys; a place as it is."""
    if isinstance(value, dict):
        if list(value) != ["environment"] or not isinstance(key := value["environment"], str):
            raise ValueError("one field, `environment`, with the name of one")
        value = f"{_ENVIRONMENT}{key}"
    if isinstance(value, str) and (value in _NAMES or value.startswith(_ENVIRONMENT)):
        return value
    raise ValueError(f"one of {', '.join(_NAMES)}, or {{environment: KEY}}")


Peer = Annotated[str, BeforeValidator(_peer, json_schema_input_type=str | dict[str, str])]
"""A place, or `{environment: KEY}`, which is kept as `environment:KEY`."""


def place(peer: str) -> Place:
    """Where the role of the other end stands."""
    return "partner" if partner(peer) is not None else cast(Place, peer)


def partner(peer: str) -> str | None:
    """The key of the environment that it names; None: it names a place."""
    return peer.removeprefix(_ENVIRONMENT) if peer.startswith(_ENVIRONMENT) else None


def peer_in_words(peer: str) -> str:
    """As it stands in a title: `the host`, `a second instance`, `vm`."""
    return partner(peer) or _NAMES[peer]


class PeerParameters(Parameters):
    """Of a workload between two."""

    peer: Peer = Field(
        "host",
        description="the other end: `host`, a native endpoint on the same bridge; `second`, "
        "another instance on the same node; `away`, one on another node; `{environment: KEY}`, an "
        "instance of that environment of the plan, on the same node",
    )


P = TypeVar("P", bound=PeerParameters)


class BetweenTwo(Workload[P]):
    """One program in the instance, another, or nothing but a kernel, at the peer."""

    ends: ClassVar[tuple[str, str]]
    """The roles of the two, the instance's first."""

    def roles(self, parameters: P) -> Sequence[Role]:
        mine, far = self.ends
        return Role(mine), Role(far, place(parameters.peer))

    def partner(self, parameters: P) -> str | None:
        return partner(parameters.peer)
