"""Meter `kernel`: counters of a made-up host, and of the real one."""

from __future__ import annotations

import os
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from ullage.meters import procfs
from ullage.meters.kernel import Kernel, KernelReading

STAT = """\
cpu  100 20 30 400 5 6 7 8 40 0
cpu0 100 20 30 400 5 6 7 8 40 0
intr {intr} 0 0 44 1
ctxt {ctxt}
btime 1
processes 50
softirq 1000 1 200 3 400 50 0 7 8 9 10
"""
VMSTAT = "nr_free_pages 5\npgfault {faults}\npgmajfault 7\npswpin 1\npswpout 2\nnr_stolen x\n"
DISK = "   8 {minor} {name} {reads} 0 {sectors} 10 20 0 160 10 0 30 {queue} 0 0 0 0 {flushes} 4\n"
NET = """\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop
    lo: {lo} 9 0 0 0 0 0 0 9 9 0 0 0 0 0 0
  eth0:{bytes} 10 1 2 0 0 0 0 500 5 0 0 0 0 0 0
"""


class Machine:
    """A tree like /proc and /sys/block, whose counters can be set."""

    def __init__(self, root: Path) -> None:
        self.proc, self.block = root / "proc", root / "block"
        (self.proc / "pressure").mkdir(parents=True)
        (self.proc / "net").mkdir()
        for disk in ("sda", "loop0"):
            (self.block / disk).mkdir(parents=True)
        (self.block / "sda/device").mkdir()

    def at(self, seconds: int, **counts: int) -> KernelReading:
        """A reading at that second of the clock."""
        c = {"intr": 10, "ctxt": 5, "faults": 3, "reads": 1, "sectors": 8, "queue": 100}
        c |= {"flushes": 2, "bytes": 1000, "lo": 1, "stalled": 0, **counts}
        (self.proc / "stat").write_text(STAT.format(**c))
        (self.proc / "vmstat").write_text(VMSTAT.format(**c))
        disks = [DISK.format(name=name, minor=n, **c) for n, name in enumerate(("sda", "sda1"))]
        (self.proc / "diskstats").write_text("".join(disks) + "8 9 loop0 1 2 3\n")
        (self.proc / "net/dev").write_text(NET.format(**c))
        text = f"some avg10=0.00 total=9\nfull avg10=0.00 avg60=0.00 total={c['stalled']}\n"
        (self.proc / "pressure/io").write_text(text)
        reading = KernelReading.now(self.proc, self.block)
        return replace(reading, instant_ns=seconds * 10**9)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_events_become_rates(machine: Machine) -> None:
    later = {"intr": 30, "ctxt": 105, "faults": 43, "stalled": 500_000}
    figures = machine.at(0).until(machine.at(2, **later))
    assert figures["window"] == 2
    assert figures["interrupts"] == 10
    assert figures["context_switches"] == 50
    assert figures["page_faults"] == 20
    assert figures["swapped_in"] == figures["major_faults"] == figures["forks"] == 0
    assert figures["softirqs"] == figures["softirqs_network"] == 0
    assert figures["psi_io_full"] == 0.25
    assert "psi_irq_full" not in figures  # this kernel does not tell it


def test_disks_are_counted_once_and_in_bytes(machine: Machine) -> None:
    """Neither their partitions nor what stands on others."""
    later = {"reads": 5, "sectors": 24, "queue": 1100, "flushes": 6}
    figures = machine.at(0).until(machine.at(2, **later))
    assert figures["disk_reads"] == 2
    assert figures["disk_read"] == 16 * 512 / 2
    assert figures["disk_queue"] == 0.5
    assert figures["disk_flushes"] == 2
    assert figures["disk_written"] == 0


def test_a_disk_whose_milliseconds_wrapped(machine: Machine) -> None:
    figures = machine.at(0, queue=(1 << 32) - 500).until(machine.at(1, queue=500))
    assert figures["disk_queue"] == 1


@pytest.mark.parametrize(
    "counts",
    [
        "1 2 3 4 5 6 7 8 9 10 x",
        "1 x 3 4 5 6 7 8 9 10 11 12",
        "1 2 3 4 5 6 7 8 9 10 \u0663",
        f"1 2 3 4 5 6 7 8 9 10 {'1' * 5000}",
    ],
)
def test_a_disk_of_fewer_numbers_than_words_is_left_out(counts: str) -> None:
    """Nor does what stands behind a word move into the column before."""
    texts = {"diskstats": f" 8 0 vda {counts}\n"}
    reading = KernelReading.of(lambda name: texts.get(name, ""), {"vda"})
    assert reading.disks == {}
    later = replace(reading, instant_ns=reading.instant_ns + 10**9)
    assert "disk_queue" not in reading.until(later)


