"""ElasticMovie in SimPy, as one would write it: the peer of the simulator.

The model of `Spec` with a fixed allocation and release and `elastic-movie`: the fullest node that
has room, as many allocations as those who wait will fill, a node whose last viewer leaves is
released. Nodes are found by how full they are, not by a search through all of them.

`python -m benchmarks.elastic.simpy_model SPEC.json` prints what it counted, and the CPU time that
the run took.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections import deque
from collections.abc import Generator
from pathlib import Path
from typing import Any

import simpy


class Application:
    def __init__(self, spec: dict[str, Any]) -> None:
        self.env = simpy.Environment()
        self.room: int = spec["application"]["room"]
        self.sessions: int = spec["sessions"]
        self.rate: float = spec["arrivals"]["rate_hz"]
        self.watch: dict[str, Any] = spec["watch"]
        self.patience: float = spec["patience"]["s"]
        self.allocation: float = spec["allocation"]["rows"][0]["stages"][0]["time"]["s"]
        self.release: float = spec["release"]["s"]
        self.rng = random.Random(spec["seed"])
        self.by_viewers: list[dict[int, None]] = [{} for _ in range(self.room + 1)]
        self.viewers: dict[int, int] = {}
        self.fullest = 0
        self.waiting: deque[simpy.Event] = deque()
        self.coming = 0
        self.counts = {"requests": 0, "at_once": 0, "waited": 0, "blocked": 0, "nodes": 0}

    def arrivals(self) -> Generator[simpy.Event, None, None]:
        for _ in range(self.sessions):
            yield self.env.timeout(self.rng.expovariate(self.rate))
            self.env.process(self.viewer())

    def viewer(self) -> Generator[simpy.Event, Any, None]:
        """Asks, waits, watches, and tells when it has finished."""
        self.counts["requests"] += 1
        node = self.with_room()
        if node is not None:
            self.counts["at_once"] += 1
            self.move(node, 1)
        else:
            served = self.env.event()
            self.waiting.append(served)
            self.allocate()
            yield served | self.env.timeout(self.patience)
            if not served.triggered:
                self.waiting.remove(served)
                self.counts["blocked"] += 1
                return
            self.counts["waited"] += 1
            assert isinstance(served.value, int)
            node = served.value
        mean = self.watch.get("mean_s")
        yield self.env.timeout(self.rng.expovariate(1 / mean) if mean else self.watch["s"])
        self.leave(node)

    def with_room(self) -> int | None:
        """The fullest node with room; of several, the last that became so full."""
        while self.fullest > 0 and not self.by_viewers[self.fullest]:
            self.fullest -= 1
        return next(reversed(self.by_viewers[self.fullest]), None)

    def move(self, node: int, change: int) -> None:
        """One viewer more or less on a node."""
        before = self.viewers[node]
        self.viewers[node] = now = before + change
        del self.by_viewers[before][node]
        self.by_viewers[now][node] = None
        if now < self.room:
            self.fullest = max(self.fullest, now)

    def leave(self, node: int) -> None:
        """A viewer leaves its node; the next one may come."""
        self.move(node, -1)
        self.serve()
        if self.viewers[node] == 0:
            del self.by_viewers[0][node]
            del self.viewers[node]
            self.env.process(self.going())

    def serve(self) -> None:
        """Those who wait, as far as there is room."""
        while self.waiting:
            node = self.with_room()
            if node is None:
                self.allocate()
                return
            self.move(node, 1)
            self.waiting.popleft().succeed(node)

    def allocate(self) -> None:
        """As many nodes as those who wait will fill."""
        while self.coming * self.room < len(self.waiting):
            self.coming += 1
            self.env.process(self.come())

    def come(self) -> Generator[simpy.Event, None, None]:
        """A node is allocated."""
        yield self.env.timeout(self.allocation)
        self.coming -= 1
        node = self.counts["nodes"]
        self.counts["nodes"] += 1
        self.viewers[node] = 0
        self.by_viewers[0][node] = None
        self.serve()

    def going(self) -> Generator[simpy.Event, None, None]:
        """A node is released."""
        yield self.env.timeout(self.release)


def simulate(spec: dict[str, Any]) -> dict[str, int]:
    """Run it to its end; what was counted."""
    application = Application(spec)
    application.env.process(application.arrivals())
    application.env.run()
    return application.counts


def main() -> None:
    spec = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    begin = time.process_time()
    counts = simulate(spec)
    json.dump({"cpu_s": time.process_time() - begin, "viewers": counts}, sys.stdout)


if __name__ == "__main__":
    main()
