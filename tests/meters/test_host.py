"""The host's own meter."""

import os
import time

import pytest

from ullage.meters.host import HostReading


def reading(**seconds: float) -> HostReading:
    fields = {"instant_s": 0.0, "busy_s": 0.0, "idle_s": 0.0, "steal_s": 0.0, **seconds}
    return HostReading(**fields, stalled_s={"cpu": seconds.get("busy_s", 0.0) / 10})


def test_shares_of_known_counters() -> None:
    before = reading(instant_s=10, busy_s=100, idle_s=200, steal_s=7)
    after = reading(instant_s=12, busy_s=101, idle_s=202.5, steal_s=7.5)
    shares = before.until(after)
    assert shares["busy"] == pytest.approx(1 / 4)
    assert shares["steal"] == pytest.approx(0.5 / 4)
    assert shares["psi_cpu"] == pytest.approx(0.1 / 2)


def test_no_time_no_shares() -> None:
    assert reading().until(reading()) == {}


def test_a_busy_loop_shows_on_the_real_host() -> None:
    before = HostReading.now()
    until = time.process_time() + 0.3
    while time.process_time() < until:
        pass
    shares = before.until(HostReading.now())
    assert shares["busy"] > 0.1 / len(os.sched_getaffinity(0))
    assert all(0 <= share <= 1 for share in shares.values())
