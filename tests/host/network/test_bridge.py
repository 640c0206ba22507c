"""The run's bridge: choosing a subnet (pure), and real devices (root)."""

from __future__ import annotations

import asyncio
import fcntl
import ipaddress
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.host import paths
from ullage.host.network import bridge as networks
from ullage.host.network.bridge import CANDIDATES, Network, choose_subnet, remove
from ullage.host.network.iproute import NETNS_DIR, within

TAGS = st.from_regex(paths.TAG, fullmatch=True)
ROUTES = st.lists(
    st.tuples(
        st.integers(0, 2**16 - 1).map(lambda n: CANDIDATES[0].network_address + n),
        st.integers(17, 32),
    ).map(lambda route: ipaddress.IPv4Network(route, strict=False)),
    max_size=40,
)


def links(tag: str) -> dict[str, dict[str, object]]:
    out = subprocess.run(
        ["ip", "-json", "-detail", "link", "show"], capture_output=True, check=True
    ).stdout
    return {link["ifname"]: link for link in json.loads(out) if link["ifname"].startswith(tag)}


def addresses() -> str:
    """All of this host's, with their devices: others come and go while a test runs."""
    done = subprocess.run(["ip", "-o", "address"], capture_output=True, check=True, text=True)
    return done.stdout


def reaches(netns: Path, address: str) -> bool:
    """True when the other kernel answers: it refuses a connection to a closed port at once."""

    def refused() -> bool:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as tcp:
            tcp.settimeout(5)
            try:
                tcp.connect((address, 9))
            except ConnectionRefusedError:
                return True
            return False

    return within(netns, refused)


def frames(device: str) -> int:
    """Frames that the device has carried, both ways."""
    counts = Path(f"/sys/class/net/{device}/statistics")
    return sum(int((counts / f"{way}_packets").read_text()) for way in ("rx", "tx"))


@asynccontextmanager
async def network() -> AsyncIterator[Network]:
    created = await Network.create(paths.new_tag())
    try:
        yield created
    finally:
        await created.destroy()


@given(TAGS, ROUTES)
def test_the_subnet_overlaps_no_route(tag: str, routes: list[ipaddress.IPv4Network]) -> None:
    subnet = choose_subnet(tag, routes)
    assert subnet.prefixlen == 24
    assert not any(subnet.overlaps(route) for route in routes)
    assert choose_subnet(tag, routes) == subnet


def test_a_default_route_is_no_collision_but_a_wide_one_is() -> None:
    default, wide = ipaddress.IPv4Network("0.0.0.0/0"), ipaddress.IPv4Network("10.0.0.0/8")
    assert choose_subnet("u0000000", [default]).subnet_of(CANDIDATES[0])
    assert choose_subnet("u0000000", [default, wide]).subnet_of(CANDIDATES[1])


def test_no_subnet_left_is_told() -> None:
    with pytest.raises(errors.UllageError) as caught:
        choose_subnet("u0000000", CANDIDATES)
    assert caught.value.kind is errors.NETWORK_FULL


def test_places_are_distinct_and_the_last_one_is_told() -> None:
    network = Network("u0000000", ipaddress.IPv4Network("10.213.7.0/24"))
    reserved = [asyncio.run(network.reserve(f"c-{n}")) for n in range(253)]
    assert len({endpoint.address for endpoint in reserved}) == 253
    assert len({endpoint.mac for endpoint in reserved}) == 253
    assert network.gateway not in {endpoint.address for endpoint in reserved}
    assert all(len(endpoint.device) <= 15 for endpoint in reserved)
    with pytest.raises(errors.UllageError) as caught:
        asyncio.run(network.reserve("one-more"))
    assert caught.value.kind is errors.NETWORK_FULL


@pytest.mark.parametrize("name", ["", "../etc", "a b", "a\nlink delete eth0", "x" * 61])
def test_a_name_is_never_more_than_a_name(name: str) -> None:
    with pytest.raises(ValueError, match="not a name"):
        asyncio.run(Network("u0000000", CANDIDATES[0]).reserve(name))


def test_a_bridge_needs_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(errors.UllageError) as caught:
        asyncio.run(Network.create("u0000000"))
    assert caught.value.kind is errors.HOST_NEEDS_ROOT


@pytest.mark.root
def test_namespaces_and_the_host_reach_each_other() -> None:
    async def scenario() -> None:
        async with network() as net:
            first, two = await asyncio.gather(net.namespace("one"), net.namespace("two"))
            assert reaches(first.netns_path, two.address)
            assert reaches(two.netns_path, first.address)
            assert reaches(first.netns_path, net.gateway)
            assert reaches(Path("/proc/self/ns/net"), two.address)
            await net.check_forwarding()

    asyncio.run(scenario())


