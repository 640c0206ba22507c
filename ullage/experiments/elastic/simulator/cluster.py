"""A sweep on a cluster: on the workers of somebody's Dask scheduler, or in jobs of Slurm.

`slurm:4` has four jobs of one CPU submitted by dask-jobqueue, which the user's own configuration of
that (`~/.config/dask/jobqueue.yaml`: partition, account, time limit) applies to. Their scheduler is
this process; who may speak to it shows a certificate of this one sweep.
"""

from __future__ import annotations

import asyncio
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ullage.common.commands import needed
from ullage.common.errors import SIMULATION_NO_CLUSTER, UllageError
from ullage.common.packages import need_library
from ullage.common.text import printable

if TYPE_CHECKING:
    from distributed import Client

ANSWER_S = 30.0
"""Until a scheduler answers, and until it has a worker (again)."""
QUEUE_S = 600.0
"""Until the first of the jobs has begun."""
MOST_JOBS: Final = 1000
_LOOK_S: Final = 0.1
_LOOKS: Final = 10
"""Times that a scheduler without a result is asked for its workers before it is given up."""
_SLURM: Final = re.compile(r"slurm:(\d{1,4})")
_SIZE: Final = {"cores": 1, "memory": "1GiB"}
"""Of a job, where the user's configuration says nothing."""

T = TypeVar("T")


def need_libraries(address: str) -> None:
    """HOST_MISSING."""
    jobs = ("dask_jobqueue", "cryptography") if _SLURM.fullmatch(address) else ()
    need_library("distributed", *jobs)


def on_cluster(
    address: str, work: Callable[[str], T], texts: Sequence[str], tell: Callable[[int, int], None]
) -> list[T]:
    """Do it on workers that have ullage. SIMULATION_NO_CLUSTER, HOST_MISSING."""
    try:
        with _client(address) as client:
            return _done(client, client.map(work, texts, pure=False), tell)
    except (OSError, TimeoutError, ImportError, ValueError) as error:
        reason = " ".join(str(error).split()) or "it does not answer, or has no worker"
        raise UllageError(SIMULATION_NO_CLUSTER, address=address or "''", reason=reason) from error


def _done(client: Client, futures: Sequence[Any], tell: Callable[[int, int], None]) -> list[Any]:
    """All results. TimeoutError once there has been no worker for a while: nobody would end it.
    ConnectionError when they cannot be had any more."""
    from distributed import KilledWorker, as_completed  # noqa: PLC0415 - half a second

    ended, number = as_completed(futures), 0
    seen = looked = time.monotonic()
    while number < len(futures):
        now = time.monotonic()
        if batch := list(ended.next_batch(block=False)):
            number += len(batch)
            tell(number, len(futures))
            seen = looked = now
        elif now - looked >= ANSWER_S / _LOOKS:
            looked = now
            if client.scheduler_info(n_workers=1)["workers"]:
                seen = now
            elif now - seen > ANSWER_S:
                raise TimeoutError("its workers are gone, and no other has come")
        else:
            time.sleep(_LOOK_S)
    try:
        return list(client.gather(futures))
    except CancelledError as error:
        raise ConnectionError("its scheduler is gone, and the results with it") from error
    except KilledWorker as error:
        raise ConnectionError("one simulation after the other had its worker killed") from error


@contextmanager
def _client(address: str) -> Iterator[Client]:
    from distributed import Client  # noqa: PLC0415 - half a second

    with ExitStack() as stack:
        if jobs := _SLURM.fullmatch(address):
            source, limit_s = stack.enter_context(_slurm(int(jobs[1]))), QUEUE_S
        else:
            asyncio.run(_reach(address))
            source, limit_s = address, ANSWER_S
        client = Client(source, timeout=ANSWER_S, set_as_default=False)
        stack.enter_context(client)
        stack.enter_context(client.as_current())
        client.wait_for_workers(1, timeout=limit_s)
        yield client


