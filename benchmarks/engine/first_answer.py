"""From the wheel to the first answer: installed, then `ullage try` of openssl's SHA-256.

By pip and by `uv tool install`. On the host's own files, in native and a container, and once in LXC
too, from an image that is not there yet, with a new cache, as on the first day. Beside hyperfine,
which times the command in one environment. Packages are there; the registry and pip's cache are as
they stand, uv's cache is new.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.figures import Figure, main, needs
from scripts import wheel

LIMIT_S: Final = 60.0
COMMAND: Final = ("openssl", "speed", "-mr", "-seconds", "1", "-bytes", "16384", "sha256")
METRIC: Final = r"rate:B/s:higher:\+F:\d+:sha256:([\d.]+)"
FAILED: Final = 3
"""Exit status of a run with trials that have no figures; its answer is there."""


@dataclass(frozen=True)
class Installed:
    """An empty environment with the wheel."""

    by: str
    seconds: float
    program: Path


@needs("hyperfine", "openssl")
def measure(quick: bool) -> Iterator[Figure]:
    """Install by both, try in each, and time the peer. `quick`: less time for each."""
    with tempfile.TemporaryDirectory(prefix="ullage-bench-") as name:
        work = Path(name)
        file = wheel.make(wheel.ROOT / "ullage", work)
        pip, uv = by_pip(file, work), by_uv(file, work)
        for way in (pip, uv):
            yield Figure(f"first answer: {way.by} of the wheel", way.seconds, "s")
        peer_s = timed("hyperfine", "--export-json", str(work / "peer.json"), " ".join(COMMAND))
        runs = len(json.loads((work / "peer.json").read_text())["results"][0]["times"])
        tries = (
            (uv, (), "20s" if quick else "30s"),
            (pip, (), "20s" if quick else "30s"),
            (uv, ("--in", "native,container,lxc"), "60s"),
        )
        for way, where, within in tries:
            seconds, compared = _try(work, way, where, within)
            total_s = way.seconds + seconds
            yield Figure(
                f"first answer: {way.by}, {' '.join(('ullage try', *where))}",
                total_s,
                "s",
                peer="hyperfine (is installed)",
                peer_value=peer_s,
                reach=f"at most {LIMIT_S:g} s",
                holds=total_s <= LIMIT_S,
                note=f"{seconds:.0f} s of it `try`, in {compared}; hyperfine: {runs} runs in one",
            )


def by_pip(file: Path, work: Path) -> Installed:
    """Into an environment of `venv`'s, which is counted."""
    seconds = timed(sys.executable, "-m", "venv", str(work / "venv"))
    pip = (str(work / "venv/bin/pip"), "--quiet", "--disable-pip-version-check")
    return Installed(
        "pip install", seconds + timed(*pip, "install", str(file)), work / "venv/bin/ullage"
    )


def by_uv(file: Path, work: Path) -> Installed:
    """As a tool, from an empty cache: it compiles nothing, so the first start does."""
    places = {"UV_CACHE_DIR": "uv", "UV_TOOL_DIR": "tools", "UV_TOOL_BIN_DIR": "bin"}
    environment = {**os.environ, **{name: str(work / place) for name, place in places.items()}}
    uv = str(Path(sys.executable).with_name("uv"))
    install = (uv, "tool", "install", "--quiet", "--python", sys.executable, str(file))
    return Installed("uv tool install", timed(*install, also=environment), work / "bin/ullage")


def _try(work: Path, way: Installed, where: tuple[str, ...], within: str) -> tuple[float, str]:
    """Seconds that it took, and the environments that it compared."""
    runs = work / "-".join(("runs", *way.by.split(), *where))
    ullage = (str(way.program), "try", *where, "--within", within, "--metric", METRIC)
    environment = {**os.environ, "ULLAGE_CACHE_DIR": str(work / "cache")}
    seconds = timed(*ullage, "--runs", str(runs), "--", *COMMAND, also=environment)
    (report,) = runs.glob("*/report.html")
    plan = report.with_name("plan.yaml").read_text(encoding="utf-8")
    return seconds, ", ".join(re.findall(r"provider: (\w+)", plan))


def timed(*argv: str, also: Mapping[str, str] | None = None) -> float:
    """Seconds until it has ended."""
    began = time.perf_counter()
    done = subprocess.run(argv, env=also, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - began
    if done.returncode not in (0, FAILED):
        raise RuntimeError(f"{' '.join(argv[:4])}: {done.stderr[-2000:]}")
    return seconds


if __name__ == "__main__":
    main(measure, __doc__ or "")
