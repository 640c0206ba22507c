"""Frequency and throttling, from a made-up sysfs: most machines that test this have neither."""

from pathlib import Path

import pytest

from ullage.meters.cpu import Cpu, CpuFiles

CONSTANT = "processor\t: 0\ncpu MHz\t\t: 2596.144\nflags\t\t: fpu tsc constant_tsc hypervisor\n"
LIVE = "".join(
    f"processor\t: {n}\ncpu MHz\t\t: {mhz}\nflags\t\t: fpu aperfmperf\n\n"
    for n, mhz in enumerate((800.0, 3400.5))
)


@pytest.fixture(autouse=True)
def _fresh() -> None:
    CpuFiles.find.cache_clear()


def sysfs(path: Path, **files: list[int]) -> Path:
    """Two packages of two CPUs; name of a file (`cpufreq__scaling_cur_freq`) → values."""
    for cpu in range(4):
        top = path / f"cpu{cpu}"
        (top / "topology").mkdir(parents=True)
        (top / "topology/physical_package_id").write_text(f"{cpu // 2}\n")
    for name in ("cpufreq", "cpuidle"):
        (path / name).mkdir()
    for name, values in files.items():
        write(path, name, values)
    return path


def write(path: Path, name: str, values: list[int]) -> None:
    for cpu, value in enumerate(values):
        file = path / f"cpu{cpu}" / name.replace("__", "/")
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"{value}\n")


def cpuinfo(path: Path, text: str) -> Path:
    file = path / "cpuinfo"
    file.write_text(text)
    return file


def test_the_fastest_cpu_after_the_trial(tmp_path: Path) -> None:
    tree = sysfs(tmp_path, cpufreq__scaling_cur_freq=[800_000, 800_000, 800_000, 800_000])
    meter = Cpu(tree, cpuinfo(tmp_path, LIVE))
    meter.begin()
    write(tree, "cpufreq__scaling_cur_freq", [800_000, 3_600_000, 900_000, 800_000])
    assert meter.end() == {"frequency": 3.6e9}


def test_throttled_cpus_and_packages(tmp_path: Path) -> None:
    tree = sysfs(
        tmp_path,
        thermal_throttle__core_throttle_count=[5, 0, 0, 0],
        thermal_throttle__package_throttle_count=[9, 9, 2, 2],
    )
    meter = Cpu(tree, cpuinfo(tmp_path, CONSTANT))
    meter.begin()
    assert meter.end() == {"throttled": 0}
    meter.begin()
    write(tree, "thermal_throttle__core_throttle_count", [6, 0, 4, 0])
    write(tree, "thermal_throttle__package_throttle_count", [10, 10, 2, 2])
    assert meter.end() == {"throttled": 3}, "two CPUs, and one package that both CPUs tell of"


def test_a_virtual_machine_tells_nothing_rather_than_a_constant(tmp_path: Path) -> None:
    meter = Cpu(sysfs(tmp_path), cpuinfo(tmp_path, CONSTANT))
    meter.begin()
    assert meter.end() == {}


def test_cpuinfo_where_it_is_measured(tmp_path: Path) -> None:
    meter = Cpu(sysfs(tmp_path), cpuinfo(tmp_path, LIVE))
    meter.begin()
    assert meter.end() == {"frequency": 3400.5e6}


def test_nothing_there_at_all(tmp_path: Path) -> None:
    meter = Cpu(tmp_path / "none", tmp_path / "none")
    meter.begin()
    assert meter.end() == {}


def test_a_cpu_that_goes_away_in_between(tmp_path: Path) -> None:
    tree = sysfs(
        tmp_path,
        cpufreq__scaling_cur_freq=[3_000_000, 3_100_000],
        thermal_throttle__core_throttle_count=[0, 0],
    )
    meter = Cpu(tree, cpuinfo(tmp_path, CONSTANT))
    meter.begin()
    (tree / "cpu1/cpufreq/scaling_cur_freq").unlink()
    (tree / "cpu1/thermal_throttle/core_throttle_count").unlink()
    assert meter.end() == {"frequency": 3e9, "throttled": 0}


def test_what_takes_too_long_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An old kernel sleeps for every idle CPU."""
    now = iter(x * 0.003 for x in range(100))
    monkeypatch.setattr("ullage.meters.cpu.time.perf_counter", lambda: next(now))
    tree = sysfs(tmp_path, cpufreq__scaling_cur_freq=[3_000_000] * 4)
    assert CpuFiles.find(tree, cpuinfo(tmp_path, CONSTANT)).frequency_hz() is None


def test_this_host_is_read_without_harm() -> None:
    meter = Cpu()
    meter.begin()
    figures = meter.end()
    assert set(figures) <= {"frequency", "throttled"}
    assert figures.get("frequency", 1e9) > 1e7
