"""`sysbench-cpu` on this host."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from tests.workloads.workload_runs import checked, printing, run
from ullage.workloads.base import InvalidTrialError
from ullage.workloads.cpu.sysbench_cpu import SysbenchCpu, SysbenchCpuParameters

CPU = SysbenchCpu()


def test_a_timed_run_gives_a_rate_and_no_total_time(tmp_path: Path) -> None:
    parameters = SysbenchCpuParameters(threads=2, prime=2000)
    outputs = run(CPU, parameters, tmp_path)
    figures = checked(CPU, parameters, outputs)
    assert "total_time_s" not in figures
    assert figures["latency_avg_s"] <= figures["latency_max_s"]
    assert f"{figures['events_per_second']:.2f}\n" in outputs["main"].stdout


def test_a_counted_run_gives_a_total_time_too(tmp_path: Path) -> None:
    parameters = SysbenchCpuParameters(prime=80_000, events=23)
    outputs = run(CPU, parameters, tmp_path)
    figures = checked(CPU, parameters, outputs)
    assert set(figures) == {metric.name for metric in CPU.metrics}
    assert "events:              23\n" in outputs["main"].stdout


def test_another_prime_limit_or_count_is_not_what_was_asked(tmp_path: Path) -> None:
    outputs = run(CPU, SysbenchCpuParameters(prime=1000, events=23), tmp_path)
    with pytest.raises(InvalidTrialError, match="Prime numbers limit: 2000"):
        CPU.check(SysbenchCpuParameters(prime=2000, events=23), outputs)
    with pytest.raises(InvalidTrialError, match="29 events were asked for, 23 were done"):
        CPU.check(SysbenchCpuParameters(prime=1000, events=29), outputs)
    with pytest.raises(InvalidTrialError, match="1 s were asked for"):
        CPU.check(SysbenchCpuParameters(prime=1000, time_s=1), outputs)


def test_a_rate_too_low_to_read(tmp_path: Path) -> None:
    parameters = SysbenchCpuParameters(prime=1000, events=23)
    outputs = run(CPU, parameters, tmp_path)
    lines = outputs["main"].stdout.split("\n")
    text = "\n".join("    events per second:     0.00" if "per second" in s else s for s in lines)
    with pytest.raises(InvalidTrialError, match="lower `prime`"):
        CPU.check(parameters, printing(outputs, "main", text))


def test_a_run_that_ends_with_status_1(tmp_path: Path) -> None:
    parameters = SysbenchCpuParameters.model_construct(threads=0, prime=1000, time_s=1, events=None)
    with pytest.raises(InvalidTrialError, match=r"status 1.*FATAL"):
        CPU.check(parameters, run(CPU, parameters, tmp_path))


def test_titles_and_the_published_series() -> None:
    assert CPU.title(SysbenchCpuParameters()) == "CPU, 1 thread"
    published = SysbenchCpuParameters(threads=32, prime=50_000 + 30_000 * 32, events=10_000)
    assert CPU.title(published) == "CPU, 32 threads"
    assert CPU.duration_s(published) > CPU.duration_s(SysbenchCpuParameters(events=10_000))


def test_bounds() -> None:
    with pytest.raises(ValidationError):
        SysbenchCpuParameters(prime=2)
