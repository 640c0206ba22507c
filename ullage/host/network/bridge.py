"""The run's own network: one bridge, a private /24, and the endpoints that stand on it.

Native endpoints, containers and VMs are all ports of the same bridge, so that a ratio between them
tells of what stands inside them and not of the path. Everything is named by the run's tag. The
host's other interfaces, its forwarding and its packet filter are left alone; traffic stays on the
bridge, unless `ullage.host.network.between` joins it with those of other machines.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import ipaddress
import os
import shutil
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ullage.common.commands import attempt
from ullage.common.errors import (
    HOST_MISSING,
    HOST_NEEDS_ROOT,
    NETWORK_FAILED,
    NETWORK_FILTERED,
    NETWORK_FULL,
    UllageError,
)
from ullage.common.files import file_lock
from ullage.common.packages import install_command
from ullage.host import paths
from ullage.host.network import iproute, routes
from ullage.host.network.cables import DEVICES, SWITCH, Cables
from ullage.host.network.links import NetworkLink

INSIDE: Final = "eth0"
"""What an endpoint's own end is called."""

CANDIDATES: Final = tuple(
    ipaddress.IPv4Network(block) for block in ("10.213.0.0/16", "172.29.0.0/16", "198.18.0.0/16")
)
"""Where a /24 is looked for: RFC 1918, and in the last place RFC 2544 (benchmarking)."""

MOST_LINKS: Final = 4
"""NICs of a VM that are one inside."""

_FIRST_HOST: Final = 2
_LAST_HOST: Final = 254
_TAP_KINDS: Final = "txyz"
"""A letter for each tap of a VM, in the names of devices."""
_ALONE_S: Final = 60.0
"""Another run takes a moment to choose its subnet; one that was stopped then is not waited for."""
_PROBES: Final = 10
_PROBE_TIMEOUT_S: Final = 0.3


@dataclass(frozen=True)
class Endpoint:
    """One place on the bridge."""

    name: str
    device: str
    """The host's end: a veth or a tap, a port of the bridge."""
    mac: str
    """Of the end that has the address."""
    address: str
    prefix: int
    link: str
    """Where the device is plugged in: the bridge, or the endpoint's own switch before it."""


@dataclass(frozen=True)
class NamespaceEndpoint(Endpoint):
    """A network namespace with `lo` and `eth0` up."""

    netns_path: Path


@dataclass(frozen=True)
class TapEndpoint(Endpoint):
    """A tap for a VM, or several; the guest sets MAC and address itself."""

    more: tuple[str, ...] = ()
    """The host's ends of its other NICs; each has a link of its own."""

    @property
    def taps(self) -> tuple[tuple[str, str], ...]:
        """Device and MAC of each NIC; the first has the endpoint's own."""
        devices = (self.device, *self.more)
        return tuple((device, _other_mac(self.mac, n)) for n, device in enumerate(devices))


@dataclass(frozen=True)
class Beyond:
    """The networks of the run on other machines, as an endpoint here reaches them."""

    subnets: tuple[ipaddress.IPv4Network, ...]
    by_gateway: bool
    """True: over the host, which forwards; False: they are on the same link."""
    mtu: int
    """What goes all the way."""


def choose_subnet(tag: str, routed: Iterable[ipaddress.IPv4Network]) -> ipaddress.IPv4Network:
    """A /24 that overlaps no route. It starts at a place that follows from the tag."""
    routes = [network for network in routed if network.prefixlen > 0]
    first = _digest(tag)[0]
    for block in CANDIDATES:
        if any(block.subnet_of(route) for route in routes):
            continue
        base = int(block.network_address)
        for step in range(256):
            subnet = ipaddress.IPv4Network((base + ((first + step) % 256 << 8), 24))
            if not any(subnet.overlaps(route) for route in routes):
                return subnet
    raise UllageError(NETWORK_FULL, what="every private /24 that ullage may use", where="this host")


