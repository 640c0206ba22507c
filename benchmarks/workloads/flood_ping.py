"""Our ICMP prober beside `ping -f`: the same round trip, 16 and 56 bytes.

The other end is a program behind a tun device in a network namespace, which answers each request
200 µs after it has it: `ping` tells whole microseconds, which would be a tenth of what two
namespaces take. The two take turns in an order that is drawn anew for each round. Compared is the
least round trip of each turn: the mean is that of whoever else uses this machine. A figure is the
geometric mean of the rounds' ratios, ours / ping's, with its 90 % interval: inside 0.98 to 1.02 the
two are equivalent.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import random
import re
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from benchmarks.figures import Figure, main, needs
from ullage.host import binaries
from ullage.host.network.iproute import NETNS_DIR, within
from ullage.stats.interval import t_interval

SIZES = (16, 56)
COUNT = 500
DELAY_S = 200e-6
CONFIDENCE = 0.90
MARGIN = 0.02
NAMESPACE = "ullage-bench"
PEER = "192.0.2.2"

_TUNSETIFF = 0x400454CA
_IFF_TUN, _IFF_NO_PI = 0x0001, 0x1000


def _tun() -> int:
    """A tun device `tun0`, as a file; in the namespace of the calling thread."""
    device = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH22x", b"tun0", _IFF_TUN | _IFF_NO_PI))
    return device


def reply(packet: bytes) -> bytes | None:
    """The echo reply to an IPv4 packet; None: it is no echo request.

    Source and destination change places, which leaves the header's sum as it is; the type's change
    from 8 to 0 adds 0x0800 to ICMP's (RFC 1624).
    """
    start = (packet[0] & 0x0F) * 4
    if packet[0] >> 4 != 4 or packet[9] != 1 or packet[start] != 8:
        return None
    total = int.from_bytes(packet[start + 2 : start + 4]) + 0x0800
    icmp = bytes([0, 0]) + ((total & 0xFFFF) + (total >> 16)).to_bytes(2) + packet[start + 4 :]
    return packet[:12] + packet[16:20] + packet[12:16] + packet[20:start] + icmp


def _answer(device: int) -> None:
    while True:
        try:
            packet = os.read(device, 2048)
        except OSError:  # the device is gone
            return
        due = time.perf_counter() + DELAY_S
        if (answer := reply(packet)) is not None:
            while time.perf_counter() < due:
                pass
            os.write(device, answer)


@contextmanager
def responder() -> Iterator[None]:
    """The namespace with the other end."""
    subprocess.run(["ip", "netns", "add", NAMESPACE], check=True)
    try:
        device = within(NETNS_DIR / NAMESPACE, _tun)
        inside = ["ip", "-n", NAMESPACE]
        subprocess.run([*inside, "address", "add", "192.0.2.1/24", "dev", "tun0"], check=True)
        subprocess.run([*inside, "link", "set", "tun0", "up"], check=True)
        threading.Thread(target=_answer, args=(device,), daemon=True).start()
        yield
    finally:
        subprocess.run(["ip", "netns", "delete", NAMESPACE], check=True)


def _least(argv: list[str], read: Callable[[str], float]) -> float:
    done = subprocess.run(
        ["ip", "netns", "exec", NAMESPACE, *argv], capture_output=True, text=True, check=True
    )
    return read(done.stdout)


def _ping(size: int) -> float:
    def read(text: str) -> float:
        summary = re.search(r"rtt min/avg/max/mdev = ([0-9.]+)/", text)
        if summary is None or f"{COUNT} received" not in text:
            raise RuntimeError(f"ping: {text}")
        return float(summary[1]) / 1e3

    return _least(["ping", "-q", "-f", "-c", str(COUNT), "-s", str(size), PEER], read)


def _ours(size: int) -> float:
    def read(text: str) -> float:
        report = json.loads(text)
        if report["received"] != COUNT or report["duplicates"]:
            raise RuntimeError(f"icmp: {text}")
        return float(report["rtt"]["min_s"])

    load = [str(binaries.program("ullage-load")), "icmp", PEER]
    return _least([*load, "--count", str(COUNT), "--size", str(size)], read)


@needs("ping")
def measure(quick: bool) -> Iterator[Figure]:
    """A ratio for each size."""
    rng = random.Random(11)
    with responder():
        for size in SIZES:
            yield _figure(size, 10 if quick else 40, rng)


def _figure(size: int, rounds: int, rng: random.Random) -> Figure:
    ratios: list[float] = []
    theirs: list[float] = []
    for _ in range(rounds):
        order = [_ours, _ping]
        rng.shuffle(order)
        least = {prober: prober(size) for prober in order}
        ratios.append(math.log(least[_ours] / least[_ping]))
        theirs.append(least[_ping])
    interval = t_interval(ratios, CONFIDENCE)
    return Figure(
        f"least round trip of {size} bytes, ours / ping -f",
        interval.estimate,
        "×",
        interval.low,
        interval.high,
        peer="ping -f",
        peer_value=1.0,
        reach="90 % interval inside 0.98 to 1.02",
        holds=interval.low > 1 - MARGIN and interval.high < 1 + MARGIN,
        note=f"{rounds} rounds; ping: {sorted(theirs)[rounds // 2] * 1e6:.0f} µs",
    )


if __name__ == "__main__":
    main(measure, __doc__ or "")
