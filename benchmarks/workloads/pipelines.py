"""dedup beside `zstd -T0`, `borg` and `restic`; dedup and ferret against their number of threads.

Throughput: dedup on all CPUs and `zstd -T0` at the same level on the same generated file, for
0, 30 and 70 % duplicates. Both read it from the page cache and write a file beside it; which
goes first is drawn at random. The figure is the geometric mean of the paired ratios of elapsed
time (zstd ÷ dedup: above 1, dedup is faster) with its 95 % interval; the aim holds when all of
it is above 1, and does not when all of it is below. A tar of this machine's own Python and Perl
libraries stands beside them. dedup's time is its own clock's, from the
first read to the last write; zstd's is the process's, less that of one which compresses
nothing. A second row has the ratio of the CPU times, which a busy machine disturbs less: there
dedup's many threads get more of it than zstd's few.

Size: bytes of output for a byte of input, beside what borg 1.2 (Buzhash, by default 2 MiB a
chunk, and with small chunks) and restic 0.14 (Rabin's fingerprint, 1 MiB a chunk, zstd at its
own default) store.

Threads: time with 1, 2 and 4 threads in each middle stage, interleaved; the peer is one thread.
"""

from __future__ import annotations

import json
import math
import os
import random
import resource
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from benchmarks.figures import Figure, main, needs
from ullage.host import binaries
from ullage.stats.interval import t_interval

LEVEL: Final = 3
DUPLICATES: Final = (0.0, 0.3, 0.7)
THREADS: Final = (1, 2, 4)
REAL: Final = ("/usr/lib/python3", "/usr/share/perl", "/usr/lib/x86_64-linux-gnu/perl")
SMALL_CHUNKS: Final = "buzhash,10,16,12,4095"
"""borg: chunks of 1 to 64 KiB, 4 KiB on average, a window of 4,095 bytes."""


@dataclass(frozen=True)
class RunTimes:
    seconds: float
    cpu_s: float


def _program(*argv: str) -> dict[str, Any]:
    command = [str(binaries.program("ullage-pipelines")), *argv]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def _times(result: dict[str, Any]) -> RunTimes:
    return RunTimes(result["seconds"], result["cpu"]["user_s"] + result["cpu"]["system_s"])


def _quiet(argv: Sequence[str], env: dict[str, str] | None = None) -> str:
    everything = {**os.environ, **(env or {})}
    return subprocess.run(argv, capture_output=True, text=True, check=True, env=everything).stdout


def _zstd(source: Path) -> RunTimes:
    def children() -> float:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    cpu, began = children(), time.monotonic()
    _quiet(["zstd", "-T0", f"-{LEVEL}", "-q", "-f", str(source), "-o", f"{source}.zst"])
    return RunTimes(time.monotonic() - began, children() - cpu)


def _dedup(source: Path) -> RunTimes:
    options = (f"--input={source}", f"--output={source}.dedup", f"--level={LEVEL}")
    return _times(_program("dedup", *options))


def _pairs(
    ours_run: Callable[[], RunTimes], peer: Callable[[], RunTimes], pairs: int
) -> tuple[list[float], list[float]]:
    """Logarithms of peer ÷ ours, of elapsed and of CPU time."""
    rng = random.Random(7)
    elapsed: list[float] = []
    cpu: list[float] = []
    for _ in range(pairs):
        took: dict[bool, RunTimes] = {}
        first = rng.random() < 0.5
        for own in (first, not first):
            took[own] = ours_run() if own else peer()
        elapsed.append(math.log(took[False].seconds / took[True].seconds))
        cpu.append(math.log(took[False].cpu_s / took[True].cpu_s))
    return elapsed, cpu


def _ratio(name: str, logs: Sequence[float], peer: str, note: str = "") -> Figure:
    interval = t_interval(logs, 0.95)
    return Figure(
        name,
        interval.estimate,
        "×",
        interval.low,
        interval.high,
        peer=peer,
        peer_value=1.0,
        reach="at least 1",
        holds=True if interval.low >= 1 else False if interval.high < 1 else None,
        note=note,
    )


def _corpus(directory: Path, duplicates: float, size: int) -> Path:
    path = directory / f"corpus-{duplicates:g}"
    _program("dedup-corpus", f"--output={path}", f"--size={size}", f"--duplicates={duplicates}")
    return path


def _real(directory: Path) -> Path:
    """Files of this machine, as they are: scripts, documentation and libraries."""
    path = directory / "real"
    _quiet(["tar", "-C", "/", "-cf", str(path), *(tree.strip("/") for tree in REAL)])
    return path


