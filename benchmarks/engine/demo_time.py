"""How long `make demo` takes after set-up, part by part; the aim is five minutes.

And its page: CPU time of `ullage report` on the folder, beside `ullage list` of nothing, which
is Python and the imports of any command; and how large it is.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.figures import Figure, main, median_interval

LIMIT_S = 300.0
PAGE_S, PAGE_BYTES = 1.5, 400_000
TIMES = 7
DEMO = Path(__file__).parents[2] / "demo.yaml"


def measure(quick: bool) -> list[Figure]:
    """Run the demo once (`quick`: two blocks of it)."""
    with tempfile.TemporaryDirectory(prefix="ullage-bench-") as work:
        plan = Path(work) / "demo.yaml"
        text = DEMO.read_text()
        plan.write_text(text.replace("min: 6, max: 40", "min: 2, max: 2") if quick else text)
        began = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", "ullage", "run", str(plan), "--runs", f"{work}/runs"],
            capture_output=True,
            check=False,
        )
        whole = time.perf_counter() - began
        if done.returncode not in (0, 3):
            raise RuntimeError(done.stderr.decode()[-2000:])
        folder = max(Path(work, "runs").iterdir())
        events = [json.loads(line) for line in (folder / "journal.jsonl").read_text().splitlines()]
        page = _page(folder)
    blocks = [event for event in events if event["event"] == "block"]
    started = next(event for event in events if event["event"] == "started")
    finished = next(event for event in events if event["event"] == "finished")
    in_blocks = sum(event["seconds"] for event in blocks)
    up = (blocks[0]["epoch_ns"] - started["epoch_ns"]) / 1e9 - blocks[0]["seconds"]
    down = finished["seconds"] - up - in_blocks
    return [
        Figure("demo: starting the environments", up, "s"),
        Figure(f"demo: {len(blocks)} blocks", in_blocks, "s"),
        Figure("demo: removing the environments", down, "s"),
        Figure("demo: analysis, tables and report", whole - finished["seconds"], "s"),
        Figure("demo: all of it", whole, "s", reach="at most 300 s", holds=whole <= LIMIT_S),
        *page,
    ]


def _page(folder: Path) -> list[Figure]:
    """Median of a few, in turn with a command that reads nothing."""
    report, empty = [], []
    with tempfile.TemporaryDirectory(prefix="ullage-bench-") as nothing:
        for _ in range(TIMES):
            report.append(_cpu_s("report", str(folder)))
            empty.append(_cpu_s("list", "--runs", nothing))
    middle = median_interval(report)
    size = (folder / "report.html").stat().st_size
    return [
        Figure(
            "demo: its page, CPU time of `ullage report`",
            middle.estimate,
            "s",
            middle.low,
            middle.high,
            "ullage list of nothing",
            median_interval(empty).estimate,
            f"at most {PAGE_S} s",
            None if middle.high is None else middle.high <= PAGE_S,
        ),
        Figure(
            "demo: size of its page",
            size,
            "B",
            reach=f"at most {PAGE_BYTES} B",
            holds=size <= PAGE_BYTES,
        ),
    ]


def _cpu_s(*words: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    argv = [sys.executable, "-m", "ullage", *words]
    subprocess.run(argv, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main(measure, __doc__ or "")
