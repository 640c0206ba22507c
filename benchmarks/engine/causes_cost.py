"""What it costs to look for causes: CPU time of everything that is read or sampled for them.

Trials that sleep for a second follow each other as the demo's do, one in five of them a guest's; so
no work hides the cost. Counted are the meters `kernel`, `threads` and `guest` (asked of an agent,
with what that takes), and `perf record` and `perf script` with the folding of what they print, by
the kernel's accounts. The figure is CPU seconds over the time, as a share of one core; the start of
`perf`, once a run, is told apart, and so is what a run of guests alone would come to. Not in it,
for no account has it: the looks themselves, in an interrupt of whoever is looked at;
`docs/guide/causes.md` says what they take.
"""

from __future__ import annotations

import asyncio
import os
import resource
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.figures import Figure, main, needs
from ullage.environments.agent.client import AgentClient, binary
from ullage.host import clock
from ullage.meters import Scene, metered
from ullage.meters.guest import Guest
from ullage.meters.kernel import Kernel
from ullage.meters.perf.sampler import EVERY_S, Sampler
from ullage.meters.threads import Threads

WORK_S = 1.0
BETWEEN_S = 0.2
"""Of the demo's trials: what the engine takes around a second of work."""
GUESTS = 5
"""One in so many trials is a guest's, as in the demo."""
AIM = 0.01
TICK_S = 1 / os.sysconf("SC_CLK_TCK")


class Account:
    """CPU seconds by what they were spent on."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = defaultdict(float)

    @contextmanager
    def of(self, part: str) -> Iterator[None]:
        """What this thread and the children that it waits for use within."""
        began = self._now()
        yield
        self.spent[part] += self._now() - began

    def _now(self) -> float:
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return time.thread_time() + children.ru_utime + children.ru_stime


def used_s(pid: int) -> float:
    """CPU seconds of a process that lives."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * TICK_S


async def trials(account: Account, work: Path, lasts_s: float) -> float:
    """So many seconds of trials; how long they really took."""
    with account.of("start of perf"):
        sampler = await Sampler.start(work / "perf", print)
    started = used_s(sampler.process.pid)
    account.spent["start of perf"] += started
    agent = await AgentClient.launch([str(binary()), "serve"])
    try:
        agent_pid = int(agent.facts["pid"])
        agent_before_s = used_s(agent_pid)
        began, number = time.monotonic(), 0
        while time.monotonic() - began < lasts_s:
            folder = work / f"t{number}"
            folder.mkdir()
            await trial(account, sampler, agent if number % GUESTS == 0 else None, folder)
            number += 1
        took = time.monotonic() - began
        account.spent["guest"] += used_s(agent_pid) - agent_before_s
        with account.of("reading the samples"):
            await sampler.settle()
        account.spent["perf record"] += used_s(sampler.process.pid) - started
    finally:
        await sampler.stop()
        await agent.bye()
    return took


async def trial(
    account: Account, sampler: Sampler, agent: AgentClient | None, folder: Path
) -> None:
    """A trial as the engine does it, without its work; agent: of a guest, where there is one."""
    guest = Guest()
    with account.of("reading the samples"):
        watch = sampler.watch(Scene())
    if agent:
        with account.of("guest"):
            await guest.ask([agent.get])
            guest.begin()
    with metered((Kernel, Threads)) as meters:
        start_ns = clock.ordered_ns()
        await asyncio.sleep(WORK_S)
        end_ns = clock.ordered_ns()
    for meter in ("kernel", "threads"):
        account.spent[meter] += meters[meter]["collection"]
    if agent:
        with account.of("guest"):
            await guest.ask([agent.get])
            guest.end()
    with account.of("reading the samples"):
        sampler.note(watch, folder, start_ns, end_ns)
    await asyncio.sleep(BETWEEN_S)


@needs("perf")
def measure(quick: bool) -> list[Figure]:
    """As shares of one core."""
    account = Account()
    rounds = 1 if quick else 4
    took = 0.0
    for _ in range(rounds):  # each ends as two minutes of a run do: the samples are read
        with tempfile.TemporaryDirectory() as work:
            took += asyncio.run(trials(account, Path(work), EVERY_S))
    start_s = account.spent.pop("start of perf") / rounds
    total = sum(account.spent.values()) / took
    note = f"{took:.0f} s of trials of {WORK_S:g} s, {os.cpu_count()} CPUs"
    return [
        Figure(
            "looking for causes, of one core",
            total,
            "1",
            reach=f"at most {AIM:g}",
            holds=total <= AIM,
            note=note,
        ),
        *(
            Figure(f"of it: {part}", seconds / took, "1")
            for part, seconds in sorted(account.spent.items(), key=lambda item: -item[1])
        ),
        Figure(
            "where every trial is a guest's",
            total + (GUESTS - 1) * account.spent["guest"] / took,
            "1",
        ),
        Figure("start of perf, once a run", start_s, "s"),
    ]


if __name__ == "__main__":
    main(measure, __doc__ or "")
