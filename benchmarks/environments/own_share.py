"""What we add to the time that an instance takes to come up (TaR): ours ÷ by its own tool.

Ours is `allocate`, from the request until the agent has greeted, and until the instance is up: its
limits were read inside, and its clock is known. By hand it is the same container of the same image
on the same bridge, started as one would type it (`by_hand`), until the agent's first line. They
take turns in an order that is drawn anew, alone and several at once; the figure is the
geometric mean of the ratios with its 95 % interval. The aim is a ratio of 1.25, or 5 ms more where
that is more: which one is said.
"""

from __future__ import annotations

import asyncio
import math
import random
import statistics
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

from benchmarks.environments import by_hand
from benchmarks.figures import Figure, main
from ullage import environments
from ullage.environments.agent import client
from ullage.environments.placement import Resources
from ullage.environments.provisioning.allocate import allocate, release
from ullage.environments.provisioning.node import Site
from ullage.host import claims, disks, image, paths
from ullage.host.network.bridge import Network
from ullage.stats.interval import t_interval

KINDS: Final = ("crun", "runc", "lxc")
AT_ONCE: Final = (1, 16)
MOST_RATIO: Final = 1.25
MOST_MORE_S: Final = 0.005
MEMORY: Final = 256 << 20


@asynccontextmanager
async def node(kind: str) -> AsyncIterator[Site]:
    """A place for instances of a kind, with a network; nothing of it is left."""
    provider_class = environments.get("lxc" if kind == "lxc" else "oci")
    options = {} if kind == "lxc" else {"runtime": kind}
    provider = provider_class(provider_class.options_model.model_validate(options))
    await provider.check()
    tag = paths.new_tag()
    claims.claim(tag, "/nowhere")
    network = await Network.create(tag)
    try:
        built = await image.build(provider.packages())
        resources = Resources.model_validate({"cpus": 1, "memory": MEMORY})
        yield Site(tag, provider, resources, built, client.binary(), network)
    finally:
        await network.destroy()
        for directory in (paths.state_dir(tag), paths.data_dir(tag)):
            await asyncio.to_thread(disks.remove_tree, directory)


async def ours(place: Site, count: int, turn: int) -> tuple[float, float]:
    """Seconds until the last of so many has greeted, and until it is up."""
    began = time.perf_counter()
    names = [f"ours-{turn}-{number}" for number in range(count)]
    instances = await asyncio.gather(*(allocate(place, name) for name in names))
    up_s = time.perf_counter() - began
    begun_ns = min(one.steps["asked"] for one in instances)
    greeted_s = (max(one.steps["hello"] for one in instances) - begun_ns) / 1e9
    await asyncio.gather(*map(release, instances))
    return greeted_s, up_s


async def theirs(kind: str, place: Site, count: int, turn: int) -> float:
    """Seconds until the agent of the last has spoken."""
    specs = [place.choose(f"hand-{turn}-{number}") for number in range(count)]
    containers = [by_hand.of(kind, spec) for spec in specs]
    try:
        for container in containers:
            await container.prepare()
        began = time.perf_counter()
        starts = [asyncio.to_thread(container.until_it_speaks) for container in containers]
        await asyncio.gather(*starts)
        return time.perf_counter() - began
    finally:
        for container in containers:
            await container.remove()
            place.give_back(container.spec)


async def _rounds(kind: str, count: int, rounds: int) -> list[tuple[float, float, float]]:
    """Greeted, up and by hand, of each round but the first: it loads what all use."""
    rng = random.Random(7)
    seconds = []
    async with node(kind) as place:
        for turn in range(rounds + 1):
            if rng.random() < 0.5:
                mine = await ours(place, count, turn)
                hand = await theirs(kind, place, count, turn)
            else:
                hand = await theirs(kind, place, count, turn)
                mine = await ours(place, count, turn)
            seconds.append((*mine, hand))
    return seconds[1:]


def measure(quick: bool) -> Iterator[Figure]:
    for kind in KINDS:
        if not by_hand.available(kind):
            yield Figure(f"TaR ÷ {kind} by hand", math.nan, "×", note=f"{kind} is not installed")
            continue
        for count in AT_ONCE:
            rounds = 3 if quick else (40 if count == 1 else 12)
            yield from figures(kind, count, asyncio.run(_rounds(kind, count, rounds)))


def figures(
    kind: str, count: int, seconds: Sequence[tuple[float, float, float]]
) -> Iterator[Figure]:
    """Two rows, of an agent that has greeted and of an instance that is up."""
    name = kind if count == 1 else f"{count} × {kind} at once"
    for column, what in enumerate(("until the agent greets", "until it is up")):
        pairs = [(row[column], row[2]) for row in seconds]
        logs = [math.log(mine / hand) for mine, hand in pairs]
        interval = t_interval(logs, 0.95)
        mine, hand = (statistics.median(side) for side in zip(*pairs, strict=True))
        most = max(MOST_RATIO, 1 + MOST_MORE_S / hand)
        holds = True if interval.high <= most else False if interval.low > most else None
        yield Figure(
            f"TaR, {name}, {what}",
            interval.estimate,
            "×",
            interval.low,
            interval.high,
            peer="by hand, until it speaks",
            peer_value=1.0,
            reach=f"at most {most:.3g}" if column == 0 else "",
            holds=holds if column == 0 else None,
            note=f"medians {1e3 * mine:.1f} and {1e3 * hand:.1f} ms, {len(pairs)} pairs",
        )


if __name__ == "__main__":
    main(measure, __doc__ or "")
