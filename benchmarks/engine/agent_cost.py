"""What the agent adds to a workload: the same command with and without it, in turn.

Both run on the same CPU; which one goes first is drawn at random. The figure is the geometric mean
of the paired ratios of sysbench's and iperf3's own results (without / with, so above 1 is a cost),
with its 90 % interval: inside 0.98 to 1.02 the two are equivalent. Pairs are added until half
the interval's width is 1 %, wherever it lies, or the limit of pairs is reached; it is widened for
the repeated looks. Stopping as soon as it lies inside would call too much equivalent.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import random
import re
import subprocess
from collections.abc import Awaitable, Callable, Iterator

from benchmarks.figures import Figure, main, needs
from ullage.environments.agent.client import AgentClient, Command, binary
from ullage.stats.interval import t_interval
from ullage.stats.stop import widening

MARGIN = 0.02
CONFIDENCE = 0.90
FIRST_LOOK = 20
HALF_WIDTH = 0.01

Runner = Callable[[tuple[str, ...]], Awaitable[str]]

SYSBENCH = ("sysbench", "cpu", "--time=0", "--events=600", "--cpu-max-prime=10000", "run")
IPERF = ("iperf3", "-c", "127.0.0.1", "-p", "15201", "-n", "300M", "-J")
SURROUNDINGS = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "LANG": "C.UTF-8",
}


def sysbench_rate(text: str) -> float:
    match = re.search(r"events per second:\s+([0-9.]+)", text)
    if not match:
        raise ValueError(f"not sysbench output: {text[:200]}")
    return float(match[1])


def iperf_rate(text: str) -> float:
    return float(json.loads(text)["end"]["sum_received"]["bits_per_second"])


async def bare(argv: tuple[str, ...]) -> str:
    """Run it as a plain child on the last CPU, in the surroundings that an agent gives."""
    process = await asyncio.create_subprocess_exec(
        *("taskset", "-c", _cpu(), *argv),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=SURROUNDINGS,
        start_new_session=True,
    )
    out, _ = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"{argv[0]} ended with {process.returncode}")
    return out.decode()


async def pairs(argv: tuple[str, ...], rate: Callable[[str], float], most: int) -> Figure:
    """Add pairs until the interval is narrow, then see whether it lies inside the margin."""
    client = await AgentClient.launch([str(binary()), "serve"])

    async def through_agent(command: tuple[str, ...]) -> str:
        done, out, err = await client.run(Command(argv=("taskset", "-c", _cpu(), *command)))
        if done.status:
            raise RuntimeError(f"{command[0]} ended with {done.status}: {err.decode()[:200]}")
        return out.decode()

    ratios: list[float] = []
    rng = random.Random(7)
    try:
        while True:
            first = rng.random() < 0.5
            rates = {}
            for with_agent in (first, not first):
                runner: Runner = through_agent if with_agent else bare
                rates[with_agent] = rate(await runner(argv))
            ratios.append(math.log(rates[False] / rates[True]))
            if len(ratios) < FIRST_LOOK:
                continue
            interval = t_interval(ratios, CONFIDENCE, widening(FIRST_LOOK))
            if (interval.high - interval.low) / 2 <= HALF_WIDTH or len(ratios) >= most:
                break
    finally:
        await client.bye()
        await client.close()
    return Figure(
        f"without / with the agent, {argv[0]}",
        interval.estimate,
        "×",
        interval.low,
        interval.high,
        peer="without",
        peer_value=1.0,
        reach="90 % interval inside 0.98 to 1.02",
        holds=interval.low > 1 - MARGIN and interval.high < 1 + MARGIN,
        note=f"{len(ratios)} pairs",
    )


async def _beside_a_server(most: int) -> Figure:
    server = await asyncio.create_subprocess_exec(
        "taskset", "-c", str(min(os.sched_getaffinity(0))), "iperf3", "-s", "-p", "15201",
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        await asyncio.sleep(0.5)
        return await pairs(IPERF, iperf_rate, most)
    finally:
        server.kill()
        await server.wait()


def _cpu() -> str:
    return str(max(os.sched_getaffinity(0)))


@needs("sysbench", "iperf3")
def measure(quick: bool) -> Iterator[Figure]:
    most = 30 if quick else 3000
    yield asyncio.run(pairs(SYSBENCH, sysbench_rate, most))
    yield asyncio.run(_beside_a_server(most))


if __name__ == "__main__":
    main(measure, __doc__ or "")
