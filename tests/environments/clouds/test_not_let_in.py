"""Instances that their cloud calls up, and nobody can use: why is said, and nothing is left."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from testing.clouds import openstack as double
from tests.environments import containerkit as kit
from tests.environments.clouds.test_openstack import provider, refused, running, spec
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.host import user_commands

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("agent_binary")]
CONSOLE = "POST /servers/ID/action"
LOGIN = "POST /auth/tokens"
FAR = f"198.19.{64 + os.getpid() % 128}.1"
"""An address for tests of networks (RFC 2544) that no double has."""


@contextmanager
def deaf(address: str) -> Iterator[None]:
    """Nobody answers there, not even with a refusal: as behind a filter that drops packets."""
    with socket.create_server((address, 22), backlog=0), socket.socket() as first:
        first.connect((address, 22))  # the one that it has room for
        yield


@contextmanager
def no_route() -> Iterator[None]:
    route = ["unreachable", f"{FAR}/32"]
    subprocess.run(["ip", "route", "add", *route], check=True)
    try:
        yield
    finally:
        subprocess.run(["ip", "route", "del", *route], check=True)


def unplugged(stack: double.OpenStackDouble, address: str = "") -> None:
    """Whatever is launched is without power from then on, at that address."""

    def unplug() -> None:
        for server in stack.servers.values():
            server.booted.unplug()
            server.booted.process.wait(30)
            server.booted.address = address or server.booted.address

    stack.on_launch = unplug


@kit.in_a_loop
async def test_a_filter_that_drops_what_we_send(stack: double.OpenStackDouble) -> None:
    address = FAR.replace("198.19", "127.19")
    unplugged(stack, address)
    with deaf(address):
        error = await refused(stack, deadline_s=10)
    assert error.kind is errors.CLOUD_NOT_UP
    assert error.message.endswith(f"ssh root@{address}: port 22: nobody answers")


@kit.in_a_loop
async def test_a_network_without_a_way_to_us(stack: double.OpenStackDouble) -> None:
    unplugged(stack, FAR)
    with no_route():
        error = await refused(stack, deadline_s=10)
    assert error.kind is errors.CLOUD_NOT_UP
    assert error.message.endswith(f"ssh root@{FAR}: port 22: No route to host")


@kit.in_a_loop
async def test_it_never_gets_a_public_address(stack: double.OpenStackDouble) -> None:
    error = await refused(stack, address="public", deadline_s=10)
    assert error.kind is errors.CLOUD_NOT_UP
    assert error.message.endswith("ACTIVE, without a public address")


@kit.in_a_loop
async def test_a_public_address_is_how_we_reach_it(stack: double.OpenStackDouble) -> None:
    stack.floating = True
    async with running(stack, address="public") as (_, instance):
        (server,) = stack.servers.values()
        assert instance.address == server.booted.address
        assert (await kit.sh(instance, "true"))[0].status == 0


@kit.in_a_loop
async def test_a_console_without_host_keys(stack: double.OpenStackDouble) -> None:
    printed = json.dumps({"output": "Debian GNU/Linux 12 c-0 ttyS0\n"})
    answer = (200, {"Content-Type": "application/json"}, printed)
    stack.trouble = lambda call: answer if call == CONSOLE else None
    error = await refused(stack, host_key="console", deadline_s=12)
    assert error.kind is errors.CLOUD_NOT_UP
    assert error.message.endswith("no host keys on its console")
    assert CONSOLE in stack.calls


@kit.in_a_loop
async def test_a_console_is_not_read_as_long_as_nobody_listens(
    stack: double.OpenStackDouble,
) -> None:
    stack.dead = True
    error = await refused(stack, host_key="console", deadline_s=10)
    assert error.message.endswith("port 22: Connection refused")
    assert CONSOLE not in stack.calls


@kit.in_a_loop
async def test_a_disk_on_which_the_image_has_no_room(stack: double.OpenStackDouble) -> None:
    stack.disk_bytes = 8 << 20  # the agent has
    error = await refused(stack)
    assert error.kind is errors.INSTANCE_NOT_STARTED
    assert "No space left on device" in error.message


@kit.in_a_loop
async def test_a_token_that_expires_is_drawn_anew(stack: double.OpenStackDouble) -> None:
    stack.on_launch = stack.tokens.clear
    async with running(stack) as (_, instance):
        assert (await kit.sh(instance, "true"))[0].status == 0
        assert stack.calls.count(LOGIN) == 2


@kit.in_a_loop
async def test_who_is_let_in_no_more_leaves_it_to_clean(stack: double.OpenStackDouble) -> None:
    """It cannot be removed: its record says how, and `ullage clean` asks the cloud by that."""
    words = "The password has expired."
    body = json.dumps({"error": {"code": 401, "message": words}})
    no_more = (401, {"Content-Type": "application/json"}, body)

    def locked_out() -> None:
        stack.tokens.clear()
        stack.trouble = lambda call: no_more if call == LOGIN else None

    stack.on_launch = locked_out
    async with kit.running(provider(stack)) as run:
        with pytest.raises(UllageError) as caught:
            await run.create(spec(run, stack))
        assert caught.value.kind is errors.CLOUD_CREDENTIALS
        assert words in caught.value.message
        assert len(stack.left()) == 2, "the instance and its key"
        stack.trouble = None
        (record,) = [r for r in user_commands.records() if r.tag == run.tag]
        assert user_commands.names(record.listing, 120) == {record.name}
        user_commands.remove(record)
    assert stack.left() == []
