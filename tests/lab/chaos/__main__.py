"""`python -m tests.lab.chaos`: attack, slice by slice, and print the table."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

CHECKOUT: Final = Path(__file__).resolve().parents[3]
BUILT: Final = CHECKOUT / "target" / "chaos"
_LOST_S: Final = 1800.0
"""A case that has not ended by itself after so long is a fault."""


def preload() -> None:
    """Be started anew with faults.c in this process; nothing that we execute gets it."""
    library = BUILT / "faults.so"
    source = Path(__file__).with_name("faults.c")
    if not library.exists() or library.stat().st_mtime < source.stat().st_mtime:
        BUILT.mkdir(parents=True, exist_ok=True)
        argv = ["gcc", "-shared", "-fPIC", "-O2", "-o", str(library), str(source)]
        subprocess.run(argv, check=True)
    if os.environ.pop("LD_PRELOAD", None) != str(library):
        # One thread: this process forks.
        env = {**os.environ, "LD_PRELOAD": str(library), "OPENBLAS_NUM_THREADS": "1"}
        os.execve(sys.executable, [sys.executable, "-m", "tests.lab.chaos", *sys.argv[1:]], env)


if __name__ == "__main__":
    preload()

from tests.lab.chaos.campaign import Campaign, Case  # noqa: E402
from tests.lab.chaos.campaigns import CAMPAIGNS  # noqa: E402
from tests.lab.chaos.controller import stretched_s, warm_up  # noqa: E402
from tests.lab.chaos.ledger import Ledger, Played, table  # noqa: E402
from tests.lab.chaos.subjects import abandon  # noqa: E402


def attacked_commit() -> str:
    """What is attacked; a plus: with changes that are in no commit. `unknown`: no git tells."""
    argv = ["git", "describe", "--always", "--abbrev=8", "--dirty=+", "--exclude=*"]
    described = subprocess.run(argv, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    return described.stdout.strip() or "unknown"


@dataclass(frozen=True)
class Worker:
    """A process that plays a case and writes how it went into the ledger."""

    campaign: Campaign
    case: Case
    started_s: float


class Slice:
    """Cases of some campaigns, several at a time, until they or the time are at an end."""

    def __init__(self, ledger: Ledger, seed: int, jobs: int) -> None:
        self.ledger = ledger
        self.seed = seed
        self.jobs = jobs
        self.faults = 0
        self._workers: dict[int, Worker] = {}
        self._commit = attacked_commit()

    def play(self, cases: Iterator[tuple[Campaign, str]], until_s: float) -> None:
        """Play them all; none begins after the time."""
        for campaign, name in cases:
            while len(self._workers) >= self.jobs:
                self._collect()
            if time.monotonic() > until_s:
                break
            self._begin(campaign, name)
        while self._workers:
            self._collect()

    def _begin(self, campaign: Campaign, name: str) -> None:
        place = Path(tempfile.mkdtemp(prefix="chaos-"))
        case = Case(name, self.seed, campaign.name, place)
        worker = Worker(campaign, case, time.monotonic())
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            os._exit(self._played(worker))
        self._workers[pid] = worker

    def _played(self, worker: Worker) -> int:
        case, fault = worker.case, None
        try:
            worker.campaign.play(case)
        except BaseException as error:
            fault = f"{type(error).__name__}: {error}"[:600]
            (case.place / "fault").write_text(traceback.format_exc(), encoding="utf-8")
            abandon(case.place)
        self._write(worker, fault)
        return 0 if fault is None else 1

    def _write(self, worker: Worker, fault: str | None) -> None:
        seconds = round(time.monotonic() - worker.started_s, 3)
        case = worker.case
        self.ledger.add(
            Played(case.campaign, case.name, dict(case.counts), seconds, fault, self._commit)
        )

    def _collect(self) -> None:
        """Take the next that has ended; one that hangs is ended."""
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            time.sleep(0.02)
            for pid, worker in self._workers.items():
                if time.monotonic() - worker.started_s > stretched_s(_LOST_S):
                    os.kill(pid, signal.SIGKILL)
            return
        worker = self._workers.pop(pid)
        code = os.waitstatus_to_exitcode(status)
        if code < 0 or code > 1:
            self._write(worker, f"the case itself died: {code}")
        if code == 0:
            shutil.rmtree(worker.case.place, ignore_errors=True)
        else:
            self.faults += 1
            self._say_fault(worker)

    def _say_fault(self, worker: Worker) -> None:
        case = worker.case
        fault = self.ledger.of(case.campaign)[case.name].fault
        print(
            f"FAULT {case.campaign} {case.name}: {fault}\n"
            f"  repeat: {sys.executable} -m tests.lab.chaos --seed {case.seed}"
            f" --only {case.campaign} --case {case.name}\n  kept: {case.place}",
            flush=True,
        )


def _turns(
    campaigns: list[Campaign], ledger: Ledger, seed: int, share: float
) -> Iterator[tuple[Campaign, str]]:
    """Cases that were not played yet; the campaigns take turns."""
    rows = []
    for campaign in campaigns:
        played = ledger.of(campaign.name)
        names = list(campaign.cases(seed))
        names = names[: max(1, round(len(names) * share))]
        rows.append([(campaign, name) for name in names if name not in played])
    for turn in itertools.zip_longest(*rows):
        yield from (case for case in turn if case is not None)


def main() -> int:
    """0 when nothing was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.lab.chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", action="append", help="a campaign; may stand several times")
    parser.add_argument("--case", action="append", help="play these, again")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no case after so long")
    parser.add_argument("--jobs", type=int, default=2, help="cases at a time")
    parser.add_argument("--share", type=float, default=1.0, help="part of each campaign's cases")
    parser.add_argument("--table", action="store_true", help="only print what was reached")
    parser.add_argument("--ledger", type=Path, help="where what was played is written")
    chosen = parser.parse_args()
    ledger = Ledger(chosen.ledger or BUILT / f"{chosen.seed}.jsonl")
    campaigns = [c for c in CAMPAIGNS if not chosen.only or c.name in chosen.only]
    faults = 0
    if not chosen.table:
        warm_up()
        part = Slice(ledger, chosen.seed, chosen.jobs)
        until_s = time.monotonic() + chosen.minutes * 60
        if chosen.case:
            cases = iter([(campaigns[0], name) for name in chosen.case])
        else:
            cases = _turns(campaigns, ledger, chosen.seed, chosen.share)
        with contextlib.ExitStack() as beside:
            for campaign in campaigns:
                beside.enter_context(campaign.beside())
            part.play(cases, until_s)
        faults = part.faults
    print(table(campaigns, ledger, chosen.seed))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