class Network:
    """The bridge of one run. Make it with `create`, and always end with `destroy`."""

    def __init__(
        self,
        tag: str,
        subnet: ipaddress.IPv4Network,
        bridge: str = "br",
        hosts: set[int] | None = None,
        link: NetworkLink | None = None,
    ) -> None:
        self.tag = paths.check_tag(tag)
        self.bridge = f"{tag}-{bridge}"
        self.subnet = subnet
        self.link = link
        self.beyond: Beyond | None = None
        self._hosts: set[int] = set() if hosts is None else hosts

    @classmethod
    async def create(
        cls,
        tag: str,
        link: NetworkLink | None = None,
        subnet: ipaddress.IPv4Network | None = None,
    ) -> Network:
        """Make the bridge, up, with the gateway's address on it.

        link: what joins each endpoint to it; None: nothing slows it. subnet: None: one that is free
        here. Raises HOST_NEEDS_ROOT, HOST_MISSING (no iproute2), NETWORK_FULL.
        """
        if os.geteuid() != 0:
            raise UllageError(
                HOST_NEEDS_ROOT, what="a bridge", otherwise="leave out workloads that use a network"
            )
        if shutil.which("ip") is None:
            raise UllageError(HOST_MISSING, what="ip", command=install_command("iproute2"))
        async with contextlib.AsyncExitStack() as stack:
            await _choose_alone(stack)
            free = subnet or choose_subnet(tag, await iproute.routes())
            network = cls(tag, free, link=link)
            try:
                await network._make_bridge()
            except BaseException:
                await network.destroy()
                raise
        return network

    async def neighbour(self) -> Network:
        """The bridge of another node, one cable away: a veth from this bridge to that one.

        Same subnet, no address of its own; the cable has no rate, unlike the endpoints' links. It
        goes when this network is destroyed.
        """
        away = Network(self.tag, self.subnet, "br2", self._hosts, self.link)
        near_end, far_end = f"{self.tag}-up", f"{self.tag}-dn"
        await iproute.batch(
            f"link add name {away.bridge} address {self._mac(255)} {SWITCH}",
            f"link set dev {away.bridge} addrgenmode none",
            f"link set dev {away.bridge} up",
            f"link add name {near_end} type veth peer name {far_end}",
            *(f"link set dev {device} addrgenmode none" for device in (near_end, far_end)),
            f"link set dev {near_end} master {self.bridge} up",
            f"link set dev {far_end} master {away.bridge} up",
        )
        for device in (away.bridge, near_end, far_end):
            iproute.disable_ipv6(device)
        return away

    @property
    def prefix(self) -> int:
        """Bits of the subnet's mask."""
        return self.subnet.prefixlen

    @property
    def gateway(self) -> str:
        """The host's own address on the bridge. Nothing is forwarded beyond it."""
        return str(self.subnet[1])

    def mac(self, address: str) -> str:
        """Of the endpoint that has the address: it is the same for the whole run."""
        return self._mac(int(ipaddress.IPv4Address(address)) & 0xFF)

    async def reserve(self, name: str) -> Endpoint:
        """Address, MAC, device name and link for one who makes the veth himself (LXC)."""
        endpoint = Endpoint(*self._place(name, "v"))
        try:
            await self._lay(endpoint.device, name)
        except BaseException:
            await self.release(endpoint)
            raise
        return endpoint

    async def namespace(self, name: str) -> NamespaceEndpoint:
        """A new network namespace on the bridge."""
        netns = f"{self.tag}-{name}"
        endpoint = NamespaceEndpoint(*self._place(name, "v"), netns_path=iproute.NETNS_DIR / netns)
        try:
            await self._join(endpoint, endpoint.netns_path, f"netns add {netns}")
        except BaseException:
            await self.release(endpoint)
            raise
        return endpoint

    async def move_into(self, pid: int, name: str) -> Endpoint:
        """Put an `eth0` on the bridge into the network namespace of a running process."""
        endpoint = Endpoint(*self._place(name, "v"))
        try:
            await self._join(endpoint, Path(f"/proc/{pid}/ns/net"))
        except BaseException:
            await self.release(endpoint)
            raise
        return endpoint

    async def tap(self, name: str, links: int = 1, *, several_queues: bool = False) -> TapEndpoint:
        """A tap on the bridge, up, that any root process may open; or several, for one address.

        several_queues: it may be opened more than once.
        """
        flags = "vnet_hdr multi_queue" if several_queues else "vnet_hdr"
        place = self._place(name, "t")
        host = place[1].removeprefix(f"{self.tag}-t")
        more = tuple(f"{self.tag}-{_TAP_KINDS[n]}{host}" for n in range(1, links))
        endpoint = TapEndpoint(*place, more=more)
        try:
            for device, _ in endpoint.taps:
                await self._lay(device, name)
                await iproute.batch(
                    f"tuntap add dev {device} mode tap {flags}",
                    f"link set dev {device} addrgenmode none",
                    f"link set dev {device} master {self._switch(device)} up",
                )
                iproute.disable_ipv6(device)
        except BaseException:
            await self.release(endpoint)
            raise
        return endpoint

    async def release(self, endpoint: Endpoint) -> None:
        """Remove an endpoint; does nothing when it is gone."""
        more = endpoint.more if isinstance(endpoint, TapEndpoint) else ()
        devices = [endpoint.device, *more]
        if self.link:
            ends = tuple(devices)
            devices += [name for end in ends for name in self._cables(self.link, end).devices]
        for device in devices:
            await attempt(["ip", "link", "delete", "dev", device])
        if isinstance(endpoint, NamespaceEndpoint):
            await attempt(["ip", "netns", "delete", endpoint.netns_path.name])
        places = [DEVICES / device for device in devices]
        if isinstance(endpoint, NamespaceEndpoint):
            places.append(endpoint.netns_path)
        remaining = [path.name for path in places if path.exists()]
        if remaining:  # else the address would be given to another, whose device could not be made
            raise UllageError(NETWORK_FAILED, reason=f"{', '.join(remaining)} could not be removed")
        self._hosts.discard(int(ipaddress.IPv4Address(endpoint.address)) & 0xFF)

    async def destroy(self) -> None:
        """Remove all that carries the tag; does nothing when it is gone."""
        self._hosts.clear()
        await remove(self.tag)

    async def check_forwarding(self) -> None:
        """Send datagrams from a port of the bridge to another; NETWORK_FILTERED when all are lost.

        The host's packet filter may see bridged frames (br_netfilter), and Docker sets its FORWARD
        policy to DROP. A datagram that arrives says more than any reading of the rules.
        """
        sender, receiver = await self.namespace("probe-1"), await self.namespace("probe-2")
        try:
            arrived = await asyncio.to_thread(_datagram_arrives, sender, receiver)
        finally:
            await self.release(sender)
            await self.release(receiver)
        if not arrived:
            raise UllageError(NETWORK_FILTERED, bridge=self.bridge, blocks=CANDIDATES[0])

    async def _make_bridge(self) -> None:
        bridge = self.bridge
        await iproute.batch(
            f"link add name {bridge} address {self._mac(1)} {SWITCH}",
            f"link set dev {bridge} addrgenmode none",
            f"address add {self.gateway}/{self.prefix} dev {bridge}",
            f"link set dev {bridge} up",
        )
        iproute.disable_ipv6(bridge)

    async def _join(self, endpoint: Endpoint, netns: Path, *first: str) -> None:
        """A veth from the bridge into the namespace, the inner end configured and up.

        first: commands of iproute2 before these.
        """
        device = endpoint.device
        await self._lay(device, endpoint.name)
        # `netns` of iproute2 takes a name or a process id, not a path; hence the two forms.
        target = netns.name if netns.parent == iproute.NETNS_DIR else netns.parts[2]
        await iproute.batch(
            *first,
            f"link add name {device} type veth peer name {INSIDE} address {endpoint.mac}"
            f" netns {target}",
            f"link set dev {device} addrgenmode none",
            f"link set dev {device} master {endpoint.link} up",
        )
        iproute.disable_ipv6(device)
        await asyncio.to_thread(iproute.within, netns, lambda: iproute.disable_ipv6("all"))
        await iproute.batch(
            "link set dev lo up",
            f"address add {endpoint.address}/{endpoint.prefix} dev {INSIDE}",
            f"link set dev {INSIDE} up",
            *self._beyond(),
            netns=netns,
        )

    async def reach_beyond(self, pid: int) -> None:
        """For one who has made the veth himself: what leads to the other machines."""
        if lines := self._beyond():
            await iproute.batch(*lines, netns=Path(f"/proc/{pid}/ns/net"))

    def _beyond(self) -> list[str]:
        """Commands of iproute2, inside an endpoint."""
        if self.beyond is None:
            return []
        way = f"via {self.gateway}" if self.beyond.by_gateway else f"dev {INSIDE}"
        subnets = self.beyond.subnets
        return [
            f"link set dev {INSIDE} mtu {self.beyond.mtu}",
            *(f"route add {subnet} {way}" for subnet in subnets),
        ]

    def _place(self, name: str, kind: str) -> tuple[str, str, str, str, int, str]:
        """The fields of an `Endpoint`, at the lowest free address."""
        if not _is_name(name):
            raise ValueError(f"not a name: {name!r}")
        free = (n for n in range(_FIRST_HOST, _LAST_HOST + 1) if n not in self._hosts)
        host = next(free, None)
        if host is None:
            raise UllageError(
                NETWORK_FULL, what=f"every address of {self.subnet}", where="this run"
            )
        self._hosts.add(host)
        device = f"{self.tag}-{kind}{host}"
        address = str(self.subnet[host])
        return name, device, self._mac(host), address, self.prefix, self._switch(device)

    async def _lay(self, device: str, name: str) -> None:
        """The link that a device is to be plugged into, where it has one of its own."""
        if self.link:
            await self._cables(self.link, device).lay(self.bridge, name)

    def _switch(self, device: str) -> str:
        """Where a device is plugged in."""
        return self._cables(self.link, device).switch if self.link else self.bridge

    def _cables(self, link: NetworkLink, device: str) -> Cables:
        return Cables(link, self.tag, device)

    def _mac(self, host: int) -> str:
        """Locally administered, unicast, and the same for the same tag and place."""
        return ":".join(f"{byte:02x}" for byte in (0x02, *_digest(self.tag)[:4], host))


