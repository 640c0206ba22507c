"""A network of one: a namespace in which there is only the loopback, counted and shaped.

The command's packets can be slowed for it alone there; what it does not start itself it cannot
reach.
"""

from __future__ import annotations

import ipaddress
import json
from typing import Final

from ullage.common.commands import CommandError, attempt, run
from ullage.common.errors import NETWORK_FAILED, UllageError
from ullage.host.network.bridge import Endpoint, NamespaceEndpoint, Network
from ullage.host.network.iproute import NETNS_DIR

DEVICE: Final = "lo"
BURST_BYTES: Final = 128 << 10
"""What a bucket holds: two of the loopback's largest packets."""
QUEUE_BYTES: Final = 8 << 20


class Loopback(Network):
    """What an instance is given in place of a run's bridge."""

    def __init__(self, tag: str) -> None:
        super().__init__(tag, ipaddress.IPv4Network("127.0.0.0/8"))

    async def namespace(self, name: str) -> NamespaceEndpoint:
        """A new namespace with its loopback up. NETWORK_FAILED."""
        netns = f"{self.tag}-{name}"
        endpoint = NamespaceEndpoint(
            name=name,
            device=DEVICE,
            mac="",
            address="127.0.0.1",
            prefix=8,
            link="",
            netns_path=NETNS_DIR / netns,
        )
        try:
            await run(["ip", "netns", "add", netns])
            await run(["ip", "-n", netns, "link", "set", "dev", DEVICE, "up"])
        except BaseException as error:
            await self.release(endpoint)
            if isinstance(error, CommandError):
                raise UllageError(NETWORK_FAILED, reason=error.reason) from error
            raise
        return endpoint

    async def release(self, endpoint: Endpoint) -> None:
        """Remove it; does nothing when it is gone."""
        await attempt(["ip", "netns", "delete", f"{self.tag}-{endpoint.name}"])


async def shape(netns: str, bits_per_second: int) -> None:
    """Let no more through the namespace's loopback (`tc … tbf`). NETWORK_FAILED."""
    how = f"rate {bits_per_second}bit burst {BURST_BYTES} limit {QUEUE_BYTES}"
    try:
        await run(["tc", "-n", netns, "qdisc", "add", "dev", DEVICE, "root", "tbf", *how.split()])
    except CommandError as error:
        raise UllageError(NETWORK_FAILED, reason=error.reason) from error


async def traffic(netns: str) -> tuple[int, int]:
    """Bytes and packets that went over the namespace's loopback so far."""
    links = await run(["ip", "-n", netns, "-s", "-j", "link", "show", "dev", DEVICE])
    sent = json.loads(links)[0]["stats64"]["tx"]
    return int(sent["bytes"]), int(sent["packets"])
