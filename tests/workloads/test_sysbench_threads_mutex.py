"""`sysbench-threads` and `sysbench-mutex` on this host."""

from pathlib import Path

import pytest

from tests.workloads.workload_runs import checked, printing, run
from ullage.workloads.base import InvalidTrialError
from ullage.workloads.cpu.sysbench_mutex import SysbenchMutex, SysbenchMutexParameters
from ullage.workloads.cpu.sysbench_threads import SysbenchThreads, SysbenchThreadsParameters

THREADS, MUTEX = SysbenchThreads(), SysbenchMutex()


def test_a_timed_run_of_threads(tmp_path: Path) -> None:
    parameters = SysbenchThreadsParameters(threads=2, locks=4)
    figures = checked(THREADS, parameters, run(THREADS, parameters, tmp_path))
    assert "total_time_s" not in figures


def test_the_rate_of_threads_is_events_by_time(tmp_path: Path) -> None:
    parameters = SysbenchThreadsParameters(threads=2, events=211)
    figures = checked(THREADS, parameters, run(THREADS, parameters, tmp_path))
    assert figures["events_per_second"] == 211 / figures["total_time_s"]


def test_fewer_events_of_threads(tmp_path: Path) -> None:
    outputs = run(THREADS, SysbenchThreadsParameters(events=23), tmp_path)
    with pytest.raises(InvalidTrialError, match="29 events were asked for, 23 were done"):
        THREADS.check(SysbenchThreadsParameters(events=29), outputs)


def test_mutexes(tmp_path: Path) -> None:
    parameters = SysbenchMutexParameters(threads=2, locks=20_000, mutexes=16)
    figures = checked(MUTEX, parameters, run(MUTEX, parameters, tmp_path))
    assert figures["latency_avg_s"] <= figures["total_time_s"]


def test_a_thread_that_did_not_work(tmp_path: Path) -> None:
    parameters = SysbenchMutexParameters(threads=2, locks=1000)
    outputs = run(MUTEX, parameters, tmp_path)
    text = outputs["main"].stdout.replace("events:              2\n", "events:              1\n")
    with pytest.raises(InvalidTrialError, match="1 of 2 threads"):
        MUTEX.check(parameters, printing(outputs, "main", text))


def test_titles() -> None:
    assert THREADS.title(SysbenchThreadsParameters(threads=2)) == "thread switching, 2 threads"
    assert MUTEX.title(SysbenchMutexParameters()) == "mutexes, 1 thread"
