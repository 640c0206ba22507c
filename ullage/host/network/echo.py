"""Is a way from one endpoint to another what it is taken for?

Asked of datagrams and of a stream that are as large as they may be: a smaller MTU on the way, a
filter, and a checksum that a NIC leaves out or spoils all show there.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import socket
import threading
from typing import Final

from ullage.common.errors import NETWORK_FAILED, UllageError
from ullage.host.network import iproute
from ullage.host.network.bridge import NamespaceEndpoint, Network

STREAM_BYTES: Final = 1 << 20
_HEADERS: Final = 28
"""Of IPv4 and UDP."""
_SMALL: Final = 64
_DATAGRAMS: Final = 20
_ANSWER_S: Final = 0.5
_STREAM_S: Final = 30.0
_SPOILT: Final = "checksums that a NIC leaves out (`ethtool -K`), or a packet filter"
_LOOK_S: Final = 0.05
_IP_MTU_DISCOVER, _IP_PMTUDISC_DO = 10, 2


class Echo:
    """An endpoint of this machine that sends back whatever comes."""

    def __init__(self, network: Network, endpoint: NamespaceEndpoint) -> None:
        self.address = endpoint.address
        self._network, self._endpoint = network, endpoint
        self._over = threading.Event()
        self._sockets = iproute.within(endpoint.netns_path, self._listen)
        self.port: int = self._sockets[0].getsockname()[1]
        self._threads = [threading.Thread(target=work) for work in (self._datagrams, self._streams)]
        for thread in self._threads:
            thread.start()

    @classmethod
    async def start(cls, network: Network) -> Echo:
        """Listening when this returns."""
        endpoint = await network.namespace("echo")
        try:
            return await asyncio.to_thread(cls, network, endpoint)
        except BaseException:
            await network.release(endpoint)
            raise

    async def stop(self) -> None:
        """Gone, with its endpoint."""
        self._over.set()
        for thread in self._threads:
            await asyncio.to_thread(thread.join)
        await self._network.release(self._endpoint)

    def _listen(self) -> tuple[socket.socket, socket.socket]:
        stream = socket.create_server((self.address, 0))
        datagram = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        datagram.setsockopt(socket.IPPROTO_IP, _IP_MTU_DISCOVER, _IP_PMTUDISC_DO)
        datagram.bind(stream.getsockname())
        for one in (stream, datagram):
            one.settimeout(_LOOK_S)
        return stream, datagram

    def _datagrams(self) -> None:
        with self._sockets[1] as ours:
            while not self._over.is_set():
                with contextlib.suppress(OSError):
                    data, sender = ours.recvfrom(1 << 16)
                    ours.sendto(data, sender)

    def _streams(self) -> None:
        with self._sockets[0] as ours:
            while not self._over.is_set():
                with contextlib.suppress(OSError):
                    taken, _ = ours.accept()
                    with taken:
                        taken.settimeout(_STREAM_S / 2)
                        taken.sendall(_whole(taken))


async def reach(network: Network, address: str, port: int, size: int) -> None:
    """Have an endpoint of this machine speak to that one, by packets of `size`. NETWORK_FAILED."""
    endpoint = await network.namespace("reach")
    try:
        await asyncio.to_thread(_speak, endpoint, (address, port), size)
    finally:
        await network.release(endpoint)


async def reach_by_host(address: str, port: int, size: int) -> None:
    """The same of this machine's own programs, which are on no endpoint. NETWORK_FAILED."""
    await asyncio.to_thread(_converse, _opened(), (address, port), size)


def _speak(endpoint: NamespaceEndpoint, other: tuple[str, int], size: int) -> None:
    _converse(iproute.within(endpoint.netns_path, _opened), other, size)


def _opened() -> tuple[socket.socket, socket.socket]:
    datagram = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    datagram.setsockopt(socket.IPPROTO_IP, _IP_MTU_DISCOVER, _IP_PMTUDISC_DO)
    return datagram, socket.socket(socket.AF_INET, socket.SOCK_STREAM)


def _converse(
    sockets: tuple[socket.socket, socket.socket], other: tuple[str, int], size: int
) -> None:
    datagram, stream = sockets
    with datagram, stream:
        small, full = (_answered(datagram, other, length) for length in (_SMALL, size))
        if not small:
            _refuse(other[0], "no datagram comes back: a packet filter, or a way that is not there")
        if not full:
            what = f"datagrams of {size} bytes are lost, those of {_SMALL} are not"
            _refuse(other[0], f"{what}: a lower MTU on the way")
        stream.settimeout(_STREAM_S)
        try:
            _exchange(stream, other)
        except OSError as error:
            broken = f"a stream breaks ({error.strerror or error}) and datagrams pass"
            _refuse(other[0], f"{broken}: {_SPOILT}")


def _answered(ours: socket.socket, other: tuple[str, int], length: int) -> bool:
    """A busy machine may lose one, and be late with another; what does not fit loses all."""
    ours.settimeout(_ANSWER_S)
    sent: set[bytes] = set()
    for number in range(_DATAGRAMS):
        data = _pattern(length - _HEADERS, number)
        with contextlib.suppress(OSError):
            ours.sendto(data, other)
            sent.add(data)
            answer, sender = ours.recvfrom(1 << 16)
            if answer in sent and sender == other:
                return True
    return False


def _exchange(stream: socket.socket, other: tuple[str, int]) -> None:
    data = _pattern(STREAM_BYTES, 0)
    stream.connect(other)
    stream.sendall(data)
    stream.shutdown(socket.SHUT_WR)
    back = _whole(stream)
    if back == data:
        return
    if data.startswith(back):
        part = f"{len(back):,} of {len(data):,} bytes"
        _refuse(
            other[0], f"of a stream {part} come back in time: a busy way or machine, or {_SPOILT}"
        )
    _refuse(other[0], "a stream comes back damaged")


def _whole(stream: socket.socket) -> bytes:
    """All that comes until its end, up to what is ever sent."""
    pieces: list[bytes] = []
    while sum(map(len, pieces)) <= STREAM_BYTES and (piece := stream.recv(1 << 16)):
        pieces.append(piece)
    return b"".join(pieces)


def _pattern(length: int, number: int) -> bytes:
    """Bytes that no other place or datagram has."""
    return hashlib.shake_128(number.to_bytes(4)).digest(length)


def _refuse(address: str, reason: str) -> None:
    raise UllageError(NETWORK_FAILED, reason=f"to {address}: {reason}")
