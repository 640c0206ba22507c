"""A controller to be killed: the real command line in a child of a process that has imported it.

To fork takes milliseconds, where a new interpreter takes seconds: hundreds of kills become cheap.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import io
import json
import os
import resource
import select
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Final, Literal

from altair.utils.schemapi import disable_debug_mode

from testing.synthetic import make_run
from tests.lab.chaos import memory

Call = Literal[
    "open",
    "create",
    "write",
    "fsync",
    "rename",
    "mkdir",
    "fork",
    "unlink",
    "truncate",
    "socket",
    "pipe",
]
CALLS: Final[tuple[Call, ...]] = (
    "open",
    "create",
    "write",
    "fsync",
    "rename",
    "mkdir",
    "fork",
    "unlink",
    "truncate",
    "socket",
    "pipe",
)
"""In the order of `enum call` of faults.c; the clock and `whichever` follow."""
CLOCK: Final = len(CALLS)
WHICHEVER: Final = CLOCK + 1
FOR_EVER: Final = 2**40
GONE_S: Final = 30.0
"""A controller that was told to end has to be gone after so long."""

_MOST_STRETCH: Final = 10.0
_LOOK_S: Final = 0.2

_PRELOAD: Final = ctypes.CDLL(None)
_IMPORTED: Final = (
    "ullage.cli.main",
    "ullage.cli.output.dryrun",
    "ullage.cli.elastic",
    "ullage.cli.study",
    "ullage.cli.weigh",
    "ullage.cli.results",
    "ullage.experiments.studies.showing",
    "ullage.cli.live.progress",
    "ullage.cli.live.terminal",
    "ullage.experiments.run",
    "ullage.experiments.elastic.run.run",
    "ullage.engine.engine",
    "ullage.plan.matrix",
    "ullage.analysis.overhead",
    "ullage.report.page",
    "ullage.runs.parquet",
    "ullage.environments.native",
    "ullage.environments.containers.oci",
    "ullage.environments.containers.lxc",
    "ullage.environments.qemu.provider",
)


def warm_up() -> None:
    """Do once what each controller would do anew, before they are forked.

    Imports, and a page with its answer: what the first one compiles and looks up takes two seconds.
    The idle threads of libraries that it leaves here are not needed again.
    """
    for name in _IMPORTED:
        import_module(name)
    disable_debug_mode()  # to hold each chart against its schema is half of a page
    main = import_module("ullage.cli.main").main
    argv, null = sys.argv, io.TextIOWrapper(io.BytesIO(), "utf-8")
    with tempfile.TemporaryDirectory() as place, contextlib.redirect_stdout(null):
        run = str(make_run(Path(place) / "20260101T000000-made", blocks=2))
        for command in (["show", run], ["report", run]):
            sys.argv = ["ullage", *command]
            with contextlib.suppress(SystemExit), contextlib.redirect_stderr(null):
                main()
    sys.argv = argv
    if threading.active_count() != 1:
        raise RuntimeError("a thread is left, which no child would have")
    gc.collect()
    gc.freeze()


@dataclass(frozen=True)
class Fault:
    """What happens to the n-th call of a kind, from 1, and to those after it until `last`."""

    call: int
    first: int
    last: int
    error: int = 0
    """0: SIGKILL."""
    clock_step_s: float = 0.0


class Controller:
    """A running `ullage`. Its words go to a file beside its runs."""

    def __init__(self, argv: Sequence[str], place: Path, fault: Fault | None = None) -> None:
        """place: the folder in which it runs; it gets `stderr` and `calls.json`."""
        self.place = place
        self.started_s = time.monotonic()
        self.status: int | None = None
        """Like a shell's, once it is gone: 128 and the signal that killed it."""
        self.max_rss_bytes = 0
        """Its peak, as far as it was waited for."""
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            _become(argv, place, fault)
        self._handle = os.pidfd_open(self.pid)

    @property
    def stderr(self) -> str:
        return (self.place / "stderr").read_text(encoding="utf-8", errors="replace")

    @property
    def calls(self) -> dict[str, int]:
        """How many calls of each kind it has made, if it came to its end."""
        try:
            counts: dict[str, int] = json.loads((self.place / "calls.json").read_bytes())
        except (FileNotFoundError, ValueError):
            return {}
        return counts

    def signal(self, number: int) -> None:
        """Send it a signal; none to one that is gone."""
        if self.status is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def gone(self, within_s: float) -> bool:
        """Wait until it has ended, at most so long: of an idle machine's seconds."""
        if self.status is None and self._ended(within_s):
            _, status = os.waitpid(self.pid, 0)
            self.status = os.waitstatus_to_exitcode(status)
            if self.status < 0:
                self.status = 128 - self.status
            os.close(self._handle)
        return self.status is not None

    def _ended(self, within_s: float) -> bool:
        """The load and its memory are looked at again and again: they may rise meanwhile."""
        began = time.monotonic()
        while (left_s := stretched_s(within_s) - (time.monotonic() - began)) > 0:
            self.max_rss_bytes = max(self.max_rss_bytes, memory.memory_bytes("VmHWM", self.pid))
            if select.select([self._handle], [], [], min(left_s, _LOOK_S))[0]:
                return True
        return bool(select.select([self._handle], [], [], 0)[0])

    def kill(self) -> None:
        """SIGKILL, and wait."""
        self.signal(signal.SIGKILL)
        if not self.gone(GONE_S):
            raise TimeoutError(f"a killed controller, {self.pid}, does not die")


def stretched_s(seconds: float) -> float:
    """What an idle machine's seconds are on this one, which may have more to run than CPUs."""
    waiting = os.getloadavg()[0] / len(os.sched_getaffinity(0))
    return seconds * min(_MOST_STRETCH, max(1.0, waiting))


def _become(argv: Sequence[str], place: Path, fault: Fault | None) -> None:
    """In the child: be the command line, and never return."""
    status = 1
    try:
        os.setsid()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.chdir(place)
        _redirect(place)
        sys.argv = ["ullage", *argv]
        main = import_module("ullage.cli.main").main
        _arm(fault)
        try:
            main()
            status = 0
        except SystemExit as ended:
            status = ended.code if isinstance(ended.code, int) else int(bool(ended.code))
        finally:
            counts = {call: _PRELOAD.chaos_count(i) for i, call in enumerate(CALLS)}
            _arm(None)
        (place / "calls.json").write_text(json.dumps(counts), encoding="utf-8")
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def _redirect(place: Path) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    stderr = os.open(place / "stderr", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.dup2(stderr, 2)
    os.close(null)
    os.close(stderr)


def _arm(fault: Fault | None) -> None:
    if fault is None:
        _PRELOAD.chaos_arm(-1, ctypes.c_long(0), ctypes.c_long(0), 0, ctypes.c_longlong(0))
        return
    step_ns = ctypes.c_longlong(round(fault.clock_step_s * 1e9))
    first, last = ctypes.c_long(fault.first), ctypes.c_long(fault.last)
    _PRELOAD.chaos_arm(fault.call, first, last, fault.error, step_ns)
