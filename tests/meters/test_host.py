"""The host's own meter."""

import os
import resource
import time
from pathlib import Path

import pytest

from ullage.host import cgroups
from ullage.meters import host
from ullage.meters.host import Host, HostReading, accounts


def reading(**seconds: float) -> HostReading:
    fields = {"instant_s": 0.0, "busy_s": 0.0, "idle_s": 0.0, "steal_s": 0.0, **seconds}
    accounts = {"one": fields.pop("one")} if "one" in fields else {}
    if "two" in fields:
        accounts["two"] = fields.pop("two")
    return HostReading(
        **fields,
        stalled_s={"cpu": seconds.get("busy_s", 0.0) / 10},
        instances_s=accounts,
    )


def test_shares_of_known_counters() -> None:
    before = reading(instant_s=10, busy_s=100, idle_s=200, steal_s=7, programs_s=80)
    after = reading(instant_s=12, busy_s=101, idle_s=202.5, steal_s=7.5, programs_s=80.8)
    shares = before.until(after)
    assert shares["cpu_time"] == pytest.approx(4)
    assert shares["busy"] == pytest.approx(1 / 4)
    assert shares["programs"] == pytest.approx(0.8 / 4)
    assert shares["steal"] == pytest.approx(0.5 / 4)
    assert shares["psi_cpu"] == pytest.approx(0.1 / 2)
    assert "instances" not in shares, "there was no account of them"


def test_instances_and_controller() -> None:
    before = reading(instant_s=0, controller_s=3, one=5.0)
    after = reading(instant_s=2, busy_s=3, idle_s=1, controller_s=3.2, one=7.0)
    shares = before.until(after)
    assert shares["controller"] == pytest.approx(0.2 / 4)
    assert shares["instances"] == pytest.approx(2 / 4)


def test_the_fullest_account_tells() -> None:
    """On a host with both versions of control groups a part of the groups is in either."""
    before = reading(instant_s=0, one=5.0, two=1.0)
    after = reading(instant_s=2, busy_s=3, idle_s=1, one=5.1, two=2.0)
    assert before.until(after)["instances"] == pytest.approx(1 / 4)


def test_an_account_that_came_in_between_tells_nothing() -> None:
    after = reading(instant_s=2, busy_s=3, idle_s=1, one=7.0)
    assert "instances" not in reading().until(after)
    assert "instances" not in reading(one=6.0).until(reading(instant_s=2, busy_s=3, idle_s=1))


def test_no_time_no_shares() -> None:
    assert reading().until(reading()) == {}


@pytest.mark.parametrize(
    ("version", "name", "text", "seconds"),
    [
        (2, "cpu.stat", "usage_usec 1500000\nuser_usec 1\n", 1.5),
        (1, "cpuacct.usage", "2500000000\n", 2.5),
        (2, "cpu.stat", "", None),
        (2, "cpu.stat", "some_other 7\n", None),
    ],
)
def test_accounts_of_either_version(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    version: int,
    name: str,
    text: str,
    seconds: float | None,
) -> None:
    (tmp_path / "cpuacct.usage").write_text("1\n")
    (tmp_path / cgroups.ROOT).mkdir()
    (tmp_path / cgroups.ROOT / name).write_text(text)
    tree = cgroups.Hierarchy(tmp_path, version, frozenset())
    monkeypatch.setattr(cgroups, "hierarchies", lambda: [tree])
    accounts.cache_clear()
    try:
        by_account = HostReading.now().instances_s
    finally:
        accounts.cache_clear()
    expected = {} if seconds is None else {str(tmp_path / cgroups.ROOT / name): seconds}
    assert by_account == expected


def test_an_old_tree_without_accounts_is_not_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = cgroups.Hierarchy(tmp_path, 1, frozenset({"freezer"}))
    monkeypatch.setattr(cgroups, "hierarchies", lambda: [tree])
    accounts.cache_clear()
    try:
        assert accounts() == ()
    finally:
        accounts.cache_clear()


def test_a_busy_loop_shows_on_the_real_host() -> None:
    meter, cpus = Host(), len(os.sched_getaffinity(0))
    meter.begin()
    before = resource.getrusage(resource.RUSAGE_SELF)
    until = time.process_time() + 0.3
    while time.process_time() < until:
        pass
    after = resource.getrusage(resource.RUSAGE_SELF)
    figures = meter.end()
    assert figures["busy"] > 0.1 / cpus
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert figures["controller"] * figures["cpu_time"] == pytest.approx(used, rel=0.05)
    assert figures["programs"] <= figures["busy"] + 1e-9  # rounded apart
    assert all(0 <= value <= 1 for name, value in figures.items() if name != "cpu_time")
    assert set(figures) <= {quantity.name for quantity in host.Host.quantities}
