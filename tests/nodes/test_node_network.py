"""The network over nodes: subnets that nobody knows, and what a node says against it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from ipaddress import IPv4Network
from pathlib import Path

import pytest

from tests.nodes.nodekit import Double, double
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.environments.agent.client import binary
from ullage.nodes import network
from ullage.nodes.base import Node
from ullage.nodes.local import LocalNode

__all__ = ["double"]
pytestmark = [pytest.mark.root, pytest.mark.usefixtures("agent_binary")]
TAG = "u00c0de2"
"""Another file's tests may run at the same time."""
SSH = "192.0.2.10 50000 {address} 22"


def joined(
    nodes: Mapping[str, Node], addresses: Mapping[str, str | None]
) -> dict[str, dict[str, str]]:
    async def visit() -> dict[str, dict[str, str]]:
        try:
            return await network.join(nodes, addresses, TAG, None, "routes")
        finally:
            for node in nodes.values():
                await node.close()

    return asyncio.run(visit())


def refused(nodes: Mapping[str, Node], addresses: Mapping[str, str | None]) -> UllageError:
    with pytest.raises(UllageError) as caught:
        joined(nodes, addresses)
    return caught.value


def test_one_node_has_a_subnet_of_its_own(double: Double, monkeypatch: pytest.MonkeyPatch) -> None:
    double.install()
    monkeypatch.setenv("SSH_CONNECTION", SSH.format(address="127.0.0.1"))
    words = joined({"a": double.node(tag=TAG)}, {"a": None})
    subnet, _, address = words["a"]["network"].partition(" at ")
    assert IPv4Network(subnet).prefixlen == 24 and address == "127.0.0.1"
    assert words["a"]["between"] == "routes, MTU 1500"


def test_ssh_says_nothing_of_an_address(double: Double, monkeypatch: pytest.MonkeyPatch) -> None:
    double.install()
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    error = refused({"a": double.node(tag=TAG)}, {"a": None})
    assert error.kind is errors.NODE_NETWORK
    assert "a is not on one network" in error.message and "`address:`" in error.message


def test_two_names_for_one_machine(double: Double) -> None:
    double.install()
    nodes = {"a": double.node(tag=TAG), "here": LocalNode("here", TAG, Path(binary()))}
    error = refused(nodes, {"a": "127.0.0.1", "here": "127.0.0.1"})
    assert error.kind is errors.NODE_NETWORK
    assert "127.0.0.1 is the address of another of the nodes too" in error.message


def test_an_address_that_no_device_has(double: Double) -> None:
    double.install()
    error = refused({"a": double.node(tag=TAG)}, {"a": "192.0.2.99"})
    assert error.kind is errors.NODE_NETWORK
    assert "no device of this machine has 192.0.2.99" in error.message
