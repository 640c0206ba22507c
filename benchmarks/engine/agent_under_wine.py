"""The agent for Windows, under Wine, beside the agent on the same kernel: frames, starts and sizes.

Both are instances on the same CPU, made by their providers; they take turns in an order that is
drawn anew. Frames are requests for an empty file, one after the other, and what a file of 8 MiB is
read in; a figure is the median of the rounds' ratios, Wine ÷ Linux, with its 95 % interval. How
late programs started after the instant that was agreed on, each agent says itself. Wine is not
Windows: this is what Wine's calls cost.
"""

from __future__ import annotations

import asyncio
import math
import os
import random
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final

from benchmarks.figures import Figure, main, median_interval
from ullage.environments.agent.client import AgentClient, Command, binary, windows_binary
from ullage.environments.native import Native
from ullage.environments.placement import Resources
from ullage.environments.provisioning.allocate import Allocated, allocate, release
from ullage.environments.provisioning.node import Site
from ullage.environments.wine import Wine
from ullage.host import claims, clock, disks, paths

MOST_BYTES: Final = 2_000_000
FILE_BYTES: Final = 8 << 20
REQUESTS: Final = 200
AHEAD_NS: Final = 150_000_000
PROGRAMS: Final = {"Linux": ("true",), "Wine": ("cmd", "/c", "exit")}

Place = tuple[AgentClient, str]
"""An agent, and a directory that is there."""


@asynccontextmanager
async def places() -> AsyncIterator[dict[str, Place]]:
    """One of each, in instances of which nothing is left."""
    tag = paths.new_tag()
    claims.claim(tag, "/nowhere")
    resources = Resources.model_validate({"cpus": 1, "memory": 1 << 30})
    pair: list[Allocated] = []
    try:
        for provider in (Native(Native.options_model()), Wine(Wine.options_model())):
            await provider.check()
            site = Site(tag, provider, resources, None, binary(), None)
            pair.append(await allocate(site, f"{provider.name}-0"))
        linux, wine = (one.instance for one in pair)
        yield {"Linux": (linux.agent, linux.data), "Wine": (wine.agent, "C:/")}
    finally:
        for one in pair:
            await release(one)
        for directory in (paths.state_dir(tag), paths.data_dir(tag)):
            await asyncio.to_thread(disks.remove_tree, directory)


async def _answers(place: Place) -> float:
    """Requests that were answered in a second."""
    agent, directory = place
    began = time.perf_counter()
    for _ in range(REQUESTS):
        await agent.get(f"{directory}/ullage-empty", 1)
    return REQUESTS / (time.perf_counter() - began)


async def _reading(place: Place) -> float:
    """Bytes of a file in a second; all of its frames are as long."""
    agent, directory = place
    began = time.perf_counter()
    data = await agent.get(f"{directory}/ullage-frames", FILE_BYTES)
    took = time.perf_counter() - began
    if len(data) != FILE_BYTES:
        raise RuntimeError(f"{len(data)} bytes came")
    return FILE_BYTES / took


async def _late_s(place: Place, argv: tuple[str, ...]) -> float:
    """How long after the instant it started."""
    agent, directory = place
    at_ns = clock.ordered_ns() + AHEAD_NS
    end, _, _ = await agent.run(Command(argv, cwd=directory), at_ns=at_ns)
    if end.status != 0:
        raise RuntimeError(f"{argv[0]} ended with {end.status}")
    return end.late_ns / 1e9


async def _ratios(
    both: Mapping[str, Place],
    rate: Callable[[Place], Awaitable[float]],
    rounds: int,
    rng: random.Random,
) -> tuple[list[float], list[float]]:
    """Wine ÷ Linux of each round, and Linux's rates."""
    ratios, rates = [], []
    for _ in range(rounds):
        order = list(both)
        rng.shuffle(order)
        of = {name: await rate(both[name]) for name in order}
        ratios.append(of["Wine"] / of["Linux"])
        rates.append(of["Linux"])
    return ratios, rates


async def _measured(rounds: int, starts: int) -> list[Figure]:
    rng = random.Random(11)
    rows: list[Figure] = []
    async with places() as both:
        for agent, directory in both.values():
            await agent.put(b"", f"{directory}/ullage-empty")
            await agent.put(os.urandom(FILE_BYTES), f"{directory}/ullage-frames")
        for name, rate in (("requests answered", _answers), ("frames of a file", _reading)):
            ratios, rates = await _ratios(both, rate, rounds, rng)
            rows.append(_ratio(f"{name} per second, Wine ÷ Linux", ratios, rates))
        late: dict[str, list[float]] = {name: [] for name in both}
        for _ in range(starts):
            for name in rng.sample(list(both), len(both)):
                late[name].append(await _late_s(both[name], PROGRAMS[name]))
        rows += [_lateness(name, seconds, late["Linux"]) for name, seconds in late.items()]
    return rows


def _ratio(name: str, ratios: Sequence[float], rates: Sequence[float]) -> Figure:
    interval = median_interval(ratios)
    note = f"{len(ratios)} rounds; Linux: {statistics.median(rates):.4g}/s"
    return Figure(
        name, interval.estimate, "×", interval.low, interval.high, "Linux", 1.0, note=note
    )


def _lateness(name: str, seconds: Sequence[float], linux: Sequence[float]) -> Figure:
    interval = median_interval(seconds)
    longest = sorted(seconds)[math.ceil(0.95 * len(seconds)) - 1]
    return Figure(
        f"start lateness, {name}",
        interval.estimate,
        "s",
        interval.low,
        interval.high,
        "Linux",
        statistics.median(linux),
        note=f"{len(seconds)} starts; 95 % within {longest * 1e6:.0f} µs",
    )


def measure(quick: bool) -> Iterator[Figure]:
    for name, path in (("Linux", binary()), ("Windows", windows_binary())):
        size = path.stat().st_size
        yield Figure(
            f"the agent's size, {name}",
            size / 1e6,
            "MB",
            reach="at most 2 MB",
            holds=size <= MOST_BYTES,
        )
    yield from asyncio.run(_measured(*((3, 3) if quick else (40, 100))))


if __name__ == "__main__":
    main(measure, __doc__ or "")
