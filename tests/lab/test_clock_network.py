"""RGAP between network namespaces, its paths shaped: one kernel, so one counter, so exact truth."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

pytestmark = [pytest.mark.lab, pytest.mark.root]
CHECKOUT = Path(__file__).parents[2]
TOKEN = "000102030405060708090a0b0c0d0e0f"
PORT = 7850
SHIFT = 54
ROUNDS = 40
PAUSE_MS = 100
# Of ROUNDS synchronisations, each wrong once in 1,000, more are in one test of ten million.
OUTSIDE = 3
# A client that runs 11.25 ppm fast and is 5 ms ahead, on purpose.
DISTORT = "11250,5000000"
# Sends datagrams of 1,000 bytes at a rate (bytes per second) for ever, to where nobody listens.
FLOOD = """
import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
due = time.monotonic()
while True:
    try:
        s.sendto(bytes(1000), (sys.argv[1], 9))
    except OSError:
        pass
    due += 1042 / float(sys.argv[2])
    time.sleep(max(0.0, due - time.monotonic()))
"""


@dataclass(frozen=True)
class Line:
    """What a process reads time from: `ullage_clock::Line`."""

    ticks: int
    age: int
    mult: int

    @classmethod
    def parse(cls, printed: str) -> Line:
        """As `line` and hexadecimal digits."""
        name, digits = printed.split()
        assert name == "line", printed
        data = bytes.fromhex(digits)
        words = [int.from_bytes(data[at : at + 8]) for at in range(0, 48, 8)]
        return cls(words[1], words[2] << 64 | words[3], words[5])

    def at(self, ticks: int) -> int:
        """Nanoseconds when the counter shows this."""
        return (self.age + (ticks - self.ticks) * self.mult) >> SHIFT


@dataclass(frozen=True)
class Reading:
    """A global time, and how far off it really was."""

    off_ns: int
    bound_ns: int
    hard_ns: int
    stratum: int


@dataclass(frozen=True)
class Watched:
    """All that a client printed."""

    readings: list[Reading]
    awake: list[bool]
    # Of each synchronisation, how far off it was and its round trip.
    errors_ns: list[int]
    rtts_ns: list[int]

    def outside(self) -> int:
        """After how many synchronisations a reading was outside of the statistical bound."""
        wrong = [reading.off_ns > reading.bound_ns for reading in self.readings]
        return sum(map(max, wrong[::2], wrong[1::2]))


class Network:
    """Two namespaces with a veth pair between them: 10.77.0.1 and 10.77.0.2."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._spaces = [f"ullage-clock-{os.getpid()}-{end}" for end in "ab"]
        for number, space in enumerate(self._spaces):
            run("ip", "netns", "add", space)
            stack.callback(run, "ip", "netns", "del", space)
            if number:
                run(
                    *("ip", "-n", self._spaces[0], "link", "add", "v0", "type", "veth"),
                    *("peer", "name", "v0", "netns", space),
                )
        for number, space in enumerate(self._spaces):
            run("ip", "-n", space, "addr", "add", f"10.77.0.{number + 1}/24", "dev", "v0")
            run("ip", "-n", space, "link", "set", "v0", "up")

    def shape(self, end: int, rate_mbit: int, queue_bytes: int) -> None:
        """What leaves this end waits in a queue that is always full: more comes than goes."""
        run(
            *("tc", "-n", self._spaces[end], "qdisc", "add", "dev", "v0", "root", "tbf"),
            *("rate", f"{rate_mbit}mbit", "burst", "2000", "limit", str(queue_bytes)),
        )
        flood = str(rate_mbit * 1.25e6 / 8)
        self.start(end, sys.executable, "-c", FLOOD, f"10.77.0.{2 - end}", flood)

    def start(self, end: int, *argv: str, distort: str = "") -> subprocess.Popen[str]:
        """A process in there, killed in the end."""
        process = subprocess.Popen(
            ["ip", "netns", "exec", self._spaces[end], *argv],
            env=os.environ | {"ULLAGE_CLOCK_DISTORT": distort},
            stdout=subprocess.PIPE,
            text=True,
        )
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)
        return process

    def server(self, end: int, program: Path, *argv: str, distort: str = "") -> Line:
        """Its line, by which the truth can be had."""
        process = self.start(end, str(program), *argv, distort=distort)
        assert process.stdout is not None
        return Line.parse(process.stdout.readline())

    def watch(self, end: int, program: Path, server: str, root: Line) -> Watched:
        """A distorted client in there, to its end."""
        argv = (str(program), "watch", server, TOKEN, str(ROUNDS), str(PAUSE_MS))
        process = self.start(end, *argv, distort=DISTORT)
        printed, _ = process.communicate(timeout=120)
        assert process.returncode == 0
        return understood(printed.splitlines(), root)