def _beside_zstd(source: Path, input_name: str, pairs: int) -> list[Figure]:
    nothing = source.with_name("nothing")
    nothing.write_bytes(b"")
    start = min((_zstd(nothing) for _ in range(5)), key=lambda took: took.seconds)

    def zstd() -> RunTimes:
        took = _zstd(source)
        return RunTimes(took.seconds - start.seconds, took.cpu_s - start.cpu_s)

    elapsed, cpu = _pairs(lambda: _dedup(source), zstd, pairs)
    name, peer = f"dedup, {input_name}", f"zstd -T0 -{LEVEL}"
    return [
        _ratio(f"{name}: speed", elapsed, peer, f"{pairs} pairs, {os.cpu_count()} CPUs"),
        _ratio(f"{name}: per CPU second", cpu, peer),
    ]


def _borg(source: Path, options: Sequence[str] = ()) -> int:
    with TemporaryDirectory(dir=source.parent) as home:
        env = {"BORG_BASE_DIR": home, "BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK": "yes"}
        _quiet(["borg", "init", "-e", "none", f"{home}/repository"], env)
        create = ["borg", "create", "--json", "-C", f"zstd,{LEVEL}", *options]
        text = _quiet([*create, f"{home}/repository::one", str(source)], env)
        return int(json.loads(text)["archive"]["stats"]["deduplicated_size"])


def _restic(source: Path) -> int:
    with TemporaryDirectory(dir=source.parent) as home:
        env = {"RESTIC_PASSWORD": "benchmark", "RESTIC_CACHE_DIR": f"{home}/cache"}
        restic = ["restic", "-q", "-r", f"{home}/repository"]
        _quiet([*restic, "init", "--repository-version", "2"], env)
        _quiet([*restic, "backup", str(source)], env)
        packs = Path(home, "repository", "data").rglob("*")
        return sum(path.stat().st_size for path in packs if path.is_file())


def _sizes(source: Path, input_name: str) -> list[Figure]:
    size = source.stat().st_size
    dedup = Path(f"{source}.dedup").stat().st_size / size
    peers = {f"zstd -{LEVEL}": Path(f"{source}.zst").stat().st_size}
    if shutil.which("borg"):
        peers[f"borg zstd,{LEVEL}"] = _borg(source)
        peers["borg, small chunks"] = _borg(source, ["--chunker-params", SMALL_CHUNKS])
    if shutil.which("restic"):
        peers["restic"] = _restic(source)
    name = f"dedup, {input_name}: output ÷ input"
    missing = ", ".join(peer for peer in ("borg", "restic") if shutil.which(peer) is None)
    note = f"not installed: {missing}" if missing else ""
    return [
        Figure(name, dedup, "", peer=peer, peer_value=stored / size, note=note)
        for peer, stored in peers.items()
    ]


def _scaling(name: str, run: Callable[[int], RunTimes], rounds: int) -> list[Figure]:
    """Time with one thread ÷ with n, in each round, in random order."""
    rng = random.Random(7)
    logs: dict[int, list[float]] = {n: [] for n in THREADS[1:]}
    for _ in range(rounds):
        took = {n: run(n).seconds for n in rng.sample(THREADS, len(THREADS))}
        for n, ratios in logs.items():
            ratios.append(math.log(took[1] / took[n]))
    figures = []
    for n, ratios in logs.items():
        interval = t_interval(ratios, 0.95)
        label = f"{name}: {n} threads as fast as 1"
        figures.append(
            Figure(
                label, interval.estimate, "×", interval.low, interval.high, note=f"{rounds} rounds"
            )
        )
    return figures


@needs("zstd")
def measure(quick: bool) -> Iterator[Figure]:
    size, pairs = (64 << 20, 5) if quick else (256 << 20, 20)
    with TemporaryDirectory(dir="/var/tmp") as path:
        directory = Path(path)
        sources = {
            f"{100 * share:g} % duplicates": _corpus(directory, share, size) for share in DUPLICATES
        }
        for input_name, source in {**sources, "a real tar": _real(directory)}.items():
            yield from _beside_zstd(source, input_name, pairs)
            yield from _sizes(source, input_name)
        source = sources[f"{100 * DUPLICATES[1]:g} % duplicates"]
        memory = ("--source=memory",)
        yield from _scaling(
            "dedup",
            lambda n: _times(_program("dedup", f"--input={source}", f"--threads={n}", *memory)),
            pairs,
        )
        images, reference = f"--corpus={directory}/images", f"{directory}/known"
        queries = "--queries=256" if quick else "--queries=1024"
        _program("ferret-corpus", f"--output={directory}/images", queries)
        _program("ferret-reference", images, f"--output={reference}")
        searching = ("ferret", images, f"--reference={reference}", *memory)
        yield from _scaling(
            "ferret", lambda n: _times(_program(*searching, f"--threads={n}")), pairs
        )


if __name__ == "__main__":
    main(measure, __doc__ or "")
