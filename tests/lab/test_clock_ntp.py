"""The NTP experiment on real parts: chronyd here, chronyd in a guest whose oscillator is wrong."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.experiments.clock.ntp import experiment, guest
from ullage.experiments.clock.ntp.experiment import NtpOptions, NtpOutcome, measure
from ullage.experiments.clock.ntp.guest import Lab, NtpServer, SkewedGuest
from ullage.host import leftovers, paths

pytestmark = [pytest.mark.lab, pytest.mark.root]


def running() -> set[str]:
    """What this test has started and still runs: its directory stands in their environments."""
    mine, programs = os.fsencode(paths.state_root()), set()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has just ended
            if mine in (process / "environ").read_bytes():
                programs.add((process / "comm").read_text().strip())
    return programs


@pytest.fixture(autouse=True)
def clean(tag: str) -> Iterator[None]:
    """Nothing is left of what a test made; its state and data are below its own directory.

    The lock by which runs take turns to choose a subnet is nobody's.
    """
    yield
    files = {path.name for path in paths.state_root().rglob("*") if path.is_file()}
    assert files <= {"subnet.lock"}
    assert not [p for p in paths.data_root().rglob("*") if p.is_file()]
    assert not running()


def test_corrections_of_a_guest_50_ppm_slow() -> None:
    lines: list[str] = []
    before_ns = time.time_ns() - time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
    outcome = measure(NtpOptions(observe_s=80, settle_s=25), lines.append)
    after_ns = time.time_ns() - time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
    assert abs(after_ns - before_ns) < 20_000_000  # nobody touched this host's clock
    (interval,) = outcome.intervals
    assert interval.poll == -7
    assert interval.used_s is not None
    assert interval.used_s < 1
    assert interval.error_ppb == pytest.approx(-50_000, abs=15_000)
    # Two that know nothing of each other: chrony over the network, we over the agent's port.
    estimate = interval.tracking.frequency_ppb
    assert estimate == pytest.approx(interval.error_ppb, abs=3 * interval.tracking.skew_ppb + 5_000)
    assert interval.decided is not None
    assert interval.applied is not None
    assert interval.decided.count > 100
    assert interval.applied.max_ns > 0
    # All that was done to the clock is what the kernel was told to do.
    assert interval.unexplained_ns < 50_000
    moved = sum(correction.size_ns for correction in interval.corrections)
    assert abs(moved) < 50_000_000
    assert any("left" in line for line in lines)
    # Ours in the same guest: after one exchange it is off by the oscillator's rate.
    assert interval.beside is not None
    off = {errors.clock: errors.off for errors in interval.beside.errors}
    seconds = (interval.beside.until_ns - interval.beside.from_ns) / 1e9
    assert off["once"].max_ns > 40e-6 * seconds * 1e9
    assert off["learned"].max_ns < off["once"].max_ns
    assert off["chrony"].count == off["learned"].count >= 4
    assert NtpOutcome.model_validate_json(outcome.model_dump_json()) == outcome


def test_the_other_sign_at_another_interval() -> None:
    outcome = measure(
        NtpOptions(intervals_s=(1,), frequency_error_ppm=120, observe_s=45, settle_s=10), print
    )
    (interval,) = outcome.intervals
    assert interval.poll == 0
    assert interval.used_s == pytest.approx(1, rel=0.3)
    assert interval.error_ppb == pytest.approx(120_000, abs=15_000)
    assert interval.tracking.frequency_ppb > 0


def test_a_step_is_seen_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    async def five_seconds_late(self: SkewedGuest) -> None:
        here_ns, inside_ns, _ = await self.monotonic()
        ahead_ns = here_ns - inside_ns + time.time_ns() - time.monotonic_ns()
        await self.call("python3", guest.SAMPLER, "set", str(ahead_ns - 5_000_000_000))

    monkeypatch.setattr(SkewedGuest, "set_clock", five_seconds_late)
    (interval,) = measure(NtpOptions(observe_s=20), print).intervals
    steps = [correction for correction in interval.corrections if correction.kind == "step"]
    assert len(steps) == 1
    assert steps[0].size_ns == pytest.approx(5_000_000_000, abs=50_000_000)


def test_a_server_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A chronyd that serves others, not us."""
    conf = guest.SERVER_CONF.replace("{subnet}", "192.0.2.1")
    monkeypatch.setattr(guest, "SERVER_CONF", conf)
    monkeypatch.setattr(experiment, "_SILENCE_S", 5.0)
    with pytest.raises(UllageError, match="no answer from") as caught:
        measure(NtpOptions(observe_s=20), print)
    assert caught.value.kind is errors.CLOCK_NTP_FAILED


def test_a_server_that_dies(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Lab.server

    @contextlib.asynccontextmanager
    async def dying(self: Lab) -> AsyncIterator[NtpServer]:
        async with real(self) as server:
            killing = asyncio.get_running_loop().call_later(30, server.process.kill)
            yield server
            killing.cancel()

    monkeypatch.setattr(Lab, "server", dying)
    with pytest.raises(UllageError, match="it ended") as caught:
        measure(NtpOptions(observe_s=120), print)
    assert caught.value.kind is errors.CLOCK_NTP_FAILED


def test_a_guest_that_does_not_boot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guest, "_NO_OTHER_CLOCK", ("rdinit=/nothing",))
    with pytest.raises(UllageError) as caught:
        measure(NtpOptions(), print)
    assert caught.value.kind in {errors.VM_NEVER_BOOTED, errors.VM_FAILED}


def test_a_guest_that_finds_out_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """With another clock to look at, its kernel puts the false frequency right."""
    monkeypatch.setattr(guest, "_NO_OTHER_CLOCK", ())
    with pytest.raises(UllageError, match="the guest runs off by"):
        measure(NtpOptions(observe_s=20, frequency_error_ppm=200), print)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_interrupted(number: signal.Signals) -> None:
    """Ctrl-C leaves nothing. After `kill -9` all that is left carries the tag."""
    program = (
        "import signal\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # `&` of a shell ignores it
        "from ullage.experiments.clock.ntp import experiment as ntp\n"
        "ntp.measure(ntp.NtpOptions(), lambda text: print(text, flush=True))\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if "s left" in line:
            break
    process.send_signal(number)
    process.communicate(timeout=300)
    assert process.returncode == -number
    if number == signal.SIGKILL:
        tags = {path.name for path in Path(paths.state_root()).iterdir()} - {"subnet.lock"}
        assert len(tags) == 1
        remains = leftovers.find(tags.pop())
        assert {"process", "link", "state"} <= {leftover.kind for leftover in remains}
        assert leftovers.remove(remains) == []
