"""What controller and node say to each other: typed, bounded, and checked on both sides.

The framing is the agent's (docs/internals/agent-protocol.md), with a magic line of its own. A node
is trusted less than the controller: whatever it answers is held against these models.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from ullage.environments.agent.clock import UNPROMISED_NS
from ullage.environments.placement import Resources
from ullage.host.network.links import Between
from ullage.host.paths import TAG
from ullage.nodes.answers import Finding, Offer, ShownText

PROTOCOL: Final = 1
MAGIC: Final = b"ULLAGE-NODE"
MOST_EARLIER: Final = 1000
MOST_PEERS: Final = 1024
LEASE_S: Final = 30.0
"""A node that has heard nothing for so long removes all that the run made there, and ends."""
BEAT_S: Final = 5.0
"""So often the controller says that it is there."""
HINT: Final = " | hint: "
"""Between the message and the hint of an error."""

Tag = Annotated[str, StringConstraints(pattern=rf"^{TAG.pattern}$")]
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
Digest = Annotated[str, StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$")]
Word = Annotated[str, StringConstraints(max_length=200)]


def _address(text: str) -> str:
    return str(IPv4Address(text))


def _subnet(text: str) -> str:
    return str(IPv4Network(text))


Address = Annotated[
    str,
    StringConstraints(pattern=r"^[0-9]{1,3}(\.[0-9]{1,3}){3}$"),
    AfterValidator(_address),
]
Subnet = Annotated[
    str,
    StringConstraints(pattern=r"^[0-9]{1,3}(\.[0-9]{1,3}){3}/[0-9]{1,2}$"),
    AfterValidator(_subnet),
]
Path = Annotated[str, StringConstraints(pattern=r"^/[A-Za-z0-9._/-]{1,200}$")]


class Payload(BaseModel):
    """Base of all: nothing else may stand in a message."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class Nothing(Payload):
    """A request or an answer without fields."""


class Hello(Payload):
    """The first request: who is there, and for which run."""

    protocol: int
    tag: Tag
    """What is made there carries it."""
    run: Word
    """Whose it is, for whoever finds it there."""
    earlier: Annotated[list[Tag], Field(max_length=MOST_EARLIER)] = []
    """Of earlier sessions of the run: what they have left is removed."""


class Greeting(Payload):
    """The node's answer."""

    protocol: int
    not_removed: Annotated[list[ShownText], Field(max_length=1000)] = []
    facts: Annotated[dict[Word, Any], Field(max_length=64)]


class Provided(Payload):
    """A provider, by its name and options."""

    provider: Name
    options: dict[str, Any] = {}


class Offered(Payload, Offer):
    """What the provider is there."""


class RoomLeft(Payload):
    """What a machine has left for instances."""

    available_bytes: Annotated[int, Field(ge=0, lt=1 << 63)]
    """Of memory, as its kernel estimates it."""
    cpus: Annotated[int, Field(ge=1, le=1 << 16)]
    """That its instances may have."""


class Has(Payload):
    """Is the image there?"""

    digest: Digest


class HasAnswer(Payload):
    there: bool


class Take(Payload):
    """An image is to come."""

    digest: Digest
    size: Annotated[int, Field(ge=1, lt=1 << 46)]
    config: dict[str, Any] | None = None


class Taking(Payload):
    """Where its tar is taken: whoever attaches there, as to an instance's agent, is read."""

    socket: Path


class Taken(Payload):
    """Is it there, whole?"""

    digest: Digest


class Packages(Payload):
    """Which packages of the node's own userland hold these programs?"""

    programs: Annotated[dict[Word, Word], Field(max_length=200)]


class PackagesAnswer(Payload):
    packages: Annotated[dict[Word, Word], Field(max_length=1000)]


class Surroundings(Payload):
    """Where are you on the network?"""

    address: Address | None
    """Of the machine, for the others; None: the one that ssh reached."""


class Place(Payload):
    """A machine on the network: the address, its device, and what is taken there already."""

    address: Address
    mtu: Annotated[int, Field(ge=68, le=65_536)]
    routes: Annotated[list[Subnet], Field(max_length=10_000)]


class Member(Payload):
    """One machine's part of the run's network."""

    subnet: Subnet
    address: Address


class Join(Payload):
    """Make your part of the run's network, and reach the others."""

    own: Member
    peers: Annotated[list[Member], Field(max_length=MOST_PEERS)]
    between: Between
    key: Annotated[int, Field(ge=0, lt=1 << 24)]
    mtu: Annotated[int, Field(ge=68, le=65_536)]
    link: dict[str, Any] | None = None


class Ear(Payload):
    """Where an echo listens; and, as a request, speak to it."""

    address: Address
    port: Annotated[int, Field(ge=1, le=65_535)]


class ClockRequest(Payload):
    """Tell your time by RGAP over UDP."""

    address: Address | None
    """Where to listen; None: where ssh reached you."""
    token: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]
    """Who does not have it gets no answer."""


class Create(Payload):
    """Make an instance."""

    provider: Name
    options: dict[str, Any] = {}
    name: Name
    resources: Resources
    turn: Annotated[int, Field(ge=0, lt=1 << 16)]
    image: Digest | None
    writable: bool = False
    network: bool = False
    """On the run's network, which the node has joined."""


class Created(Payload):
    """Where it is, and where its agent is to be had."""

    socket: Path
    cpu_ids: Annotated[list[Annotated[int, Field(ge=0, lt=1 << 16)]], Field(min_length=1)]
    cpu_quota: Annotated[float, Field(gt=0, le=1024)] | None
    data: Annotated[str, StringConstraints(pattern=r"^/[^\x00]{1,1000}$")]
    own_kernel: bool
    address: Address | None = None
    apart_ns: Annotated[int, Field(ge=0, le=UNPROMISED_NS)] | None = None
    """Its clock is the node's, give or take this; None: it is another."""


class Named(Payload):
    """An instance by its name."""

    name: Name


class Kills(Payload):
    kills: Annotated[int, Field(ge=0, lt=1 << 63)]


class MetersOn(Payload):
    """Who works, for the meters."""

    instances: Annotated[list[Name], Field(max_length=1024)]
    ends: Annotated[list[Name], Field(max_length=1024)]


class Readings(Payload):
    readings: Annotated[
        dict[Word, Annotated[dict[Word, float], Field(max_length=1000)]], Field(max_length=64)
    ]


class Clean(Payload):
    """What killed runs have left there."""

    remove: bool


class Leaving(Payload):
    kind: Word
    name: ShownText
    tag: Word
    run: ShownText | None


class Leavings(Payload):
    there: Annotated[list[Leaving], Field(max_length=2000)]
    failed: Annotated[list[ShownText], Field(max_length=2000)] = []


class Diagnosis(Payload):
    """What the doctor says there."""

    host: Annotated[dict[Word, Any], Field(max_length=64)]
    findings: Annotated[list[Finding], Field(max_length=100)]
