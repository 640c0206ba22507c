"""Answers of a node that have the form of an address, and are none."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from ullage.nodes import wire

CREATED: dict[str, Any] = {
    "socket": "/s",
    "cpu_ids": [0],
    "cpu_quota": None,
    "data": "/d",
    "own_kernel": False,
}


@pytest.mark.parametrize("subnet", ["10.0.0.1/24", "999.0.0.0/24", "10.0.0.0/99"])
def test_a_subnet_that_is_none(subnet: str) -> None:
    with pytest.raises(ValidationError):
        wire.Place(address="10.1.1.1", mtu=1500, routes=[subnet])
    assert wire.Place(address="10.1.1.1", mtu=1500, routes=["10.0.0.0/24"]).routes


@pytest.mark.parametrize("address", ["999.1.1.1", "1.2.3", "010.1.1.1"])
def test_an_address_that_is_none(address: str) -> None:
    with pytest.raises(ValidationError):
        wire.Ear(address=address, port=1)
    with pytest.raises(ValidationError):
        wire.Created(**CREATED, address=address)