@contextmanager
def _slurm(number: int) -> Iterator[Any]:
    """A scheduler here, and so many jobs. ValueError with sbatch's own words, TimeoutError."""
    import dask  # noqa: PLC0415
    from dask_jobqueue.slurm import SLURMCluster  # noqa: PLC0415

    if not 1 <= number <= MOST_JOBS:
        raise ValueError(f"{number} jobs; it takes 1 to {MOST_JOBS}")
    sbatch = needed("sbatch", "slurm-client")
    own = dask.config.get("jobqueue.slurm")
    _check_names(Path.cwd(), *(() if own.get("python") else (Path(sys.executable),)))
    # Below the working directory, which a cluster's machines share: certificates and words of jobs.
    with tempfile.TemporaryDirectory(prefix=".ullage-dask-", dir=Path.cwd()) as shared:
        place = Path(shared)
        settings: dict[str, Any] = {
            **{name: size for name, size in _SIZE.items() if own.get(name) is None},
            "security": _certified(place),
            "log_directory": str(place / "logs"),
            "scheduler_options": {**(own.get("scheduler-options") or {}), **_DASHBOARD},
        }
        with SLURMCluster(**settings) as cluster:
            _check(sbatch, place / "job", cluster.job_script())
            cluster.scale(jobs=number)
            try:
                yield cluster
            except TimeoutError as error:
                raise TimeoutError(f"{error or 'no job has begun'}{_words(place)}") from error


def _certified(place: Path) -> Any:
    """A key and a certificate of this sweep, in files: dask-jobqueue's own outlive their folder."""
    from distributed.security import Security  # noqa: PLC0415

    drawn, files = Security.temporary(), {}
    for name, content in (("ca_file", drawn.tls_ca_file), ("key", drawn.tls_worker_key)):
        files[name] = place / name
        files[name].write_text(content, encoding="ascii")
        files[name].chmod(0o600)
    pairs = {
        f"tls_{who}_{what}": str(files[name])
        for who in ("client", "scheduler", "worker")
        for what, name in (("cert", "ca_file"), ("key", "key"))
    }
    return Security(require_encryption=True, tls_ca_file=str(files["ca_file"]), **pairs)


_DASHBOARD: Final = {"dashboard_address": "127.0.0.1:0"}
"""Its web pages have no key: nobody elsewhere sees them."""


def _check_names(*paths: Path) -> None:
    """ValueError for one that a shell, or Slurm's names of files, would read as something else:
    dask-jobqueue writes them into a job's script as they are."""
    for name in map(str, paths):
        if shlex.quote(name) != name or "%" in name:
            reason = "has signs that a job's script cannot have"
            raise ValueError(f"{printable(name, 200)} {reason}")


def _check(sbatch: str, file: Path, script: str) -> None:
    """Would Slurm take such a job? ValueError says why not, TimeoutError that it does not say."""
    file.write_text(script, encoding="utf-8")
    try:
        done = subprocess.run(
            [sbatch, "--test-only", str(file)],
            check=False,
            capture_output=True,
            text=True,
            timeout=ANSWER_S,
        )
    except subprocess.TimeoutExpired as error:
        raise TimeoutError("sbatch does not answer") from error
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["sbatch says nothing"]
        raise ValueError(printable(lines[-1], 300))


def _words(place: Path) -> str:
    """The last line that a job has left, for a message."""
    lines = [
        line
        for log in sorted(place.glob("logs/*"))
        for line in log.read_text("utf-8", errors="replace").splitlines()[-1:]
    ]
    return f"; a job says: {printable(lines[-1], 300)}" if lines else ""


async def _reach(address: str) -> None:
    """OSError or ValueError unless a scheduler answers there.

    A client that has not found one tries on in a thread of its own, and cannot be closed.
    """
    from distributed.comm.addressing import parse_address, parse_host_port  # noqa: PLC0415
    from distributed.core import rpc  # noqa: PLC0415

    _, place = parse_address(address)
    host, port = parse_host_port(place)
    await asyncio.get_running_loop().getaddrinfo(host or None, port)
    async with rpc(address, timeout=ANSWER_S) as scheduler:
        await scheduler.identity()
