"""Every parser is fuzzed, in slices, by libFuzzer under atheris; what it learns is kept."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tests.lab.chaos.campaign import Campaign, Case, FaultFoundError
from tests.lab.chaos.fuzz.parsers import PARSERS

SLICES: Final = 2
INPUTS: Final = 500_000
"""Of a slice: a full campaign gives each parser 10⁶."""
_LONGEST: Final = 4096
"""Bytes of an input."""
_SECONDS: Final = 10
"""One input that takes longer is a hang."""
_MEMORY_MB: Final = 1000
_KEPT: Final = Path("target/chaos/corpus")
_DONE: Final = re.compile(r"Done (\d+) runs in (\d+) second")


def _cases(seed: int) -> Iterable[str]:
    return [f"{name}/{number}" for number in range(SLICES) for name in PARSERS]


def play(case: Case) -> None:
    """A slice of one parser, on top of what former slices have learned."""
    name, _, _ = case.name.partition("/")
    corpus = (_KEPT / name).resolve()
    corpus.mkdir(parents=True, exist_ok=True)
    seeds = case.place / "seeds"
    seeds.mkdir()
    for number, seed in enumerate(PARSERS[name].seeds):
        (seeds / str(number)).write_bytes(seed[:_LONGEST])
    runs = int(os.environ.get("CHAOS_INPUTS", INPUTS))
    options = {
        "runs": runs,
        "seed": case.random.randrange(1, 2**31),
        "max_len": _LONGEST,
        "timeout": _SECONDS,
        "rss_limit_mb": _MEMORY_MB,
        "artifact_prefix": f"{case.place}/",
    }
    argv = [sys.executable, "-m", "tests.lab.chaos.fuzz", name]
    argv += [f"-{option}={value}" for option, value in options.items()]
    done = subprocess.run(
        [*argv, str(corpus), str(seeds)],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if progress := _DONE.search(done.stderr):
        case.counts["inputs"] += int(progress[1])
    (case.place / "said").write_text(done.stderr, encoding="utf-8")
    if done.returncode != 0:
        raise FaultFoundError(_complaint(done.stderr))


def _complaint(messages: str) -> str:
    """What Python or libFuzzer says of the crash."""
    lines = [line for line in messages.splitlines() if "Error" in line or "ERROR" in line]
    return "; ".join(lines[:3])[:500] or messages[-300:]


CAMPAIGN: Final = Campaign(
    name="fuzz",
    figure="fuzz inputs per parser in Python",
    reach=f"≥ {SLICES * INPUTS:,} each, 0 crashes",
    cases=_cases,
    play=play,
)
