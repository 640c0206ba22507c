"""What Linux tells of NICs that are one, and what a plan may ask."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from tests.environments.qemukit import options
from ullage.environments.qemu.guest import up

BONDING = """\
Ethernet Channel Bonding Driver: v6.1.0-42-amd64

Bonding Mode: load balancing (round-robin)
MII Status: up
MII Polling Interval (ms): 100
Up Delay (ms): 0
Down Delay (ms): 0
Peer Notification Delay (ms): 0

Slave Interface: link0
MII Status: up
Speed: Unknown
Duplex: Unknown
Link Failure Count: 0
Permanent HW addr: 02:00:00:00:00:01
Slave queue ID: 0

Slave Interface: link1
MII Status: down
Speed: Unknown
Duplex: Unknown
Link Failure Count: 1
Permanent HW addr: 06:00:00:00:00:01
Slave queue ID: 0
"""
"""Of a Debian 12 guest; the second NIC's state changed by hand."""


def test_only_nics_with_a_link_count() -> None:
    assert up(BONDING) == {"link0"}
    assert up(BONDING.replace("Status: down", "Status: up")) == {"link0", "link1"}
    assert up("MII Status: up\n") == set()


@pytest.mark.parametrize(
    "fields",
    [
        {"aggregation": {"mode": "802.3ad"}},
        {"aggregation": {"links": 1}},
        {"aggregation": {"links": 5}},
        {"aggregation": {}, "network": "user"},
    ],
)
def test_the_plan_is_checked(fields: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        options(**fields)


def test_two_by_default() -> None:
    aggregation = options(aggregation={}).aggregation
    assert aggregation is not None
    assert (aggregation.mode, aggregation.links) == ("balance-rr", 2)
