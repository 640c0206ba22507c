"""Meter `threads`: a made-up host whose every figure is known, and the real one."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ullage.environments import exec_pinned
from ullage.host import paths
from ullage.host.cgroups import Group, Limits
from ullage.meters import Scene, kernel_threads, process_groups
from ullage.meters.kernel_threads import kernel_threads as kept_open
from ullage.meters.threads import Threads, ThreadsReading

TICK_S = 1 / os.sysconf("SC_CLK_TCK")
SCENE = Scene("u0000000", ("vm-0", "box-0"))
JOIN = Path(exec_pinned.__file__)
WAITED = ("vcpu_waited", "hypervisor_waited")
THREAD_KINDS = ("vcpu", "hypervisor", "vhost", "programs", "agent", "others")


class Host:
    """A /proc and a tree of control groups that can be set."""

    def __init__(self, root: Path) -> None:
        self.proc, self.groups = root / "proc", root / "groups"
        self.busy_ticks = 0
        self.children: list[int] = []
        (self.proc / "2/task/2").mkdir(parents=True)
        self.group("vm-0")
        self.group("box-0")

    def group(self, name: str, *pids: int) -> None:
        """Who is in an instance's control group."""
        place = self.groups / SCENE.tag / name
        place.mkdir(parents=True, exist_ok=True)
        (place / "cgroup.procs").write_text("".join(f"{pid}\n" for pid in pids))

    def process(self, pid: int, program: str, ticks: int = 0, children_ticks: int = 0) -> None:
        """One process: of its threads together, and of its children that have ended."""
        (self.proc / f"{pid}/task").mkdir(parents=True, exist_ok=True)
        exe = self.proc / f"{pid}/exe"
        if program and not exe.is_symlink():
            exe.symlink_to(f"/usr/bin/{program}")
        fields = f"S 1 1 1 0 -1 0 0 0 0 0 {ticks} 0 {children_ticks} 0 20 0 1 0 5"
        (self.proc / f"{pid}/stat").write_text(f"{pid} (a) b) {fields}\n")

    def thread(self, pid: int, tid: int, name: str, ran_s: float, waited_s: float = 0) -> None:
        """One thread; a kernel's is `pid` alone."""
        path = self.proc / (f"{pid}/task/{tid}" if tid else f"{pid}")
        path.mkdir(parents=True, exist_ok=True)
        (path / "comm").write_text(f"{name}\n")
        (path / "schedstat").write_text(f"{round(ran_s * 1e9)} {round(waited_s * 1e9)} 7\n")
        if not tid:
            self.children = sorted({*self.children, pid})

    def at(self, seconds: float) -> ThreadsReading:
        """A reading at that second of the clock; ullage itself does nothing."""
        (self.proc / "stat").write_text(f"cpu  {self.busy_ticks} 0 0 9 9 9 9 9 9 9\ncpu0 1 2 3\n")
        (self.proc / "2/task/2/children").write_text(" ".join(map(str, self.children)))
        reading = ThreadsReading.now(SCENE, self.proc)
        return replace(reading, instant_ns=round(seconds * 1e9), controller_s=0.0)


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    machine = Host(tmp_path)
    monkeypatch.setattr(process_groups, "_roots", lambda: (str(machine.groups),))
    kept_open.cache_clear()
    return machine


def test_every_group_by_its_threads(host: Host) -> None:
    host.group("vm-0", 10)
    host.group("box-0", 20, 21)
    for step in (0, 1):
        host.process(10, "qemu-system-x86_64", ticks=100 * step)
        host.thread(10, 10, "qemu-system-x86", 1 + 0.12 * step, 0.02 * step)
        host.thread(10, 11, "CPU 0/KVM", 5 + 0.7 * step, 0.1 * step)
        host.thread(10, 12, "CPU 1/TCG", 5 + 0.1 * step)
        host.thread(10, 13, "vhost-10", 3 + 0.04 * step)
        host.thread(10, 14, "worker", 0.08 * step)
        host.process(20, "ullage-agent")
        host.thread(20, 20, "ullage-agent", 0.01 * step)
        host.process(21, "nginx")
        host.thread(21, 21, "nginx: CPU 0/KVM", 0.3 * step)
        host.thread(31, 0, "ksoftirqd/0", 0.05 * step)
        host.thread(32, 0, "kworker/0:1-events", 0.06 * step)
        host.thread(33, 0, "rcu_sched", 0.07 * step)
        host.thread(34, 0, "vhost-10", 0.06 * step)  # before Linux 6.4
        host.busy_ticks = round(2.5 * step / TICK_S)
        if step == 0:
            before = host.at(100)
    figures = before.until(host.at(102))
    expected = {
        "window": 2.0,
        "vcpu": 0.4,
        "vcpu_waited": 0.05,
        "hypervisor": 0.1,
        "hypervisor_waited": 0.01,
        "vhost": 0.05,
        "agent": 0.005,
        "programs": 0.15,
        "ksoftirqd": 0.025,
        "kworker": 0.03,
        "kernel_threads": 0.035,
        "controller": 0.0,
        "lost": 0.0,
    }
    expected["others"] = 1.25 - sum(
        value for name, value in expected.items() if name not in ("window", *WAITED)
    )
    assert figures == pytest.approx(expected)
    assert set(figures) <= {quantity.name for quantity in Threads.quantities}