def _other_mac(mac: str, number: int) -> str:
    """Of the n-th NIC of the same VM: locally administered and unicast too."""
    return f"{0x02 + 4 * number:02x}{mac[2:]}"


async def remove(tag: str) -> None:
    """Remove every device, network namespace and route of a run, also of one that died."""
    await asyncio.to_thread(routes.remove, tag)
    prefix = f"{paths.check_tag(tag)}-"
    for name in await asyncio.to_thread(iproute.namespaces, prefix):
        await attempt(["ip", "netns", "delete", name])
    for _, name in socket.if_nameindex():
        if name.startswith(prefix):
            await attempt(["ip", "link", "delete", "dev", name])


def _datagram_arrives(sender: NamespaceEndpoint, receiver: NamespaceEndpoint) -> bool:
    def udp(address: str) -> socket.socket:
        endpoint = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        endpoint.bind((address, 0))
        return endpoint

    with (
        iproute.within(receiver.netns_path, lambda: udp(receiver.address)) as receiving,
        iproute.within(sender.netns_path, lambda: udp(sender.address)) as sending,
    ):
        receiving.settimeout(_PROBE_TIMEOUT_S)
        for _ in range(_PROBES):  # a busy host may lose one; a filter loses all
            sending.sendto(b"ullage", receiving.getsockname())
            with contextlib.suppress(TimeoutError):
                return receiving.recv(16) == b"ullage"
        return False


async def _choose_alone(stack: contextlib.AsyncExitStack) -> None:
    """Only one run on this host chooses its subnet at a time; NETWORK_FAILED."""
    root = paths.state_root()
    await asyncio.to_thread(root.mkdir, parents=True, exist_ok=True)
    try:
        async with asyncio.timeout(_ALONE_S):
            await stack.enter_async_context(file_lock(root / "subnet.lock"))
    except TimeoutError:
        reason = f"another run has been choosing its subnet for {_ALONE_S:g} s"
        raise UllageError(NETWORK_FAILED, reason=reason) from None


def _is_name(name: str) -> bool:
    """Safe as a part of a file name and on a line of `ip -batch`."""
    plain = name.replace("-", "").replace("_", "").replace(".", "")
    return plain.isascii() and plain.isalnum() and len(name) <= 60


def _digest(tag: str) -> bytes:
    return hashlib.sha256(tag.encode()).digest()
