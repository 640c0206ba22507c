"""Size and memory of the agent: one static binary, and all of its processes while it serves."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

from benchmarks.figures import Figure, main
from ullage.environments.agent.client import AgentClient, Command, binary

SIZE_LIMIT = 4_000_000
MEMORY_LIMIT = 8_000_000


def measure(quick: bool) -> list[Figure]:
    """Look at the binary, and at the agent after it has passed on some output."""
    agent = binary()
    interpreter = subprocess.run(
        ["readelf", "-l", str(agent)], capture_output=True, text=True, check=True
    ).stdout
    size, memory = agent.stat().st_size, asyncio.run(_memory(agent, 1 if quick else 64))
    return [
        Figure(
            "agent binary", size, "B", reach=f"at most {SIZE_LIMIT} B", holds=size <= SIZE_LIMIT
        ),
        Figure(
            "agent memory (resident, all its processes)",
            memory,
            "B",
            reach=f"at most {MEMORY_LIMIT} B",
            holds=memory <= MEMORY_LIMIT,
        ),
        Figure(
            "dynamic interpreters",
            interpreter.count("INTERP"),
            "",
            reach="none",
            holds="INTERP" not in interpreter,
        ),
    ]


async def _memory(agent: Path, mebibytes: int) -> int:
    client = await AgentClient.launch([str(agent), "serve"])
    try:
        argv = ("head", "-c", str(mebibytes << 20), "/dev/zero")
        await client.run(Command(argv=argv), keep_bytes=0)
        return await asyncio.to_thread(_of_all, agent, int(client.facts["pid"]))
    finally:
        await client.bye()
        await client.close()


def _of_all(agent: Path, worker: int) -> int:
    """The worker and, when its parent is the supervisor, that one too."""
    parent = int(Path(f"/proc/{worker}/stat").read_text().rpartition(")")[2].split()[1])
    pids = [worker]
    if Path(f"/proc/{parent}/exe").resolve() == agent.resolve():
        pids.append(parent)
    return sum(_resident(pid) for pid in pids)


def _resident(pid: int) -> int:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Rss:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("no Rss in smaps_rollup")


if __name__ == "__main__":
    main(measure, __doc__ or "")