def understood(lines: list[str], root: Line) -> Watched:
    """What a client printed, held against what the root's clock showed at the same tick."""
    own = Line.parse(lines[0])
    watched = Watched([], [], [], [])
    fix: list[str] = []
    for line in lines[1:]:
        words = line.split()
        if words[0] in ("fix", "none"):
            fix = words if words[0] == "fix" else []
            continue
        ticks, local, shown, bound, hard, _reasons, stratum = map(int, words)
        assert abs(own.at(ticks) - local) <= 1
        truth = root.at(ticks)
        watched.readings.append(Reading(abs(shown - truth), bound, hard, stratum))
        if fix:
            watched.errors_ns.append(abs(local + int(fix[1]) - truth))
            watched.rtts_ns.append(int(fix[4]))
            watched.awake.append(fix[5] == "true")
            fix = []
    return watched


def run(*argv: str) -> None:
    """A command that works."""
    subprocess.run(argv, check=True, timeout=30)


@pytest.fixture(scope="module")
def program() -> Path:
    """The example, optimised: what a side does between its clock and the wire counts as path."""
    if shutil.which("cargo") is None:
        pytest.skip("cargo is not there to build the example")
    target = Path(os.environ.get("CARGO_TARGET_DIR", CHECKOUT / "target"))
    build = ("cargo", "build", "--release", "--package", "ullage-clock", "--example", "rgap_udp")
    subprocess.run((*build, "--locked"), cwd=CHECKOUT, check=True, timeout=900)
    return target / "release" / "examples" / "rgap_udp"


@pytest.fixture
def network() -> Iterator[Network]:
    with ExitStack() as stack:
        yield Network(stack)


def look(watched: Watched, paths: str) -> None:
    """The hard bound holds whatever the paths are; where somebody was woken there is no other."""
    readings = watched.readings
    assert len(readings) == 2 * ROUNDS
    # Nanoseconds of rounding, of two processes' lines.
    assert [reading for reading in readings if reading.off_ns > reading.hard_ns + 3] == []
    rtt = statistics.median(watched.rtts_ns)
    error = statistics.median(watched.errors_ns)
    print(
        f"{paths}: RTT {rtt:.0f} ns, error of a synchronisation {error:.0f} ns,"
        f" both awake in {sum(watched.awake)} of {len(watched.awake)},"
        f" {watched.outside()} of {ROUNDS} outside of the statistical bound"
    )


def test_alike_paths(network: Network, program: Path) -> None:
    root = network.server(1, program, "serve", f"10.77.0.2:{PORT}", TOKEN)
    watched = network.watch(0, program, f"10.77.0.2:{PORT}", root)
    look(watched, "alike")
    assert watched.outside() <= OUTSIDE
    assert {reading.stratum for reading in watched.readings} == {1}


@pytest.mark.parametrize("end", [0, 1])
@pytest.mark.parametrize(("rate_mbit", "queue_bytes"), [(10, 3000), (20, 6000)])
def test_one_way_is_longer(
    network: Network, program: Path, end: int, rate_mbit: int, queue_bytes: int
) -> None:
    """Nothing tells that from alike paths: the statistical bound may be wrong, the hard is not."""
    network.shape(end, rate_mbit, queue_bytes)
    root = network.server(1, program, "serve", f"10.77.0.2:{PORT}", TOKEN)
    watched = network.watch(0, program, f"10.77.0.2:{PORT}", root)
    look(watched, f"{rate_mbit} Mbit/s from end {end}")
    # It did make a difference: alike paths would be off by next to nothing.
    pairs = zip(watched.errors_ns, watched.rtts_ns, strict=True)
    assert statistics.median(error / rtt for error, rtt in pairs) > 0.2


def test_a_chain(network: Network, program: Path) -> None:
    """The root here, a client of it there that serves, and a client of that here."""
    root = network.server(0, program, "serve", f"10.77.0.1:{PORT}", TOKEN)
    relay = (f"10.77.0.2:{PORT}", TOKEN, f"10.77.0.1:{PORT}")
    network.server(1, program, "relay", *relay, distort="-20000,-70000000")
    watched = network.watch(0, program, f"10.77.0.2:{PORT}", root)
    look(watched, "chain")
    assert watched.outside() <= OUTSIDE
    assert watched.readings[-1].stratum == 2
