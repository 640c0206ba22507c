"""Ctrl-C and its like, sent to a process that hangs as it ends."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from ullage.common.signals import AGAIN_S, interruptible

# Work whose tear-down never ends, in one of three ways.
CONTROLLER = """
import asyncio, sys, time
from ullage.common.signals import interruptible, to_the_end

async def for_ever():
    print("tearing down", flush=True)
    if sys.argv[1] == "the loop":
        time.sleep(1000)
    elif sys.argv[1] == "a thread":
        await asyncio.to_thread(time.sleep, 1000)
    else:
        await asyncio.Event().wait()

async def work():
    try:
        print("working", flush=True)
        await asyncio.sleep(1000)
    finally:
        await to_the_end(for_ever())

interruptible(work(), lambda: "the netns u1234567-vm-0")
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("what", ["an event", "a thread", "the loop"])
def test_the_second_ends_it_whatever_it_waits_for(what: str, number: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", CONTROLLER, what],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as controller:
        assert controller.stdout is not None and controller.stderr is not None
        assert controller.stdout.readline() == "working\n"
        controller.send_signal(number)
        assert controller.stdout.readline() == "tearing down\n"
        controller.send_signal(number)  # as `timeout` does: the same wish once more
        assert controller.poll() is None
        time.sleep(AGAIN_S + 0.1)
        try:
            controller.send_signal(number)
            assert controller.wait(30) == 130
        finally:
            controller.kill()
        messages = controller.stderr.read()
    assert "ended at once; left: the netns u1234567-vm-0\n" in messages
    assert "ullage clean" in messages


def test_the_first_is_enough_where_nothing_hangs() -> None:
    script = CONTROLLER.replace("await to_the_end(for_ever())", "print('gone', flush=True)")
    with subprocess.Popen(
        [sys.executable, "-c", script, ""],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as controller:
        assert controller.stdout is not None
        assert controller.stdout.readline() == "working\n"
        controller.send_signal(signal.SIGTERM)
        output, messages = controller.communicate(timeout=30)
    assert output == "gone\n"
    assert "CancelledError" in messages
    assert "left" not in messages


NOTEBOOK = """
import asyncio
from ullage.common.signals import interruptible

async def work():
    try:
        print("working", flush=True)
        await asyncio.sleep(1000)
    finally:
        print("gone", flush=True)

async def cell():
    try:
        interruptible(work(), lambda: "nothing")
    except asyncio.CancelledError:
        print("told", flush=True)

async def kernel():
    await cell()
    print("goes on", flush=True)

asyncio.run(kernel())
"""


def test_where_a_loop_runs_the_first_cancels_the_work_and_the_loop_goes_on() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", NOTEBOOK], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as kernel:
        assert kernel.stdout is not None
        assert kernel.stdout.readline() == "working\n"
        kernel.send_signal(signal.SIGINT)
        output, messages = kernel.communicate(timeout=60)
    assert output.split("\n") == ["gone", "told", "goes on", ""], messages
    assert kernel.returncode == 0


def test_in_another_thread_it_runs_to_its_end() -> None:
    async def work() -> str:
        return "done"

    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(interruptible, work(), lambda: "nothing").result() == "done"


def test_what_was_abandoned_does_not_hold_the_process() -> None:
    script = """
import asyncio, time
from ullage.common import signals
signals.LINGER_S = 0.2

async def work():
    asyncio.create_task(asyncio.to_thread(time.sleep, 1000))
    await asyncio.sleep(0.1)

signals.interruptible(work(), lambda: "a thread")
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 130
    assert "left: a thread" in done.stderr
