"""From the wheel to the first answer: `pip install`, then `ullage try` of openssl's SHA-256.

Once on the host's own files, in native and a container, and once from an image that is not there
yet, in LXC too, with a new cache, as on the first day. Beside hyperfine, which times the command in
one environment. Packages are there; the registry and pip's cache are as they stand.
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
    """Install, try twice, and time the peer. `quick`: less time for each."""
    with tempfile.TemporaryDirectory(prefix="ullage-bench-") as name:
        work = Path(name)
        file = wheel.make(wheel.ROOT / "ullage", work)
        installing_s = timed(sys.executable, "-m", "venv", str(work / "venv"))
        pip = (str(work / "venv/bin/pip"), "--quiet", "--disable-pip-version-check")
        installing_s += timed(*pip, "install", str(file))
        yield Figure("first answer: pip install of the wheel", installing_s, "s")
        peer_s = timed("hyperfine", "--export-json", str(work / "peer.json"), " ".join(COMMAND))
        runs = len(json.loads((work / "peer.json").read_text())["results"][0]["times"])
        for way in (("--image", "host"), ()):
            seconds, compared = _try(work, way, "20s" if quick else "30s")
            words = " ".join(("ullage try", *way))
            yield Figure(
                f"first answer: pip install, {words}",
                installing_s + seconds,
                "s",
                peer="hyperfine (is installed)",
                peer_value=peer_s,
                reach=f"at most {LIMIT_S:g} s",
                holds=installing_s + seconds <= LIMIT_S,
                note=f"{seconds:.0f} s of it `try`, in {compared}; hyperfine: {runs} runs in one",
            )


def _try(work: Path, way: tuple[str, ...], within: str) -> tuple[float, str]:
    """Seconds that it took, and the environments that it compared."""
    runs = work / ("runs" + "-".join(way))
    ullage = (str(work / "venv/bin/ullage"), "try", *way, "--within", within, "--metric", METRIC)
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
