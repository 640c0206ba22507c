"""What `causes: guest` takes of the work that it looks at: with it ÷ without.

One virtual machine does the same work over and over: twice without and once with `perf` looking at
it from inside, in an order that is drawn anew each round, as a trial has it: `perf` is started and
answers before the work, and is ended after it. The figure is the geometric mean of the ratios with
its 95 % interval, neighbours of a round against each other, so that what the host does meanwhile
cancels; beside it that of the two without, which is what chance does. Of the work's time, and of
the CPU time of QEMU's threads during it, on which a host's other work has less of a say. Then the
seconds that it takes around a trial, none of which a figure sees. Under KVM where that works here,
else emulated: the row says which.
"""

from __future__ import annotations

import asyncio
import math
import os
import random
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benchmarks.figures import Figure, main, median_interval, needs
from ullage import environments
from ullage.environments.agent import client
from ullage.environments.agent.client import Command
from ullage.environments.provisioning.allocate import allocate, release
from ullage.environments.provisioning.node import Site
from ullage.environments.qemu.provider import QemuInstance
from ullage.host import claims, disks, image, paths
from ullage.meters.perf.inside import GuestSampler
from ullage.plan import matrix, schema
from ullage.runs.symbols import GUEST_FILE
from ullage.stats.interval import t_interval

MOST_RATIO: Final = 1.01
WORK_S: Final = 1.0
_SCHED: Final = 2
"""Linux's CPUCLOCK_SCHED: what the scheduler gave, of the whole process."""
PLAN: Final = """\
name: inside
baseline: native
resources: {cpus: 1, memory: 512MiB}
causes: guest
environments:
  native: {provider: native}
  vm: {provider: qemu}
workloads: [{name: sysbench-cpu}]
"""
WORK: Final[Mapping[str, tuple[str, ...]]] = {
    "CPU, sysbench": ("sysbench", "cpu", "--time=0", "--events={count}", "run"),
    "system calls, dd": ("dd", "if=/dev/zero", "of=/dev/null", "bs=1", "count={count}"),
}
FIRST: Final[Mapping[str, int]] = {"CPU, sysbench": 30, "system calls, dd": 20_000}
"""How much is done to learn how much a second takes."""


@dataclass(frozen=True)
class Work:
    """What so much work took."""

    time_s: float
    cpu_s: float
    """Of all threads that QEMU has or had."""
    start_ns: int
    end_ns: int


@dataclass
class Rounds:
    """What the work of each round took, and seconds that went by around it."""

    plain: list[Work] = field(default_factory=list)
    twin: list[Work] = field(default_factory=list)
    looked: list[Work] = field(default_factory=list)
    around_s: list[float] = field(default_factory=list)
    samples: int = 0
    """Trials whose samples could be read, as without them nothing was looked at."""


@asynccontextmanager
async def machine() -> AsyncIterator[tuple[QemuInstance, str, Path]]:
    """A virtual machine of that plan's image, its label, and that image's root."""
    provider_class = environments.get("qemu")
    provider = provider_class(provider_class.options_model.model_validate({}))
    await provider.check()
    tag = paths.new_tag()
    claims.claim(tag, "/nowhere")
    resolved = matrix.resolve(*schema.loads(PLAN))
    built = await image.build(matrix.packages(resolved), matrix.artifacts(resolved))
    (resources,) = {environment.resources for environment in resolved.environments}
    site = Site(tag, provider, resources, built, client.binary(), None)
    try:
        await site.prepare()
        guest = await allocate(site, "vm")
        try:
            assert isinstance(guest.instance, QemuInstance)
            yield guest.instance, provider.label(), built.root
        finally:
            await release(guest)
    finally:
        for directory in (paths.state_dir(tag), paths.data_dir(tag)):
            await asyncio.to_thread(disks.remove_tree, directory)


def ran_s(pid: int) -> float:
    """CPU seconds of a process: of all threads that it has and had, to the nanosecond."""
    clock_id = (~pid << 3) | _SCHED  # clock_getcpuclockid(3)
    return time.clock_gettime_ns(clock_id) / 1e9