@pytest.mark.root
def test_a_tap_is_an_unowned_port_of_the_bridge() -> None:
    async def scenario() -> None:
        async with network() as net:
            tap = await net.tap("vm-0")
            link = links(net.tag)[tap.device]
            assert link["master"] == net.bridge
            info = link["linkinfo"]
            assert isinstance(info, dict)
            assert info["info_kind"] == "tun"
            assert info["info_data"]["type"] == "tap"
            assert "user" not in info["info_data"]
            await net.release(tap)
            assert tap.device not in links(net.tag)

    asyncio.run(scenario())


@pytest.mark.root
def test_no_endpoint_speaks_ipv6() -> None:
    async def scenario() -> None:
        async with network() as net:
            endpoint = await net.namespace("one")
            for device in (net.bridge, endpoint.device):
                text = Path(f"/proc/sys/net/ipv6/conf/{device}/disable_ipv6").read_text()
                assert text.strip() == "1"
            inside = within(endpoint.netns_path, Path("/proc/thread-self/net/if_inet6").read_text)
            assert inside == ""

    asyncio.run(scenario())


@pytest.mark.root
def test_move_into_gives_a_running_process_the_bridge() -> None:
    async def scenario() -> None:
        async with network() as net:
            named = await net.namespace("one")
            sleeper = await asyncio.create_subprocess_exec("unshare", "--net", "sleep", "60")
            try:
                inside = Path(f"/proc/{sleeper.pid}/ns/net")
                home = Path("/proc/self/ns/net").readlink()
                while inside.readlink() == home:
                    await asyncio.sleep(0.005)
                endpoint = await net.move_into(sleeper.pid, "moved")
                assert reaches(inside, named.address)
                assert reaches(named.netns_path, endpoint.address)
            finally:
                sleeper.kill()
                await sleeper.wait()

    asyncio.run(scenario())


@pytest.mark.root
def test_destroy_leaves_nothing_and_may_be_repeated() -> None:
    async def scenario() -> None:
        net = await Network.create(paths.new_tag())
        await net.namespace("one")
        await net.tap("two")
        assert len(links(net.tag)) == 3
        assert net.tag in addresses()
        await net.destroy()
        await net.destroy()
        assert not links(net.tag)
        assert not list(NETNS_DIR.glob(f"{net.tag}*"))
        assert net.tag not in addresses()

    asyncio.run(scenario())


@pytest.mark.root
def test_several_taps_for_one_address() -> None:
    async def scenario() -> None:
        async with network() as net:
            tap = await net.tap("vm-0", links=3)
            macs = [mac for _, mac in tap.taps]
            assert macs[0] == tap.mac == net.mac(tap.address)
            assert len(set(macs)) == 3
            assert all(int(mac[:2], 16) & 3 == 2 for mac in macs)  # local, of one station
            assert all(links(net.tag)[device]["master"] == net.bridge for device, _ in tap.taps)
            bonded = await net.tap("vm-1", links=3)
            assert len(links(net.tag)) == 7
            await net.release(tap)
            assert set(links(net.tag)) == {net.bridge, *(device for device, _ in bonded.taps)}

    asyncio.run(scenario())


@pytest.mark.root
def test_what_goes_to_the_neighbour_crosses_both_bridges() -> None:
    async def scenario() -> None:
        async with network() as net:
            away = await net.neighbour()
            assert (away.subnet, away.bridge != net.bridge) == (net.subnet, True)
            near, beside_it, far = await asyncio.gather(
                net.namespace("here"), net.namespace("there"), away.namespace("far")
            )
            assert len({near.address, beside_it.address, far.address}) == 3
            devices = links(net.tag)
            masters = {
                link.device: devices[link.device]["master"] for link in (near, beside_it, far)
            }
            assert list(masters.values()) == [net.bridge, net.bridge, away.bridge]
            cable = [name for name in devices if name.endswith(("-up", "-dn"))]
            assert {devices[name]["master"] for name in cable} == {net.bridge, away.bridge}
            # They must know each other already: what is asked of all crosses every bridge.
            for sender, receiver in ((near, beside_it), (near, far)):
                assert reaches(sender.netns_path, receiver.address)
                assert reaches(receiver.netns_path, sender.address)
            before = {name: frames(name) for name in cable}
            assert reaches(near.netns_path, beside_it.address)
            assert {name: frames(name) for name in cable} == before
            assert reaches(near.netns_path, far.address)
            assert all(frames(name) >= before[name] + 2 for name in cable)
            await away.release(far)
            assert (await net.namespace("next")).address == far.address

    asyncio.run(scenario())