@pytest.mark.parametrize("word", ["x", "-4"])
def test_nor_does_a_word_move_the_columns_of_a_network_device(word: str) -> None:
    texts = {"net/dev": f"a\nb\n  eth0: 1 2 {word} {'7 ' * 14}\n"}
    assert KernelReading.of(lambda name: texts.get(name, ""), ()).links == {}


def test_loopback_is_no_network(machine: Machine) -> None:
    figures = machine.at(0).until(machine.at(2, bytes=3000, lo=10**9))
    assert figures["net_received"] == 1000
    assert figures["net_sent"] == figures["net_packets"] == figures["net_drops"] == 0


def test_devices_that_came_or_were_set_back_tell_nothing(machine: Machine) -> None:
    first = machine.at(0, bytes=5000)
    assert first.until(machine.at(1, bytes=10))["net_received"] == 0
    plugged = replace(machine.at(1), disks={}, links={})
    assert "disk_reads" not in first.until(plugged)
    assert first.until(plugged)["net_received"] == 0


def test_counters_that_went_down_are_left_out(machine: Machine) -> None:
    figures = machine.at(0, ctxt=100, stalled=10).until(machine.at(1, ctxt=7, stalled=3))
    assert "context_switches" not in figures
    assert "psi_io_full" not in figures
    assert figures["interrupts"] == 0


def test_cpu_time_by_kind(machine: Machine) -> None:
    first = machine.at(0)
    grown = {**first.ticks, "user": 150, "irq": 16, "softirq": 27, "system": 50, "guest": 60}
    figures = first.until(replace(machine.at(1), ticks=grown))
    assert figures["cpu_user"] == pytest.approx(50 / 100)
    assert figures["cpu_kernel"] == pytest.approx(20 / 100)
    assert figures["cpu_interrupts"] == pytest.approx(30 / 100)
    assert figures["cpu_guests"] == pytest.approx(20 / 100)
    assert "cpu_user" not in first.until(machine.at(1))  # less than a tick


def test_no_time_and_no_kernel_that_tells(machine: Machine, tmp_path: Path) -> None:
    assert machine.at(1).until(machine.at(1)) == {}
    nothing = KernelReading.now(tmp_path / "none", tmp_path / "none")
    later = replace(nothing, instant_ns=nothing.instant_ns + 10**9)
    figures = nothing.until(later)
    assert {name: value for name, value in figures.items() if value} == {"window": 1.0}


def test_long_files_are_read_to_their_end(tmp_path: Path) -> None:
    """The kernel gives them a page at a time; a file of many CPUs has many pages."""
    (tmp_path / "long").write_text("x" * 200_000)
    assert len(procfs.whole(tmp_path / "long")) == 200_000
    assert procfs.whole(tmp_path / "none") == procfs.whole(tmp_path) == ""


def test_known_work_shows_on_the_real_host() -> None:
    """A thousand rounds of two threads that wake each other, and pages touched for the first."""
    meter = Kernel()
    meter.begin()
    ping, pong = threading.Semaphore(0), threading.Semaphore(0)

    def answer() -> None:
        for _ in range(1000):
            ping.acquire()
            pong.release()

    thread = threading.Thread(target=answer)
    thread.start()
    for _ in range(1000):
        ping.release()
        pong.acquire()
    thread.join()
    pages = bytearray(4096 * 1000)
    pages[::4096] = b"x" * 1000
    os.sched_yield()
    figures = meter.end()
    assert round(figures["context_switches"] * figures["window"]) >= 1000
    assert round(figures["forks"] * figures["window"]) >= 1
    assert figures["interrupts"] > 0
    assert figures["collection"] > 0
    assert set(figures) <= {quantity.name for quantity in Kernel.quantities}
    shares = ("cpu_user", "cpu_kernel", "cpu_interrupts", "cpu_guests", "psi_io_full")
    assert all(0 <= figures.get(name, 0) <= 1 for name in shares)
    assert all(value >= 0 for value in figures.values())
