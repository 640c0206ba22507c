"""Where the other end of a workload between two stands."""

from __future__ import annotations

from typing import Annotated, Final, cast

from pydantic import BeforeValidator

from ullage.workloads.base import Place

_NAMES: Final = {
    "host": "the host",
    "second": "a second instance",
    "away": "an instance on another node",
}
_ENVIRONMENT: Final = "environment:"

MEANING: Final = (
    "the other end: `host`, a native endpoint on the same bridge; `second`, another instance on "
    "the same node; `away`, one on another node; `{environment: KEY}`, an instance of that "
    "environment of the plan, on the same node"
)
"""The description of a parameter `peer`."""


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


def described(peer: str) -> str:
    """As it stands in a title: `the host`, `a second instance`, `vm`."""
    return partner(peer) or _NAMES[peer]