def test_what_ended_in_between_is_told_by_who_is_left(host: Host) -> None:
    """A worker of QEMU ends, and two programs: one that was there before, one that was not."""
    host.group("vm-0", 10)
    host.group("box-0", 20, 21)
    host.process(10, "qemu-system-x86_64", ticks=200)
    host.thread(10, 10, "qemu-system-x86", 1.0)
    host.thread(10, 14, "worker", 1.0)
    host.process(20, "ullage-agent", children_ticks=50)
    host.thread(20, 20, "ullage-agent", 0.1)
    host.process(21, "sysbench", ticks=300)
    host.thread(21, 21, "sysbench", 3.0)
    before = host.at(0)
    shutil.rmtree(host.proc / "10/task/14")
    shutil.rmtree(host.proc / "21")
    host.group("box-0", 20)
    host.process(10, "qemu-system-x86_64", ticks=260)
    host.thread(10, 10, "qemu-system-x86", 1.2)
    # 3.0 s of the first it had run before; 0.5 s since, and 0.4 s of the other.
    host.process(20, "ullage-agent", children_ticks=50 + 300 + 50 + 40)
    figures = before.until(host.at(1))
    assert figures["hypervisor"] == pytest.approx(0.6, abs=2 * TICK_S)
    assert figures["programs"] == pytest.approx(0.9, abs=2 * TICK_S)
    assert figures["agent"] == 0


def test_a_thread_of_the_kernel_that_ended_is_said(host: Host) -> None:
    host.thread(32, 0, "kworker/0:1", 1.0)
    host.thread(33, 0, "kworker/0:2", 1.0)
    before = host.at(0)
    host.children.remove(33)
    shutil.rmtree(host.proc / "33")
    host.thread(35, 0, "kworker/1:0", 0.25)
    figures = before.until(host.at(1))
    assert figures["lost"] == 1
    assert figures["kworker"] == pytest.approx(0.25)


def test_a_number_that_was_given_again_is_a_new_thread(host: Host) -> None:
    host.thread(32, 0, "kworker/0:1", 9.0)
    before = host.at(0)
    host.thread(32, 0, "kworker/0:1", 0.5)
    assert before.until(host.at(1))["kworker"] == pytest.approx(0.5)


def test_what_cannot_be_seen_is_no_zero(host: Host) -> None:
    """No control groups: nothing is known of instances. No list of the kernel's: nor of those."""
    figures = host.at(0).until(host.at(1))
    assert set(figures) == {"window", "lost", "controller"}
    assert host.at(1).until(host.at(1)) == {}


def test_files_that_hold_nonsense_are_left_out(host: Host) -> None:
    host.group("vm-0", 10, 11, 12)
    host.process(10, "qemu-system-x86_64")
    host.thread(10, 10, "\x1b[31m\n)", 0.0)
    (host.proc / "10/task/10/schedstat").write_text("- x\n")
    (host.proc / "10/stat").write_text("")
    host.process(11, "")  # gone while it was looked at
    figures = host.at(0).until(host.at(1))
    assert all(value >= 0 for value in figures.values())


@pytest.mark.skipif(os.geteuid() != 0, reason="control groups need root")
def test_known_work_shows_on_the_real_host() -> None:
    """A process in a group of ours that burns a known amount, and one in nobody's."""

    async def scenario() -> dict[str, float]:
        tag = paths.new_tag()
        group = Group.create(tag, "box-0", Limits())
        burn = "import time\nwhile time.process_time() < 0.5: pass\nprint(flush=True)\ninput()"
        inside = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", str(JOIN), "", *map(str, group.directories), "--"),
            *(sys.executable, "-c", f"input()\n{burn}"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            assert inside.stdin is not None
            assert inside.stdout is not None
            async with asyncio.timeout(60):
                while not group.holds(inside.pid):
                    await asyncio.sleep(0.01)
            meter = Threads()
            meter.watch(Scene(tag, ("box-0",)))
            meter.begin()
            inside.stdin.write(b"\n")
            async with asyncio.timeout(60):
                await inside.stdout.readline()
            return meter.end()
        finally:
            inside.kill()
            await inside.wait()
            await group.remove()

    figures = asyncio.run(scenario())
    # The interpreter itself has used some of the half second before.
    assert 0.2 < figures["programs"] * figures["window"] <= 0.6
    assert set(THREAD_KINDS) < set(figures)
    assert figures["vcpu"] == figures["hypervisor"] == 0
    assert figures["collection"] > 0


def descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_files_are_kept_open_and_closed_when_their_threads_end(host: Host) -> None:
    host.thread(31, 0, "ksoftirqd/0", 1)
    host.thread(32, 0, "kworker/0:1", 1)
    kept = kept_open(host.proc)
    before = descriptors()
    host.at(1)
    assert descriptors() == before + 2
    host.children.remove(32)
    host.at(2)
    assert descriptors() == before + 1
    kept.close()
    assert descriptors() == before


def test_of_more_threads_than_may_be_open_the_others_are_opened_each_time(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_threads, "_most_open", lambda: 1)
    for step in (0, 1):
        for pid in (31, 32, 33):
            host.thread(pid, 0, "rcu_sched", 0.5 * step)
        readings = host.at(100 + step)
        if step == 0:
            before = readings
    figures = before.until(readings)
    assert figures["kernel_threads"] == pytest.approx(1.5)


def test_a_file_that_can_be_read_no_more_is_opened_anew(host: Host) -> None:
    host.thread(31, 0, "ksoftirqd/0", 9)
    host.at(1)
    kept = kept_open(host.proc)
    thread = kept._kept[31]
    assert thread.descriptor is not None
    ended, write = os.pipe()  # `pread` of it is an error, as of the file of a thread that ended
    os.dup2(ended, thread.descriptor)
    os.close(ended)
    os.close(write)
    host.thread(31, 0, "kworker/1:0", 2)
    reading = host.at(2)
    assert reading.tasks[31, 31].group == "kworker"
    assert reading.tasks[31, 31].ran_ns == 2 * 10**9
    kept.close()
