"""Short external programs, real ones."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ullage.common import errors
from ullage.common.commands import CommandError, attempt, run, tail
from ullage.common.errors import UllageError


def test_output_and_input() -> None:
    assert asyncio.run(run(["cat"], stdin="said ±\n")) == "said ±\n"


def test_a_failure_says_what_the_program_said() -> None:
    with pytest.raises(CommandError) as caught:
        asyncio.run(run(["sh", "-c", "echo no such thing >&2; exit 3"]))
    assert (caught.value.program, caught.value.status) == ("sh", 3)
    assert caught.value.reason == "no such thing"


def test_a_silent_failure_says_its_status() -> None:
    with pytest.raises(CommandError, match="exit status 1"):
        asyncio.run(run(["false"]))


def test_a_program_that_is_not_there() -> None:
    with pytest.raises(CommandError, match="No such file"):
        asyncio.run(run(["/no/such/program"]))
    assert asyncio.run(attempt(["/no/such/program"])) is False


def test_no_file_may_be_opened_any_more() -> None:
    """The program cannot be started: an error with a hint, as every command's failure is."""

    async def without_files() -> None:
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
        try:
            await run(["true"])
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)

    with pytest.raises(UllageError, match="true: Too many open files") as caught:
        asyncio.run(without_files())
    assert caught.value.kind is errors.COMMAND_FAILED


@pytest.mark.parametrize("how", ["deadline", "cancelled"])
def test_a_program_that_takes_too_long_is_killed(how: str, tmp_path: Path) -> None:
    pidfile = tmp_path / "pid"
    argv = ["sh", "-c", f"echo $$ > {pidfile}.new; mv {pidfile}.new {pidfile}; exec sleep 1000"]

    async def scenario() -> None:
        task = asyncio.create_task(run(argv, timeout_s=1.0 if how == "deadline" else 1000.0))
        while not pidfile.exists():
            await asyncio.sleep(0.01)
        if how == "cancelled":
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        else:
            with pytest.raises(CommandError, match="no answer after 1 s"):
                await task

    asyncio.run(scenario())
    with pytest.raises(ProcessLookupError):
        os.kill(int(pidfile.read_text()), 0)


HELPED = """
import asyncio, os, signal, sys
from ullage.common.commands import run
from ullage.host.leftovers import _run

async def scenario():
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, lambda: None)
    await run(["sh", "-c", sys.argv[1], "sh", "one"])
    await asyncio.to_thread(_run, "sh", "-c", sys.argv[1], "sh", "two")
    print("both ended by themselves", flush=True)
    os._exit(0)  # at once: an interpreter that is ending heeds SIGINT again

asyncio.run(scenario())
"""


HELPER = "touch $1; until [ -e $1-may-end ]; do sleep 0.01; done"


def test_a_helper_outlives_the_terminals_ctrl_c(tmp_path: Path) -> None:
    """The terminal signals the whole process group: a second Ctrl-C during the tear-down."""
    controller = subprocess.Popen(
        [sys.executable, "-c", HELPED, HELPER],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert controller.stdout is not None
    for name in ("one", "two"):
        # Not before it runs: between a fork and its own session it would be hit.
        while not (tmp_path / name).exists():
            assert controller.poll() is None
            time.sleep(0.01)
        os.killpg(controller.pid, signal.SIGINT)
        time.sleep(0.1)
        (tmp_path / f"{name}-may-end").touch()
    assert controller.wait(60) == 0
    assert controller.stdout.read() == "both ended by themselves\n"


def test_who_prints_without_an_end_is_ended() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(CommandError, match="yes: it printed over 64MiB"):
        asyncio.run(run(["yes"]))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000


def test_of_a_long_complaint_the_end_is_kept() -> None:
    complaint = "head -c 100000000 /dev/zero >&2; echo >&2; echo why >&2; exit 1"
    with pytest.raises(CommandError) as caught:
        asyncio.run(run(["sh", "-c", complaint]))
    assert caught.value.reason.endswith("why")


def test_the_tail_is_the_last_lines_that_say_something() -> None:
    assert tail("one\n\n two \nthree\n\nfour\n") == "two; three; four"
    assert len(tail("x" * 5000)) == 600


def test_whoever_inherits_the_output_does_not_hold_us() -> None:
    """asyncio's `wait` returns only when the pipes are closed as well (Python 3.11)."""
    script = "sleep 60 & echo $! >&2; exec sleep 60"

    async def scenario() -> None:
        with pytest.raises(CommandError, match=r"no answer after 0\.5 s"):
            await asyncio.wait_for(run(["sh", "-c", script], timeout_s=0.5), 30)

    asyncio.run(scenario())
