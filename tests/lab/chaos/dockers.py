"""A Docker daemon of the case's own dies under a run, and comes back."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tests.lab import dockerkit
from tests.lab.chaos.campaign import Campaign, Case, FaultFoundError, numbered
from tests.lab.chaos.controller import GONE_S
from tests.lab.chaos.subjects import RESUMED_S, SUBJECTS, Attacked, check_words, terminate

KILLS: Final = 4
"""Of the daemon, each under a controller of its own."""
_AWAY_S: Final = 3.0
"""So long at most is there no daemon."""


def _cases(seed: int) -> Iterable[str]:
    return numbered("dockerd", 6)


def play(case: Case) -> None:
    """The daemon is killed under each controller but the last, which ends the run."""
    place = case.place / "docker"
    place.mkdir()
    os.environ["DOCKER_HOST"] = dockerkit.address(place)
    attacked, chance = Attacked(case, SUBJECTS["docker"]), case.random
    daemon = dockerkit.start(place)
    try:
        for _ in range(KILLS):
            controller = attacked.start()
            if controller.gone(chance.uniform(0.0, attacked.subject.usual_s)):
                attacked.see()
                break
            daemon.send_signal(signal.SIGKILL)
            daemon.wait()
            _end_containerd(place)
            time.sleep(chance.uniform(0.0, _AWAY_S))
            daemon = dockerkit.start(place)
            case.counts["dockerd_kills"] += 1
            if not controller.gone(RESUMED_S):
                terminate(controller, signal.SIGTERM, GONE_S)
                raise FaultFoundError(f"it hung, until told to end: {controller.stderr[-300:]}")
            attacked.see()
            check_words(controller)
            if controller.status not in range(128):
                raise FaultFoundError(f"it ended with {controller.status}")
        last = attacked.run_on()
        if last.status not in {0, 3}:
            raise FaultFoundError(f"`--resume` ended with {last.status}: {last.stderr[-400:]}")
        attacked.check_whole(failures=True)
        attacked.clean()  # whom no daemon could remove is listed until one can
    finally:
        dockerkit.end(daemon, place)


def _end_containerd(place: Path) -> None:
    """It goes with its daemon, and nobody may reap it: the next one would take it for alive, and
    wait."""
    file = place / "exec/containerd/containerd.pid"
    with contextlib.suppress(OSError, ValueError):
        pid = int(file.read_text())
        while str(place).encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)
    file.unlink(missing_ok=True)


CAMPAIGN: Final = Campaign(
    name="dockerd",
    figure="dockerd killed under runs",
    reach="each controller ends in words; `--resume` ends the run; the same zeroes",
    cases=_cases,
    play=play,
)
