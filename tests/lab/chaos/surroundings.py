"""What is around a controller goes wrong: signals, clocks, memory, full file systems, the bridge.

Whatever it is: who tells the controller to end is obeyed, and `--resume` ends the run.
"""

from __future__ import annotations

import ctypes
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from tests.lab.chaos.campaign import Campaign, Case, FaultFoundError, numbered
from tests.lab.chaos.controller import CLOCK, FOR_EVER, GONE_S, Controller, Fault
from tests.lab.chaos.subjects import RESUMED_S, SUBJECTS, Attacked, check_words, terminate

_KINDS: Final = ("native", "oci", "lxc", "qemu", "elastic", "live")
_SIGNALS: Final = (signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM)
_STEPS_S: Final = (-1e9, -86_400.0, -3600.0, -1.0, 1.0, 3600.0, 86_400.0, 1e9)
_MEMORY: Final = Path("/sys/fs/cgroup/memory")
_NEW_MOUNTS: Final = 0x0002_0000
_LIBC: Final = ctypes.CDLL(None, use_errno=True)


def _terminated(attacked: Attacked, chance: random.Random) -> None:
    """SIGTERM, SIGINT or SIGHUP at a random instant; then nothing is left."""
    controller = attacked.start()
    if not _lived(controller, attacked, chance):
        started = time.monotonic()
        terminate(controller, chance.choice((signal.SIGTERM, signal.SIGINT, signal.SIGHUP)), GONE_S)
        attacked.case.most("most_ms_to_end", (time.monotonic() - started) * 1e3)
    attacked.see()
    check_words(controller)
    attacked.check_nothing_left("after it was told to end")


def _victim(attacked: Attacked, chance: random.Random) -> None:
    """A signal to something of the run's: an agent, its keeper, QEMU, a container, the front …"""
    controller = attacked.start()
    if processes := _processes(controller, attacked, chance):
        _send(chance.choice(processes), chance.choice(_SIGNALS))
        attacked.case.counts["victims"] += 1
    if not controller.gone(chance.uniform(0.0, 3.0)):
        terminate(controller, signal.SIGTERM, 2 * GONE_S)
    attacked.see()
    check_words(controller)


def _stopped(attacked: Attacked, chance: random.Random) -> None:
    """The controller itself stands still for a while."""
    controller = attacked.start()
    if not _lived(controller, attacked, chance):
        controller.signal(signal.SIGSTOP)
        time.sleep(chance.uniform(0.0, 3.0))
        controller.signal(signal.SIGCONT)
    _ended(controller, attacked)


def _clock(attacked: Attacked, chance: random.Random) -> None:
    """The wall clock is stepped; no figure may hang on it."""
    first = chance.randint(1, 60)
    last = chance.choice((first + chance.randint(0, 60), FOR_EVER))
    step_s = chance.choice(_STEPS_S)
    controller = attacked.start(Fault(CLOCK, first, last, clock_step_s=step_s))
    _ended(controller, attacked)
    if controller.status != 0:
        raise FaultFoundError(f"{step_s} s: it ended with {controller.status}")


def _memory(attacked: Attacked, chance: random.Random) -> None:
    """The controller has too little memory: the kernel kills it, or not."""
    group = _MEMORY / f"chaos-{os.getpid()}"
    group.mkdir()
    try:
        limit = chance.randint(1_000_000, 60_000_000)
        (group / "memory.limit_in_bytes").write_text(str(limit), encoding="ascii")
        controller = attacked.start()
        (group / "tasks").write_text(str(controller.pid), encoding="ascii")
        _ended(controller, attacked, statuses={137})
    finally:
        attacked.clean()
        group.rmdir()


def _starved(attacked: Attacked, chance: random.Random) -> None:
    """An agent, a keeper, QEMU, the front … gets no more memory: the kernel kills it.

    Not all of them ask for memory again; the case counts who was killed.
    """
    group = _MEMORY / f"chaos-{os.getpid()}"
    group.mkdir()
    (group / "memory.limit_in_bytes").write_text(str(chance.choice((4096, 65_536))))
    try:
        controller = attacked.start()
        if processes := _processes_at(chance.random(), controller, attacked):
            _move(chance.choice(processes), group)
        if chance.random() < 0.5:
            while not (_oom_kills(group) or controller.gone(0.0)):
                time.sleep(0.01)
            controller.gone(chance.uniform(0.0, 1.0))
            terminate(controller, signal.SIGTERM, 2 * GONE_S)
            attacked.see()
            check_words(controller)
        else:
            _ended(controller, attacked)
        attacked.case.counts["oom_kills"] += _oom_kills(group)
    finally:
        for pid in (group / "cgroup.procs").read_text(encoding="ascii").split():
            _move(int(pid), _MEMORY)
        group.rmdir()


