"""A link as it is laid: a switch before the endpoint, and cables from it to the bridge.

What the endpoint is plays no part in it, so it is the same link for a namespace, a container and a
VM. Several cables are one by Linux's bonding, a bond at either end of them. What a bond tells of
itself: Linux, drivers/net/bonding/bond_sysfs_slave.c; the state of a port with LACP: IEEE
802.1AX-2014, 6.4.2.3.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ullage.common.commands import CommandError, run
from ullage.common.errors import (
    NETWORK_NO_BOND,
    NETWORK_NO_DELAY,
    NETWORK_NO_RATE,
    UllageError,
)
from ullage.host.network import iproute
from ullage.host.network.links import NetworkLink

DEVICES: Final = Path("/sys/class/net")
SWITCH: Final = "type bridge stp_state 0 forward_delay 0 mcast_snooping 0"

_NEAR: Final = "nopq"
_FAR: Final = "fghi"
"""A letter for each cable, in the names of its ends."""
_BONDS: Final = "be"
_MONITOR_MS: Final = 50
_TOGETHER: Final = 0x3C
"""Aggregation, synchronisation, collecting, distributing."""
_LOOKS: Final = 600
_LOOK_S: Final = 0.05


@dataclass(frozen=True)
class Cables:
    """Of one device of an endpoint."""

    link: NetworkLink
    tag: str
    device: str

    def _named(self, letter: str) -> str:
        return f"{self.tag}-{letter}{self.device.removeprefix(f'{self.tag}-')}"

    @property
    def switch(self) -> str:
        """Where the device is plugged in."""
        return self._named("c")

    @property
    def ends(self) -> tuple[list[str], list[str]]:
        """Of every cable, at the switch and at the bridge."""
        near, far = ([self._named(c) for c in kind[: self.link.links]] for kind in (_NEAR, _FAR))
        return near, far

    @property
    def bonds(self) -> list[str]:
        """What the ends are bound to, at the switch and at the bridge."""
        return [] if self.link.bond == "none" else [self._named(letter) for letter in _BONDS]

    @property
    def devices(self) -> list[str]:
        """All; the other end of a cable goes with the one."""
        return [*self.bonds, self.switch, *self.ends[0]]

    async def lay(self, bridge: str, name: str) -> None:
        """From a new switch to the bridge, for the endpoint of that name.

        NETWORK_FAILED, and NETWORK_NO_RATE, NETWORK_NO_DELAY, NETWORK_NO_BOND where the kernel
        lacks what that needs.
        """
        near, far = self.ends
        pairs = zip(near, far, strict=True)
        await iproute.batch(
            f"link add name {self.switch} {SWITCH}",
            *(f"link add name {one} type veth peer name {other}" for one, other in pairs),
        )
        if self.bonds:
            await self._bind(name)
        for device in (self.switch, *near, *far, *self.bonds):
            await iproute.batch(f"link set dev {device} addrgenmode none")
            iproute.disable_ipv6(device)
        for device in (*near, *far):
            await self._slow(device)
        inner, outer = self.bonds or (near[0], far[0])
        await iproute.batch(
            f"link set dev {inner} master {self.switch} up",
            f"link set dev {outer} master {bridge} up",
            f"link set dev {self.switch} up",
        )
        if self.bonds:
            await self._joined()

    async def _bind(self, name: str) -> None:
        """A bond at either end, the ends in it. By its alias the near one is known."""
        mode = ["mode", self.link.bond, "miimon", str(_MONITOR_MS)]
        if self.link.bond in {"802.3ad", "balance-xor"}:
            mode += ["xmit_hash_policy", "layer3+4"]
        if self.link.bond == "802.3ad":
            mode += ["lacp_rate", "fast"]
        for bond, ends in zip(self.bonds, self.ends, strict=True):
            try:
                await run(["ip", "link", "add", "name", bond, "type", "bond", *mode])
            except CommandError as error:
                raise UllageError(NETWORK_NO_BOND, link=self.link, reason=error.reason) from error
            await iproute.batch(*(f"link set dev {end} master {bond}" for end in ends))
            await iproute.batch(*(f"link set dev {end} up" for end in ends))
        await iproute.batch(f"link set dev {self.bonds[0]} alias {name}")

    async def _slow(self, device: str) -> None:
        """What leaves by it goes into the delay first, and from there into the bucket."""
        link, place = self.link, ["root"]
        add = ["tc", "qdisc", "add", "dev", device]
        if link.delay:
            try:
                await run([*add, "root", "handle", "1:", *link.lag])
            except CommandError as error:
                raise UllageError(NETWORK_NO_DELAY, link=link, reason=error.reason) from error
            place = ["parent", "1:1"]
        if link.rate is not None:
            try:
                await run([*add, *place, *link.bucket])
            except CommandError as error:
                raise UllageError(NETWORK_NO_RATE, link=link, reason=error.reason) from error

    async def _joined(self) -> None:
        """Until every cable carries, by LACP where that is asked; NETWORK_NO_BOND."""
        for _ in range(_LOOKS):
            if all(map(self._carries, self.bonds)):
                return
            await asyncio.sleep(_LOOK_S)
        up = min(len(_up(bond)) for bond in self.bonds)
        seconds = _LOOKS * _LOOK_S
        reason = f"of {self.link.links} cables {up} came up in {seconds:g} s, and not as one"
        raise UllageError(NETWORK_NO_BOND, link=self.link, reason=reason)

    def _carries(self, bond: str) -> bool:
        up = _up(bond)
        if len(up) < self.link.links:
            return False
        if self.link.bond != "802.3ad":
            return True
        states = [_read(end / "bonding_slave/ad_actor_oper_port_state") for end in up]
        return all(state.isdecimal() and int(state) & _TOGETHER == _TOGETHER for state in states)


@dataclass(frozen=True)
class BundleState:
    """What a bundle of cables tells of itself."""

    cables: int
    down: int
    """Without a link now."""
    failures: int
    """How often one has lost its link, ever."""

    def beside(self, other: BundleState | None) -> BundleState:
        """Both together."""
        if other is None:
            return self
        return BundleState(
            self.cables + other.cables, self.down + other.down, self.failures + other.failures
        )


def bundles(tag: str) -> dict[str, BundleState]:
    """Name of the endpoint → its bundle of cables, or all of them together."""
    states: dict[str, BundleState] = {}
    try:
        with os.scandir(DEVICES) as entries:
            bonds = [Path(e.path) for e in entries if e.name.startswith(f"{tag}-{_BONDS[0]}")]
    except FileNotFoundError:  # without sysfs nothing is told
        return states
    for bond in bonds:
        if (bond / "bonding").is_dir():
            name = _read(bond / "ifalias")
            states[name] = _state(bond.name).beside(states.get(name))
    return states


def _state(bond: str) -> BundleState:
    ends = _ends(bond)
    failures = (_read(end / "bonding_slave/link_failure_count") for end in ends)
    return BundleState(
        len(ends), len(ends) - len(_up(bond)), sum(int(count or 0) for count in failures)
    )


def _ends(bond: str) -> list[Path]:
    return [DEVICES / name for name in _read(DEVICES / bond / "bonding/slaves").split()]


def _up(bond: str) -> list[Path]:
    ends = _ends(bond)
    return [end for end in ends if _read(end / "bonding_slave/mii_status") == "up"]


def _read(file: Path) -> str:
    """Nothing of what is gone."""
    try:
        return file.read_text(encoding="ascii").strip()
    except OSError:
        return ""