@pytest.mark.root
def test_the_neighbour_goes_with_the_run_also_by_tag_alone() -> None:
    async def scenario() -> None:
        for end in (Network.destroy, lambda net: remove(net.tag)):
            net = await Network.create(paths.new_tag())
            try:
                away = await net.neighbour()
                await away.namespace("far")
                await away.tap("vm")
                assert len(links(net.tag)) == 6
            finally:
                await end(net)
            assert not links(net.tag)
            assert not list(NETNS_DIR.glob(f"{net.tag}*"))

    asyncio.run(scenario())


@pytest.mark.root
def test_no_end_of_the_cable_speaks_ipv6() -> None:
    async def scenario() -> None:
        async with network() as net:
            await net.neighbour()
            assert len(links(net.tag)) == 4
            for device in links(net.tag):
                text = Path(f"/proc/sys/net/ipv6/conf/{device}/disable_ipv6").read_text()
                assert text.strip() == "1", device

    asyncio.run(scenario())


@pytest.mark.root
def test_a_half_made_endpoint_is_removed() -> None:
    async def scenario() -> None:
        async with network() as net:
            with pytest.raises(errors.UllageError) as caught:
                await net.move_into(2**22 + 1, "nobody")
            assert caught.value.kind is errors.NETWORK_FAILED
            assert set(links(net.tag)) == {net.bridge}
            assert (await net.namespace("next")).address == str(net.subnet[2])

    asyncio.run(scenario())


@pytest.mark.root
def test_a_namespace_that_stays_is_told() -> None:
    async def scenario() -> None:
        async with network() as net:
            namespace = await net.namespace("one")
            # Mounted twice, iproute2 takes one of them away and cannot remove the file.
            subprocess.run(
                ["mount", "--bind", namespace.netns_path, namespace.netns_path], check=True
            )
            with pytest.raises(errors.UllageError) as caught:
                await net.release(namespace)
            assert caught.value.kind is errors.NETWORK_FAILED
            assert namespace.netns_path.name in caught.value.message
            await net.release(namespace)
            assert (await net.namespace("next")).address == namespace.address

    asyncio.run(scenario())


FILTERED = """
import asyncio, subprocess
from ullage.host import paths
from ullage.common.errors import UllageError
from ullage.host.network.bridge import Network

async def main():
    net = await Network.create(paths.new_tag())
    try:
        await net.check_forwarding()
        subprocess.run(["iptables", "-P", "FORWARD", "DROP"], check=True)
        await net.check_forwarding()
    except UllageError as error:
        print(error.code)
        print(error.hint)
        subprocess.run([*error.hint.split("`")[1].split()], check=True)
        await net.check_forwarding()
        print("mended")
    finally:
        await net.destroy()

asyncio.run(main())
"""


@pytest.mark.root
def test_a_packet_filter_on_the_bridge_is_told_and_the_hint_mends_it() -> None:
    """As Docker sets it. In a network namespace, where only our own bridge is concerned."""
    if shutil.which("iptables") is None:
        pytest.skip("no iptables")
    if not Path("/proc/sys/net/bridge/bridge-nf-call-iptables").exists():
        pytest.skip("the kernel does not show bridged frames to the packet filter")
    done = subprocess.run(
        ["unshare", "--net", sys.executable, "-c", FILTERED],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == errors.NETWORK_FILTERED.code
    assert done.stdout.splitlines()[-1] == "mended"


@pytest.mark.root
def test_work_within_a_namespace_leaves_the_caller_where_it_was() -> None:
    async def scenario() -> None:
        async with network() as net:
            endpoint = await net.namespace("one")
            home = Path("/proc/thread-self/ns/net").readlink()
            inside = within(endpoint.netns_path, Path("/proc/thread-self/ns/net").readlink)
            assert inside != home
            assert Path("/proc/thread-self/ns/net").readlink() == home

    asyncio.run(scenario())


@pytest.mark.root
def test_who_may_only_read_holds_no_run_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tag: str
) -> None:
    """Any local user can lock a directory that he can open."""
    monkeypatch.setenv("ULLAGE_STATE_DIR", str(tmp_path))

    async def scenario() -> None:
        directory = os.open(tmp_path, os.O_RDONLY)
        try:
            fcntl.flock(directory, fcntl.LOCK_EX)
            network = await asyncio.wait_for(Network.create(tag), 30)
        finally:
            os.close(directory)
        await network.destroy()

    asyncio.run(scenario())
    assert all(file.stat().st_mode & 0o077 == 0 for file in tmp_path.glob("*.lock"))


@pytest.mark.root
def test_a_run_that_stopped_while_it_chose_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tag: str
) -> None:
    monkeypatch.setenv("ULLAGE_STATE_DIR", str(tmp_path))
    monkeypatch.setattr(networks, "_ALONE_S", 0.3)
    with (tmp_path / "subnet.lock").open("wb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(UllageError, match="another run has been choosing") as caught:
            asyncio.run(Network.create(tag))
        assert caught.value.kind is errors.NETWORK_FAILED
    asyncio.run(remove(tag))
