"""Every parser is fuzzed, in slices, by libFuzzer under atheris; what it learns is kept."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from tests.lab.chaos.campaign import Campaign, Case, FaultFoundError
from tests.lab.chaos.fuzz.parsers import PARSERS

SLICES: Final = 4
INPUTS: Final = 250_000
"""Of a slice: a full campaign gives each parser 10⁶."""
_LONGEST: Final = (4096, 512, 512, 512)
"""Bytes of an input, of each slice: what is short is read ten times as fast."""
_SECONDS: Final = 60
"""One input that takes longer is a hang. By the clock: others may have the CPUs meanwhile."""
_MEMORY_MB: Final = 1000
_SOCKET: Final = "CHAOS_FUZZ_SOCKET"
_KEPT: Final = Path("target/chaos/corpus")
_DONE: Final = re.compile(r"Done (\d+) runs in (\d+) second")


def _cases(seed: int) -> Iterable[str]:
    """The short ones first."""
    return [f"{name}/{number}" for number in reversed(range(SLICES)) for name in PARSERS]


def play(case: Case) -> None:
    """A slice of one parser, on top of what former slices have learned."""
    name, _, number_of_slice = case.name.partition("/")
    longest = _LONGEST[int(number_of_slice)]
    corpus = (_KEPT / name).resolve()
    corpus.mkdir(parents=True, exist_ok=True)
    seeds = case.place / "seeds"
    seeds.mkdir()
    for number, seed in enumerate(PARSERS[name].seeds):
        (seeds / str(number)).write_bytes(seed[:longest])
    runs = int(os.environ.get("CHAOS_INPUTS", INPUTS))
    options = {
        "runs": runs,
        "seed": case.random.randrange(1, 2**31),
        "max_len": longest,
        "timeout": _SECONDS,
        "rss_limit_mb": _MEMORY_MB,
        "artifact_prefix": f"{case.place}/",
    }
    log = case.place / "log"
    log.touch()
    argv = [f"-{option}={value}" for option, value in options.items()]
    status = _exit_status([str(log), name, *argv, str(corpus), str(seeds)])
    messages = log.read_text(encoding="utf-8", errors="replace")
    if progress := _DONE.search(messages):
        case.counts["inputs"] += int(progress[1])
    if status != 0:
        raise FaultFoundError(_complaint(messages))


@contextlib.contextmanager
def server() -> Iterator[None]:
    """Where all that is fuzzed is instrumented once."""
    _KEPT.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="chaos-") as place,
        (_KEPT / "server.log").open("wb") as messages,
    ):
        os.environ[_SOCKET] = str(Path(place) / "socket")
        argv = [sys.executable, "-m", "tests.lab.chaos.fuzz", "--serve", os.environ[_SOCKET]]
        with subprocess.Popen(argv, stdin=subprocess.PIPE, stderr=messages) as serving:
            while not Path(os.environ[_SOCKET]).exists():
                if serving.poll() is not None:
                    raise ChildProcessError(f"{' '.join(argv)}: {messages.name}")
                time.sleep(0.1)
            yield


def _exit_status(request: list[str]) -> int:
    """The exit status of a fuzzer that the server has forked."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(os.environ[_SOCKET])
        with connection.makefile("rw", encoding="utf-8") as stream:
            stream.write(json.dumps(request) + "\n")
            stream.flush()
            return int(stream.readline())


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
    beside=server,
)