def _processes_at(part: float, controller: Controller, attacked: Attacked) -> list[int]:
    """What the run has started, once so much of it is done: a busy machine's too."""
    count = int(part * attacked.subject.finished)
    while not controller.gone(0.02):
        if attacked.count_ended() >= count and (processes := attacked.processes()):
            return processes
    return []


def _oom_kills(group: Path) -> int:
    words = (group / "memory.oom_control").read_text(encoding="ascii").split()
    return int(words[words.index("oom_kill") + 1])


def _full(attacked: Attacked, chance: random.Random) -> None:
    """State, data or the run's own folder lie on a file system that has no room, in our mounts."""
    name = chance.choice(("state", "data", "runs"))
    place = attacked.case.place / name
    place.mkdir(exist_ok=True)
    if _LIBC.unshare(_NEW_MOUNTS) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    size = chance.choice((4096, 8192, 16_384, 65_536, 262_144))
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(place)], check=True)
    controller = attacked.start()
    _ended(controller, attacked)
    subprocess.run(["mount", "-o", "remount,size=256m", str(place)], check=True)


def _bridge(attacked: Attacked, chance: random.Random) -> None:
    """A network device of the run's is pulled."""
    controller = attacked.start()
    if not _lived(controller, attacked, chance):
        attacked.see()
        links = [path.name for path in Path("/sys/class/net").iterdir()]
        ours = [name for name in links if any(name.startswith(tag) for tag in attacked.tags)]
        if ours:
            subprocess.run(["ip", "link", "delete", chance.choice(ours)], check=False)
            attacked.case.counts["bridges"] += 1
    _ended(controller, attacked)


_ATTACKS: Final[dict[str, tuple[Callable[[Attacked, random.Random], None], int]]] = {
    "told": (_terminated, 30),
    "victim": (_victim, 30),
    "stopped": (_stopped, 8),
    "clock": (_clock, 16),
    "memory": (_memory, 10),
    "starved": (_starved, 10),
    "full": (_full, 16),
    "bridge": (_bridge, 6),
}
"""Attack → what it does, and how often for each kind of run."""


def _cases(seed: int) -> Iterable[str]:
    names = [
        name
        for attack, (_, count) in _ATTACKS.items()
        for kind in (("elastic",) if attack == "bridge" else _KINDS)
        for name in numbered(f"{attack}-{kind}", count if kind != "qemu" else count // 3)
    ]
    random.Random(seed).shuffle(names)
    return names


def play(case: Case) -> None:
    """One attack, then `--resume`."""
    attack, kind, _ = case.name.split("-")
    attacked = Attacked(case, SUBJECTS[kind])
    _ATTACKS[attack][0](attacked, case.random)
    last = attacked.run_on()
    if last.status not in {0, 3}:
        raise FaultFoundError(f"`--resume` ended with {last.status}: {last.stderr[-400:]}")
    attacked.check_whole(failures=True)
    attacked.check_nothing_left("after `--resume`")
    case.counts[attack] += 1


def _lived(controller: Controller, attacked: Attacked, chance: random.Random) -> bool:
    """Let it live for a part of its time; True when it has ended before."""
    return controller.gone(chance.uniform(0.0, attacked.subject.usual_s))


def _processes(controller: Controller, attacked: Attacked, chance: random.Random) -> list[int]:
    """What the run has started, a while after the first of it is there; none when all is over."""
    while not attacked.processes():
        if controller.gone(0.0):
            return []
    _lived(controller, attacked, chance)
    return attacked.processes()


def _ended(
    controller: Controller, attacked: Attacked, statuses: Iterable[int] = frozenset()
) -> None:
    """It ends by itself, in order, or with one of the statuses."""
    if not controller.gone(RESUMED_S):
        terminate(controller, signal.SIGTERM, GONE_S)
        raise FaultFoundError(f"it hung, until it was told to end: {controller.stderr[-300:]}")
    attacked.see()
    if controller.status in set(statuses):
        return
    check_words(controller)
    if controller.status not in range(128):
        raise FaultFoundError(f"it ended with {controller.status}: {controller.stderr[-300:]}")


def _move(pid: int, group: Path) -> None:
    """All of a process into a control group; nothing, when it has gone."""
    try:
        (group / "cgroup.procs").write_text(str(pid), encoding="ascii")
    except ProcessLookupError:
        return


def _send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


CAMPAIGN: Final = Campaign(
    name="surroundings",
    figure="signals to all of a run, stepped clocks, no memory, full /run, a pulled bridge",
    reach="gone within 30 s of being told; `--resume` ends the run; the same zeroes",
    cases=_cases,
    play=play,
)
