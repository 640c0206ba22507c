"""The way to another machine: what is changed for it on this host, and whether it works."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.host import leftovers, paths
from ullage.host.network import between, echo, iproute, routes
from ullage.host.network.bridge import Network

TAGS = ("u00be001", "u00be002")
DEVICE = "ullbetween"
FORWARDING = Path("/proc/sys/net/ipv4/conf", DEVICE, "forwarding")
root = pytest.mark.root


@pytest.fixture
def device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A device of this host that forwards nothing, and two runs."""
    monkeypatch.setenv("ULLAGE_STATE_DIR", str(tmp_path))
    for tag in TAGS:
        paths.state_dir(tag).mkdir()
    ip = ["ip", "link", "add", DEVICE, "type", "bridge"]
    subprocess.run(ip, check=True)
    subprocess.run(["ip", "address", "add", "198.51.100.1/24", "dev", DEVICE], check=True)
    subprocess.run(["ip", "link", "set", DEVICE, "up"], check=True)
    FORWARDING.write_text("0", encoding="ascii")
    yield
    subprocess.run(["ip", "link", "delete", DEVICE], check=True)


def way(number: int) -> str:
    return f"203.0.113.{number}/32 via 198.51.100.2 dev {DEVICE} onlink"


def known() -> str:
    done = subprocess.run(["ip", "route"], capture_output=True, text=True, check=True)
    return done.stdout


def test_what_goes_through_all_of_them() -> None:
    assert between.mtu("routes", [9000, 1500]) == 1500
    assert between.mtu("vxlan", [9000, 1500]) == 1450
    assert between.mtu("vxlan", [9000]) == 1500
    assert between.mtu("routes", [1500, 1400]) == 1400


def test_nobody_has_that_address() -> None:
    with pytest.raises(UllageError, match=r"no device of this machine has 192\.0\.2\.99") as caught:
        between.uplink("192.0.2.99")
    assert caught.value.kind is errors.NETWORK_FAILED


@root
@pytest.mark.usefixtures("device")
def test_forwarding_is_off_again_with_the_last_run_that_needed_it() -> None:
    for number, tag in enumerate(TAGS):
        routes.add(tag, DEVICE, (way(number),))
    assert FORWARDING.read_text(encoding="ascii") == "1\n"
    assert "203.0.113.0" in known() and "203.0.113.1" in known()
    routes.remove(TAGS[0])
    assert "203.0.113.0" not in known() and "203.0.113.1" in known()
    assert FORWARDING.read_text(encoding="ascii") == "1\n"
    routes.remove(TAGS[1])
    assert "203.0.113.1" not in known()
    assert FORWARDING.read_text(encoding="ascii") == "0\n"


@root
@pytest.mark.usefixtures("device")
def test_who_had_it_on_keeps_it() -> None:
    FORWARDING.write_text("1", encoding="ascii")
    routes.add(TAGS[0], DEVICE, ())
    routes.remove(TAGS[0])
    assert FORWARDING.read_text(encoding="ascii") == "1\n"


@root
@pytest.mark.usefixtures("device")
def test_a_route_that_cannot_be_leaves_nothing() -> None:
    with pytest.raises(UllageError) as caught:
        routes.add(TAGS[0], DEVICE, (way(0), "203.0.113.7/32 via 192.0.2.77 dev nothing"))
    assert caught.value.kind is errors.NETWORK_FAILED
    assert "203.0.113.0" not in known()
    assert FORWARDING.read_text(encoding="ascii") == "0\n"


@root
@pytest.mark.usefixtures("device")
def test_what_a_killed_run_changed_is_a_leftover() -> None:
    routes.add(TAGS[0], DEVICE, (way(0),))
    there = [one for one in leftovers.find(TAGS[0]) if one.kind == "route"]
    assert [one.tag for one in there] == [TAGS[0]]
    assert not leftovers.remove(there)
    assert "203.0.113.0" not in known()
    assert FORWARDING.read_text(encoding="ascii") == "0\n"


async def _spoken(network: Network, mtu: int, size: int) -> None:
    listening = await echo.Echo.start(network)
    try:
        device = next(iter(network_devices(network)))
        subprocess.run(["ip", "link", "set", device, "mtu", str(mtu)], check=True)
        await echo.reach(network, listening.address, listening.port, size)
    finally:
        await listening.stop()


def network_devices(network: Network) -> list[str]:
    done = subprocess.run(
        ["ip", "-o", "link", "show", "master", network.bridge],
        capture_output=True,
        text=True,
        check=True,
    )
    return [line.split()[1].partition("@")[0] for line in done.stdout.splitlines()]


def spoken(mtu: int = 1500, size: int = 1500) -> None:
    async def visit() -> None:
        network = await Network.create(TAGS[0])
        try:
            await _spoken(network, mtu, size)
        finally:
            await network.destroy()

    asyncio.run(visit())


@root
def test_a_way_that_is_what_it_should_be() -> None:
    spoken()


@root
def test_a_smaller_mtu_on_the_way() -> None:
    with pytest.raises(UllageError, match="datagrams of 1500 bytes are lost, those of 64 are not"):
        spoken(mtu=1000)
    spoken(mtu=1000, size=1000)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (lambda data: data[:1000], r"of a stream 1,000 of 1,048,576 bytes come back in time"),
        (lambda data: b"", r"of a stream 0 of 1,048,576 bytes"),
        (lambda data: data[:-1] + bytes([data[-1] ^ 1]), "a stream comes back damaged"),
        (lambda data: b"?" + data[:10], "a stream comes back damaged"),
    ],
)
def test_a_stream_that_is_cut_is_told_from_one_that_is_damaged(
    answer: Callable[[bytes], bytes], reason: str
) -> None:
    def serve(listening: socket.socket) -> None:
        taken, _ = listening.accept()
        with taken:
            taken.sendall(answer(echo._whole(taken)))

    with socket.create_server(("127.0.0.1", 0)) as listening, socket.socket() as stream:
        thread = threading.Thread(target=serve, args=(listening,))
        thread.start()
        with pytest.raises(UllageError, match=reason):
            echo._exchange(stream, listening.getsockname())
        thread.join()


@root
def test_programs_of_the_host_itself_are_answered_too() -> None:
    async def visit(listening: bool) -> None:
        network = await Network.create(TAGS[0])
        try:
            other = await echo.Echo.start(network)
            if not listening:
                await other.stop()
            await echo.reach_by_host(other.address, other.port, 1500)
            await other.stop()
        finally:
            await network.destroy()

    asyncio.run(visit(listening=True))
    with pytest.raises(UllageError, match="no datagram comes back"):
        asyncio.run(visit(listening=False))


@root
def test_nobody_answers() -> None:
    async def visit() -> None:
        network = await Network.create(TAGS[0])
        try:
            await echo.reach(network, str(network.subnet[99]), 9, 1500)
        finally:
            await network.destroy()

    with pytest.raises(UllageError, match="no datagram comes back") as caught:
        asyncio.run(visit())
    assert caught.value.kind is errors.NETWORK_FAILED


@root
def test_nothing_stays_in_the_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ULLAGE_STATE_DIR", str(tmp_path))
    spoken()
    assert not iproute.namespaces(TAGS[0])
