"""What a plan says of the links of its network."""

from __future__ import annotations

from typing import Any, Final, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from ullage.common.quantities import BitRate, Delay, Seconds, digits, prefixed

Bond = Literal["none", "balance-rr", "active-backup", "802.3ad", "balance-xor"]

Between = Literal["routes", "vxlan"]
"""How the networks of several machines are one."""

MOST_CABLES: Final = 4

_BURST_S: Final = 1e-3
"""What passes at once after a rest. A busy host wakes a shorter bucket too late to reach its rate:
1 Gbit/s came out as 0.35 to 0.5 with 0.1 ms and as 0.92 with 1 ms, at a load of 6 on 2 CPUs."""
_LEAST_BURST_BYTES: Final = 2 * 1514
"""Two Ethernet frames."""
_FEWEST_QUEUED: Final = 32
"""Frames: of a slow link, so many wait whatever the time."""
_UNDERWAY: Final = 1_000_000
"""Frames that a delayed link holds: what is underway is dropped by nobody."""


class NetworkLink(BaseModel):
    """What joins each endpoint to the others."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    rate: BitRate | None = Field(
        None,
        ge=1e5,
        le=1e11,
        description="of each instance's link, either way, `1Gbit`: no more than this goes through;"
        " left out: as fast as this host moves packets",
    )
    queue: Seconds = Field(
        0.01, le=10, description="what waits for the link before packets are dropped, as time"
    )
    delay: Delay = Field(
        0.0,
        le=10,
        description="what each instance's link adds, either way, `5ms`; two instances are two links"
        " apart",
    )
    links: int = Field(
        1,
        ge=1,
        le=MOST_CABLES,
        strict=True,
        description="cables that make up each instance's link, each with the rate and the delay",
    )
    bond: Bond = Field(
        "none",
        description="how several cables are one, by Linux's bonding at either end: `balance-rr`:"
        " packets in turn; `active-backup`: one at a time; `802.3ad`: each stream by one, agreed by"
        " LACP; `balance-xor`: the same, without asking",
    )
    between: Between | None = Field(
        None,
        description="how the machines of `nodes` are joined: `routes`, which is meant where nothing"
        " is said: from subnet to subnet over the link that they share; `vxlan`: one Ethernet over"
        " whatever carries UDP between them",
    )

    @model_validator(mode="after")
    def _says_something(self) -> NetworkLink:
        if (self.links > 1) != (self.bond != "none"):
            raise ValueError("`links: 2` and `bond: 802.3ad`, or another bond, need each other")
        if not self.slows and self.between is None:
            raise ValueError("write `rate: 1Gbit`, `delay: 5ms`, or `links` and `bond`")
        if self.rate is None and "queue" in self.model_fields_set:
            raise ValueError("`queue` is what waits for a `rate`")
        return self

    @model_serializer(mode="wrap")
    def _as_written(self, whole: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without what it has not, as runs from before there was more than a rate have it."""
        absent = {"rate": None, "delay": 0, "links": 1, "bond": "none", "between": None}
        kept = {k: v for k, v in whole(self).items() if k not in absent or v != absent[k]}
        if self.rate is None:
            del kept["queue"]
        return kept

    @property
    def slows(self) -> bool:
        """Does it say anything of an instance's link?"""
        return self.rate is not None or self.delay > 0 or self.bond != "none"

    def __str__(self) -> str:
        """`1.00 Gbit/s`, `2 × 1.00 Gbit/s by 802.3ad, 5.00 ms later`."""
        rate = "" if self.rate is None else _quantity(self.rate, "bit/s")
        if self.links > 1:
            rate = f"{self.links} × {rate or 'a cable'} by {self.bond}"
        delay = f"{_quantity(self.delay, 's')} later" if self.delay else ""
        return ", ".join(filter(None, (rate, delay)))

    @property
    def bucket(self) -> tuple[str, ...]:
        """The words of tc's `tbf`: bits per second, bytes at once, bytes that are held."""
        assert self.rate is not None
        burst = max(_LEAST_BURST_BYTES, round(self.rate / 8 * _BURST_S))
        held = burst + max(_FEWEST_QUEUED * 1514, round(self.rate / 8 * self.queue))
        return "tbf", "rate", f"{round(self.rate)}bit", "burst", f"{burst}b", "limit", f"{held}b"

    @property
    def lag(self) -> tuple[str, ...]:
        """The words of tc's `netem`."""
        return "netem", "delay", f"{round(self.delay * 1e6)}us", "limit", f"{_UNDERWAY}"


def _quantity(value: float, unit: str) -> str:
    divisor, unit = prefixed(value, unit)
    return f"{digits(value / divisor)} {unit}"
