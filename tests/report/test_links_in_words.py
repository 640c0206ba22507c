"""What the report says of a run's links."""

from __future__ import annotations

import pytest

from ullage.host.network.links import NetworkLink
from ullage.report.provenance import _link


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (
            {"rate": 1e8},
            "each instance's link carries 100 Mbit/s each way; at most 10 ms wait for it",
        ),
        ({"delay": 0.005}, "each instance's link adds 5 ms each way"),
        (
            {"links": 2, "bond": "802.3ad"},
            "each instance's link is 2 cables by 802.3ad",
        ),
        (
            {"rate": 1e9, "delay": 0.001, "links": 3, "bond": "balance-rr"},
            "each instance's link is 3 cables by balance-rr; each adds 1 ms each way and carries"
            " 1 Gbit/s each way; at most 10 ms wait for it",
        ),
    ],
)
def test_a_link_as_it_is_recorded(fields: dict[str, object], words: str) -> None:
    assert _link(NetworkLink.model_validate(fields).model_dump()) == words
