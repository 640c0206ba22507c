"""Meter `rapl`, on trees of zones as the kernel makes them: this machine may have none."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from testing.energy.powercapkit import DEVICES, RANGE_UJ, Powercap, server
from tests.meters.energy.scripted import eventually, fault
from ullage.analysis.energy import series
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.meters.energy.base import FaultError
from ullage.meters.energy.rapl import STEP_J, Rapl, RaplOptions
from ullage.meters.energy.recorder import Caller, Recorder

PACKAGES = ("intel-rapl:0", "intel-rapl:1")


def meter(tree: Powercap) -> Rapl:
    return Rapl(RaplOptions(powercap=str(tree.path)))


def opened(tree: Powercap, *zones: str) -> Rapl:
    """With the zones counting while it is opened, and standing still afterwards."""
    rapl = meter(tree)
    with tree.counting(*(zones or PACKAGES)):
        rapl.open()
    return rapl


def refused(tree: Powercap) -> UllageError:
    with pytest.raises(UllageError) as caught:
        meter(tree).open()
    return caught.value


def test_packages_and_memory_and_nothing_twice(tmp_path: Path) -> None:
    tree = server(tmp_path)
    rapl = meter(tree)
    with tree.counting(*PACKAGES):
        channels = {channel.name: channel for channel in rapl.open()}
    assert list(channels) == ["package-0", "memory-0", "package-1", "memory-1"]
    assert {name: channel.scope for name, channel in channels.items()} == {
        "package-0": "package",
        "memory-0": "memory",
        "package-1": "package",
        "memory-1": "memory",
    }
    for channel in channels.values():
        assert (channel.kind, channel.method, channel.observer) == ("energy", "measured", "host")
        assert (channel.wraps_at, channel.resolution) == (RANGE_UJ / 1e6, STEP_J)
    assert channels["memory-1"].source == str(tree.path / "intel-rapl:1:0/energy_uj")
    rapl.close()
    rapl.close()


def test_values_are_those_of_the_files_in_joules(tmp_path: Path) -> None:
    tree = server(tmp_path)
    rapl = opened(tree)
    tree.set("intel-rapl:0", "123456789\n")
    tree.set("intel-rapl:1", "7\n")
    assert rapl.read() == {
        "package-0": 123.456789,
        "memory-0": 0.3,
        "package-1": 7e-6,
        "memory-1": 0.4,
    }


def test_a_counter_that_wraps_is_told_as_it_stands(tmp_path: Path) -> None:
    tree = server(tmp_path)
    rapl = opened(tree)
    tree.set("intel-rapl:0", f"{RANGE_UJ - 1}\n")
    high = rapl.read()["package-0"]
    tree.set("intel-rapl:0", "1500000\n")
    low = rapl.read()["package-0"]
    assert (high, low) == ((RANGE_UJ - 1) / 1e6, 1.5)


def test_energy_over_a_wrap_is_whole_in_the_end(tmp_path: Path) -> None:
    tree = Powercap(tmp_path)
    tree.zone("intel-rapl:0", "package-0", RANGE_UJ - 3_000_000)
    file = tmp_path / "cpu.jsonl"
    recorder = Recorder(meter(tree), "cpu", "session", file, 0.02)
    with tree.counting("intel-rapl:0", step_uj=10_000):
        recorder.open()
    began = RANGE_UJ - 2_000_000
    tree.set("intel-rapl:0", f"{began}\n")
    recorder.start()
    eventually(lambda: recorder.readings >= 2)
    tree.set("intel-rapl:0", "500000\n")
    now = recorder.readings
    eventually(lambda: recorder.readings >= now + 2)
    recorder.stop()
    (stretch,) = series.read(file)
    rapl = series.series(stretch, "package-0")
    assert {cut.code for cut in rapl.cuts} <= {"gap"}, "readings come late on a busy machine"
    assert rapl.values[0] == 0
    assert rapl.values[-1] == pytest.approx(2.5)


def test_a_counter_that_wraps_while_it_is_opened_counts(tmp_path: Path) -> None:
    tree = Powercap(tmp_path)
    tree.zone("intel-rapl:0", "package-0", RANGE_UJ - 30_000)
    with tree.counting("intel-rapl:0"):
        assert len(meter(tree).open()) == 1


def test_dies_of_one_package_and_ten_packages_in_order(tmp_path: Path) -> None:
    tree = Powercap(tmp_path)
    names = [f"package-{n // 2}-die-{n % 2}" for n in range(11)]
    zones = [f"intel-rapl:{n}" for n in range(11)]
    for zone, name in zip(zones, names, strict=True):
        tree.zone(zone, name, 1)
    tree.zone("intel-rapl:10:0", "dram", 5)
    rapl = meter(tree)
    with tree.counting(*zones):
        channels = [channel.name for channel in rapl.open()]
    assert channels == [*names, "memory-5-die-0"]


def test_amd_has_packages_alone(tmp_path: Path) -> None:
    tree = Powercap(tmp_path)
    tree.zone("intel-rapl:0", "package-0", 1, 65_532_610_987)
    tree.zone("intel-rapl:0:0", "core", 1)
    rapl = meter(tree)
    with tree.counting("intel-rapl:0"):
        (channel,) = rapl.open()
    assert (channel.name, channel.wraps_at) == ("package-0", 65532.610987)


@pytest.mark.parametrize("text", ["", "0\n", "many\n"])
def test_a_range_that_the_kernel_does_not_tell(tmp_path: Path, text: str) -> None:
    tree = Powercap(tmp_path)
    (tree.zone("intel-rapl:0", "package-0", 1) / "max_energy_range_uj").write_text(text)
    rapl = meter(tree)
    with tree.counting("intel-rapl:0"):
        (channel,) = rapl.open()
    assert channel.wraps_at is None


def test_absent_in_a_virtual_machine(tmp_path: Path) -> None:
    tree = Powercap(tmp_path)
    tree.path.rmdir()
    error = refused(tree)
    assert error.kind is errors.ENERGY_METER_ABSENT
    assert "as in most virtual machines" in error.message
    assert "docs/guide/energy-meters.md" in error.hint


def test_absent_where_a_container_runtime_hides_it(tmp_path: Path) -> None:
    tree = server(tmp_path)
    (tmp_path / DEVICES).rename(tmp_path / "hidden")
    error = refused(tree)
    assert error.kind is errors.ENERGY_METER_ABSENT
    assert "container runtimes hide" in error.message


def test_absent_without_zones_and_without_packages(tmp_path: Path) -> None:
    tree = Powercap(tmp_path)
    assert "no zone of RAPL" in refused(tree).message
    tree.zone("intel-rapl:0", "psys", 1)
    assert "none of its zones is a package" in refused(tree).message


@contextmanager
def nobody() -> Iterator[None]:
    """As a user who may do nothing."""
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.root
def test_denied_to_a_user_with_the_way_to_allow_it() -> None:
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        tree = server(Path(place))
        file = tree.path / "intel-rapl:0/energy_uj"
        file.chmod(0o400)
        with nobody():
            error = refused(tree)
        assert error.kind is errors.ENERGY_METER_DENIED
        assert "intel-rapl:0/energy_uj: Permission denied" in error.message
        assert "CVE-2020-8694" in error.hint
        assert "chmod g+r" in error.hint


@pytest.mark.root
def test_denied_in_the_middle() -> None:
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        tree = server(Path(place))
        rapl = opened(tree)
        (tree.path / "intel-rapl:1/energy_uj").chmod(0o400)
        with nobody():
            assert fault(rapl).code == "denied"
        assert rapl.read()["memory-1"] == 0.4


def test_a_package_that_stands_still_is_said_before_the_run(tmp_path: Path) -> None:
    tree = server(tmp_path)
    with tree.counting("intel-rapl:0"):
        error = refused(tree)
    assert error.kind is errors.ENERGY_METER_BAD_ANSWER
    assert "package-1 stands still at 2 J" in error.message


@pytest.mark.parametrize("text", ["", "-5\n", "NaN\n", "12 W\n", "1e9\n", "٣\n"])
def test_what_is_no_count_is_no_reading(tmp_path: Path, text: str) -> None:
    tree = server(tmp_path)
    rapl = opened(tree)
    tree.set("intel-rapl:1", text)
    assert fault(rapl).code == "nonsense"
    tree.set("intel-rapl:1", "5000000\n")
    assert rapl.read()["package-1"] == 5.0, "the next one stands by itself"


def test_beyond_its_own_range_is_no_reading(tmp_path: Path) -> None:
    tree = server(tmp_path)
    rapl = opened(tree)
    tree.set("intel-rapl:0", f"{RANGE_UJ + 1}\n")
    assert "beyond its own range" in str(fault(rapl))


def test_no_count_when_it_is_opened(tmp_path: Path) -> None:
    tree = server(tmp_path)
    tree.set("intel-rapl:0", "-1\n")
    assert refused(tree).kind is errors.ENERGY_METER_BAD_ANSWER


def test_a_zone_that_goes_away_in_the_middle(tmp_path: Path) -> None:
    tree = server(tmp_path)
    rapl = opened(tree)
    (tree.path / "intel-rapl:1").unlink()
    error = fault(rapl)
    assert error.code == "gone"
    assert "intel-rapl:1/energy_uj" in str(error)


def test_a_file_that_never_answers_is_left_at_the_deadline(tmp_path: Path) -> None:
    tree = server(tmp_path)
    rapl = opened(tree)
    file = (tree.path / "intel-rapl:0").resolve() / "energy_uj"
    file.unlink()
    os.mkfifo(file)
    caller = Caller("rapl")  # as the recorder has one
    for _ in range(2):
        with pytest.raises(FaultError) as caught:
            caller.call(rapl.read, 0.2)
        assert caught.value.code == "silent"
    file.write_text("6000000\n")  # the reader that waits gets it, and ends
    caller.end(rapl.close, 60)
    tree.set("intel-rapl:0", "7000000\n")
    assert rapl.read()["package-0"] == 7.0


def test_an_opening_that_failed_changes_nothing(tmp_path: Path) -> None:
    tree = server(tmp_path)
    rapl = opened(tree)
    before = dict(rapl.read())
    more = tree.zone("intel-rapl:7", "package-7", 5)
    with pytest.raises(UllageError, match="stands still"):
        rapl.open()
    assert more.is_dir()
    assert dict(rapl.read()) == before


def test_no_plan_reads_so_seldom_that_a_counter_wraps_past_itself() -> None:
    with pytest.raises(ValueError, match="less than or equal to 60"):
        RaplOptions(every=61)
