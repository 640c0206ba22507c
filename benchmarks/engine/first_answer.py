"""From the wheel to the first answer: `pip install`, then `ullage try` of openssl's SHA-256.

Beside hyperfine, which times the same command in one environment. The packages that containers need
are there, the image is not: a new cache is used, as on the first day. The registry and pip's cache
are as they stand, and the note says how long the installation took.
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
from pathlib import Path
from typing import Final

from benchmarks.figures import Figure, main
from scripts import wheel

LIMIT_S: Final = 60.0
COMMAND: Final = ("openssl", "speed", "-mr", "-seconds", "1", "-bytes", "16384", "sha256")
METRIC: Final = r"rate:B/s:higher:\+F:\d+:sha256:([\d.]+)"
FAILED: Final = 3
"""Exit status of a run with trials that have no figures; its answer is there."""


def measure(quick: bool) -> Iterator[Figure]:
    """Install, try, and time the peer. `quick`: less of the budget."""
    with tempfile.TemporaryDirectory(prefix="ullage-bench-") as name:
        work = Path(name)
        file = wheel.make(wheel.ROOT / "ullage", work)
        installing_s = timed(sys.executable, "-m", "venv", str(work / "venv"))
        pip = (str(work / "venv/bin/pip"), "--quiet", "--disable-pip-version-check")
        installing_s += timed(*pip, "install", str(file))
        yield Figure("first answer: pip install of the wheel", installing_s, "s")
        environment = {**os.environ, "ULLAGE_CACHE_DIR": str(work / "cache")}
        within = "20s" if quick else "40s"
        ullage = (str(work / "venv/bin/ullage"), "try", "--within", within, "--metric", METRIC)
        trying_s = timed(*ullage, "--runs", str(work / "runs"), "--", *COMMAND, also=environment)
        (report,) = (work / "runs").glob("*/report.html")
        peer_s = timed("hyperfine", "--export-json", str(work / "peer.json"), " ".join(COMMAND))
        runs = len(json.loads((work / "peer.json").read_text())["results"][0]["times"])
        whole_s = installing_s + trying_s
        yield Figure(
            "first answer: pip install, ullage try",
            whole_s,
            "s",
            peer="hyperfine (is installed)",
            peer_value=peer_s,
            reach=f"at most {LIMIT_S:g} s",
            holds=whole_s <= LIMIT_S,
            note=f"`try` {trying_s:.0f} s, its image and {_compared(report)} in it; hyperfine: "
            f"{runs} runs, one environment",
        )


def timed(*argv: str, also: Mapping[str, str] | None = None) -> float:
    """Seconds until it has ended."""
    began = time.perf_counter()
    done = subprocess.run(argv, env=also, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - began
    if done.returncode not in (0, FAILED):
        raise RuntimeError(f"{' '.join(argv[:4])}: {done.stderr[-2000:]}")
    return seconds


def _compared(report: Path) -> str:
    plan = (report.parent / "plan.yaml").read_text(encoding="utf-8")
    providers = re.findall(r"provider: (\w+)", plan)
    return f"{len(providers)} environments ({', '.join(providers)})"


if __name__ == "__main__":
    main(measure, __doc__ or "")