async def do(guest: QemuInstance, argv: Sequence[str], count: int) -> Work:
    """So much work, inside."""
    command = Command(tuple(word.format(count=count) for word in argv), timeout_s=600)
    before_s = ran_s(guest.pid)
    done, _, errors = await guest.agent.run(command)
    cpu_s = ran_s(guest.pid) - before_s
    assert done.status == 0, errors
    return Work((done.end_ns - done.start_ns) / 1e9, cpu_s, done.start_ns, done.end_ns)


async def looked_at(
    guest: QemuInstance, argv: Sequence[str], count: int, sampler: GuestSampler, rounds: Rounds
) -> Work:
    """The same, while perf looks."""
    began = time.perf_counter()
    samples = await sampler.begin([guest])
    work = await do(guest, argv, count)
    await samples.end()
    with tempfile.TemporaryDirectory() as folder:
        await samples.write(Path(folder), work.start_ns, work.end_ns)
        rounds.samples += (Path(folder) / GUEST_FILE).exists()
    rounds.around_s.append(time.perf_counter() - began - work.time_s)
    return work


async def _rounds(guest: QemuInstance, root: Path, what: str, count: int) -> Rounds:
    rng, rounds, argv = random.Random(7), Rounds(), WORK[what]
    sampler = GuestSampler(root, lambda _, message: print(message))
    await do(guest, argv, FIRST[what])
    first = await do(guest, argv, FIRST[what])
    much = max(FIRST[what], round(FIRST[what] * WORK_S / first.time_s))
    for _ in range(count):
        order = [rounds.plain, rounds.twin, rounds.looked]
        rng.shuffle(order)
        for works in order:
            if works is rounds.looked:
                works.append(await looked_at(guest, argv, much, sampler, rounds))
            else:
                works.append(await do(guest, argv, much))
    return rounds


async def _all(count: int) -> list[tuple[str, str, Rounds]]:
    async with machine() as (guest, label, root):
        return [(what, label, await _rounds(guest, root, what, count)) for what in WORK]


@needs("qemu-system-x86_64")
def measure(quick: bool) -> Iterator[Figure]:
    for what, label, rounds in asyncio.run(_all(3 if quick else 40)):
        yield from figures(what, label, rounds)


def figures(what: str, label: str, rounds: Rounds) -> Iterator[Figure]:
    """Five rows of a kind of work."""
    count = len(rounds.looked)
    note = f"{label}, {os.cpu_count()} CPUs, {count} rounds, {rounds.samples} with samples"
    quantities: dict[str, Callable[[Work], float]] = {
        "time": lambda work: work.time_s,
        "CPU time": lambda work: work.cpu_s,
    }
    for name, quantity in quantities.items():
        plain, twin, looked = (
            [math.log(quantity(work)) for work in works]
            for works in (rounds.plain, rounds.twin, rounds.looked)
        )
        chance = [two - one for one, two in zip(plain, twin, strict=True)]
        cost = [on - (one + two) / 2 for on, one, two in zip(looked, plain, twin, strict=True)]
        yield _ratio(f"{what}, {name}: with perf inside ÷ without", cost, note, aimed=True)
        yield _ratio(f"{what}, {name}: without ÷ without", chance, "what chance does")
    around = median_interval(rounds.around_s)
    yield Figure(f"{what}: around a trial", around.estimate, "s", around.low, around.high)


def _ratio(name: str, logs: Sequence[float], note: str, *, aimed: bool = False) -> Figure:
    interval = t_interval(logs, 0.95)
    holds = True if interval.high <= MOST_RATIO else False if interval.low > MOST_RATIO else None
    reach = f"at most {MOST_RATIO}" if aimed else ""
    held = holds if aimed else None
    estimate, low, high = interval.estimate, interval.low, interval.high
    return Figure(name, estimate, "×", low, high, reach=reach, holds=held, note=note)


if __name__ == "__main__":
    main(measure, __doc__ or "")
