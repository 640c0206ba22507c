"""Links of a stated rate: what a plan may say of them, and real ones."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from ullage.common import errors
from ullage.common.commands import CommandError
from ullage.common.errors import UllageError
from ullage.host import paths
from ullage.host.network import cables
from ullage.host.network.bridge import NamespaceEndpoint, Network
from ullage.host.network.cables import Cables
from ullage.host.network.iproute import within
from ullage.host.network.links import NetworkLink

SLOW = NetworkLink(rate=20e6)
"""So slow that a busy machine keeps up with it."""


@asynccontextmanager
async def network(link: NetworkLink | None = SLOW) -> AsyncIterator[Network]:
    created = await Network.create(paths.new_tag(), link)
    try:
        yield created
    finally:
        await created.destroy()


def devices(tag: str) -> set[str]:
    return {path.name for path in Path("/sys/class/net").glob(f"{tag}-*")}


@pytest.mark.parametrize(
    ("written", "rate", "shown"),
    [
        ("1Gbit", 1e9, "1.00 Gbit/s"),
        ("2.5 Gbit/s", 2.5e9, "2.50 Gbit/s"),
        ("100Mbit", 1e8, "100 Mbit/s"),
        (125000.0, 125e3, "125 kbit/s"),
    ],
)
def test_a_rate_is_read_and_shown(written: object, rate: float, shown: str) -> None:
    link = NetworkLink.model_validate({"rate": written})
    assert (link.rate, str(link)) == (rate, shown)


@pytest.mark.parametrize(
    "written", ["1GB", "fast", "1Gbit; reboot", "-1Gbit", "0", "1e9Gbit", "1Tbit", 0, -5, "nan"]
)
def test_what_is_no_rate_is_refused(written: object) -> None:
    with pytest.raises(ValidationError):
        NetworkLink.model_validate({"rate": written})


@pytest.mark.parametrize(
    ("fields", "shown"),
    [
        ({"delay": "5ms"}, "5.00 ms later"),
        ({"rate": "1Gbit", "delay": "5ms"}, "1.00 Gbit/s, 5.00 ms later"),
        ({"links": 2, "bond": "802.3ad"}, "2 × a cable by 802.3ad"),
        (
            {"rate": "1Gbit", "links": 2, "bond": "balance-rr", "delay": 0.001},
            "2 × 1.00 Gbit/s by balance-rr, 1.00 ms later",
        ),
    ],
)
def test_a_link_may_be_late_or_several_cables(fields: dict[str, object], shown: str) -> None:
    link = NetworkLink.model_validate(fields)
    assert str(link) == shown
    assert set(link.model_dump()) - {"queue"} == set(fields)
    assert NetworkLink.model_validate(link.model_dump()) == link


def test_a_link_of_a_rate_alone_is_recorded_as_it_was() -> None:
    assert SLOW.model_dump() == {"rate": 20e6, "queue": 0.01}


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"delay": 0},
        {"links": 2},
        {"bond": "802.3ad"},
        {"links": 1, "bond": "802.3ad"},
        {"links": 5, "bond": "802.3ad"},
        {"links": 2, "bond": "lacp"},
        {"delay": "-1ms"},
        {"delay": "11s"},
        {"delay": "1ms", "queue": "1ms"},
        {"rate": "1Gbit", "links": "2", "bond": "802.3ad"},
    ],
)
def test_what_is_no_link_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        NetworkLink.model_validate(fields)


@given(st.floats(1e5, 1e11), st.floats(1e-6, 10))
def test_a_bucket_holds_a_millisecond_and_two_frames_at_least(rate: float, queue: float) -> None:
    words = NetworkLink(rate=rate, queue=queue).bucket
    burst, limit = (int(words[words.index(name) + 1].rstrip("b")) for name in ("burst", "limit"))
    assert burst >= max(3028, rate / 8000 - 1)
    assert limit - burst >= max(32 * 1514, rate / 8 * queue - 1)


@pytest.mark.parametrize(
    ("link", "kind"),
    [
        (SLOW, errors.NETWORK_NO_RATE),
        (NetworkLink(delay=0.005), errors.NETWORK_NO_DELAY),
        (NetworkLink(rate=1e9, delay=0.005), errors.NETWORK_NO_DELAY),
        (NetworkLink(links=2, bond="802.3ad"), errors.NETWORK_NO_BOND),
    ],
)
def test_a_kernel_that_lacks_what_a_link_needs_is_told(
    link: NetworkLink, kind: errors.ErrorKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(argv: list[str], **_: object) -> str:
        raise CommandError(argv[0], 2, "Error: Specified qdisc kind is unknown.")

    async def nothing(*_: str, **__: object) -> None: ...

    monkeypatch.setattr(cables, "run", refused)
    monkeypatch.setattr("ullage.host.network.iproute.batch", nothing)
    with pytest.raises(UllageError, match="unknown") as caught:
        asyncio.run(Cables(link, "u0", "u0-v2").lay("u0-br", "one"))
    assert caught.value.kind is kind


def megabits(sender: NamespaceEndpoint, receiver: NamespaceEndpoint, seconds: float) -> float:
    """What a TCP stream brought from one to the other after its first half second, in Mbit/s.

    A reader that comes late then finds what has waited for it: a tenth too much was seen.
    """
    server = within(receiver.netns_path, lambda: socket.create_server((receiver.address, 0)))
    address = server.getsockname()
    client = within(sender.netns_path, lambda: socket.create_connection(address, 5))
    accepted, _ = server.accept()
    over = threading.Event()

    def send() -> None:
        while not over.is_set():
            try:
                client.send(bytes(65536))
            except OSError:
                return

    thread = threading.Thread(target=send)
    thread.start()
    begin, counted = time.monotonic(), 0
    try:
        while (elapsed := time.monotonic() - begin) < 0.5 + seconds:
            received = len(accepted.recv(65536))
            counted += received if elapsed > 0.5 else 0
    finally:
        over.set()
        for end in (accepted, client, server):
            end.close()
        thread.join()
    return 8e-6 * counted / seconds


@pytest.mark.root
def test_no_more_than_the_rate_goes_through_either_way() -> None:
    async def scenario() -> tuple[float, float, float]:
        async with network() as net:
            one, two, three = [await net.namespace(name) for name in ("one", "two", "three")]
            there = await asyncio.to_thread(megabits, one, two, 2)
            # Full duplex: its other way has the whole rate too.
            both = await asyncio.gather(
                asyncio.to_thread(megabits, one, two, 2),
                asyncio.to_thread(megabits, three, one, 2),
            )
            return there, *both

    for figure in asyncio.run(scenario()):
        assert 1 < figure < 25, figure


@pytest.mark.root
def test_two_receivers_share_the_sender_s_link() -> None:
    async def scenario() -> list[float]:
        async with network() as net:
            one, two, three = [await net.namespace(name) for name in ("one", "two", "three")]
            figures = await asyncio.gather(
                asyncio.to_thread(megabits, one, two, 2), asyncio.to_thread(megabits, one, three, 2)
            )
            return list(figures)

    assert sum(asyncio.run(scenario())) < 28  # 38, if each way had a rate of its own


@pytest.mark.root
def test_each_endpoint_has_a_link_and_nothing_is_left_of_it() -> None:
    async def scenario() -> None:
        async with network() as net:
            bare = devices(net.tag)
            endpoint = await net.namespace("one")
            assert endpoint.link != net.bridge
            shaped = subprocess.run(
                ["tc", "qdisc", "show"], capture_output=True, text=True, check=True
            ).stdout
            buckets = [line for line in shaped.splitlines() if net.tag in line and "tbf" in line]
            assert len(buckets) == 2 and all("20Mbit" in line for line in buckets), shaped
            await net.release(endpoint)
            assert devices(net.tag) == bare
            reserved, tap = await net.reserve("lxc"), await net.tap("vm", links=2)
            assert reserved.link in devices(net.tag)
            switches = {(Path("/sys/class/net") / d / "master").resolve().name for d, _ in tap.taps}
            assert len(switches) == 2 and net.bridge not in switches
            for other in (reserved, tap):
                await net.release(other)
            assert devices(net.tag) == bare
            away = await net.neighbour()
            await away.namespace("there")
        assert devices(net.tag) == set()

    asyncio.run(scenario())


@pytest.mark.root
def test_without_a_rate_nothing_stands_between() -> None:
    async def scenario() -> None:
        async with network(None) as net:
            endpoint = await net.namespace("one")
            assert endpoint.link == net.bridge

    asyncio.run(scenario())


@pytest.mark.root
@pytest.mark.parametrize(
    ("link", "kind"),
    [
        (NetworkLink(delay=0.01), errors.NETWORK_NO_DELAY),
        (NetworkLink(links=2, bond="802.3ad"), errors.NETWORK_NO_BOND),
        (NetworkLink(links=2, bond="active-backup", rate=1e8), errors.NETWORK_NO_BOND),
    ],
)
def test_a_link_carries_or_is_refused_and_leaves_nothing(
    link: NetworkLink, kind: errors.ErrorKind
) -> None:
    """By what this kernel has; the lab has one that has all."""

    async def scenario() -> None:
        async with network(link) as net:
            bare = devices(net.tag)
            try:
                await net.check_forwarding()
            except UllageError as error:
                assert error.kind is kind
                assert "modprobe" in error.hint
            assert devices(net.tag) == bare

    asyncio.run(scenario())
