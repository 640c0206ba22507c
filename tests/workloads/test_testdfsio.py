"""What TestDFSIO printed, and texts that it never prints."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ByteSize, ValidationError

from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.plan import matrix, schema
from ullage.workloads.base import Context, InvalidTrialError, Output
from ullage.workloads.bigdata.testdfsio import (
    BINS,
    MIB,
    DeviceCounters,
    DfsIo,
    DfsIoParameters,
    network,
    read_job,
)

DATA = Path(__file__).resolve().parent / "data" / "testdfsio"
FIRST, SECOND = ((DATA / f"{name}-job.txt").read_text() for name in ("first", "second"))
WORKLOAD = DfsIo()
TWO = DfsIoParameters(jobs=2)
YARN = DfsIoParameters(runner="yarn", files=3, file_size=ByteSize(8 * MIB), datanode="same")
WRITE, READ = "1795410653585_0001", "1795410653585_0002"


def outputs(*texts: str, status: int = 0) -> Mapping[str, Output]:
    printed = (Output(status, None, text, "", 3.0 + i) for i, text in enumerate(texts))
    return {f"job-{i}": output for i, output in enumerate(printed)}


def test_the_figures_of_two_jobs() -> None:
    printed = outputs(FIRST, SECOND)
    WORKLOAD.check(TWO, printed)
    figures = WORKLOAD.parse(TWO, printed)
    first, second = (read_job(text) for text in (FIRST, SECOND))
    assert figures["seconds"] == 4.0, "the slowest"
    assert figures["write_throughput"] == (first.write.throughput + second.write.throughput) * MIB
    assert second.write.throughput == 6.49 and second.read.seconds == 18.25
    use = figures["network_use"]
    assert isinstance(use, list) and len(use) == BINS
    assert all(rate > 0 for _, rate in use)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Number of files: 2", "Number of files: 3"),
        ("Total MBytes processed: 32", "Total MBytes processed: 16"),
        ("Throughput mb/sec: 6.49", "Throughput mb/sec: 0"),
        ("Throughput mb/sec: 6.49", "Throughput mb/sec: NaN"),
        ("Throughput mb/sec: 6.49", "Throughput mb/sec: 6,49"),
        ("Throughput mb/sec: 6.49", "\x1fThroughput mb/sec: 6.49"),
        ("Throughput mb/sec: 6.49", "Throughput mb/sec: 6.49\x85"),
        ("Test exec time sec: 15.6", "Test exec time sec: -1"),
        ("----- : read", "----- : append"),
        ("step end\n", ""),
    ],
)
def test_what_was_not_done_as_asked_has_no_figures(old: str, new: str) -> None:
    assert old in SECOND
    with pytest.raises(InvalidTrialError):
        WORKLOAD.check(TWO, outputs(FIRST, SECOND.replace(old, new, 1)))


def test_a_job_that_ended_badly_has_no_figures() -> None:
    with pytest.raises(InvalidTrialError, match="status 254"):
        WORKLOAD.check(TWO, outputs(FIRST, SECOND, status=254))


@given(st.data())
def test_no_text_gives_a_figure_that_is_none(data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(FIRST)))
    end = data.draw(st.integers(at, min(len(FIRST), at + 60)))
    text = FIRST[:at] + data.draw(st.text(max_size=30)) + FIRST[end:]
    printed = outputs(text, SECOND)
    try:
        WORKLOAD.check(TWO, printed)
        figures = WORKLOAD.parse(TWO, printed)
    except InvalidTrialError:
        return
    for value in figures.values():
        points = [rate for _, rate in value] if isinstance(value, list) else [value]
        assert all(math.isfinite(point) and point > 0 for point in points)


def test_the_network_s_use_is_over_the_whole_time() -> None:
    second = 10**9
    samples = [
        DeviceCounters(0, 100),
        DeviceCounters(second, 100 + 50),
        DeviceCounters(4 * second, 100 + 50 + 300),
    ]
    use = network(samples)
    assert sum(rate for _, rate in use) / BINS == pytest.approx(350 / 4)
    assert use[0][0] == 0.05 and use[0][1] == pytest.approx(50.0)
    assert network(samples[:1]) == []
    with pytest.raises(InvalidTrialError):
        network([DeviceCounters(0, 100), DeviceCounters(second, 99)])


def test_each_job_and_server_is_told_where_it_stands() -> None:
    roles = {"namenode": "10.0.0.2", "datanode": "10.0.0.3", "job-0": "10.0.0.2"}
    context = Context(roles | {"job-1": "10.0.0.2"}, 1, 1 << 30, 1)
    tasks = {task.role: task for task in WORKLOAD.tasks(TWO, context)}
    assert tasks["datanode"].argv == ("./hadoop.sh", "10.0.0.2", "10.0.0.3", "256", "datanode")
    assert tasks["job-1"].argv[-7:] == ("dfsio", "1", "2", str(16 * MIB), "2", "local", "512")
    assert tasks["namenode"].service and tasks["namenode"].ready
    assert {role.place for role in WORKLOAD.roles(TWO)} == {"instance", "second"}
    same = WORKLOAD.roles(DfsIoParameters(datanode="same"))
    assert {role.place for role in same} == {"instance"}


def test_a_slow_machine_may_be_given_its_time() -> None:
    slow = YARN.model_copy(update={"timeout_s": 7200.0})
    context = Context({role.name: "10.0.0.2" for role in WORKLOAD.roles(slow)}, 1, 1 << 30, 1)
    (format_,) = WORKLOAD.prepare(slow, context)
    assert format_.timeout_s == 7200
    for task in WORKLOAD.tasks(slow, context):
        if task.service:
            assert task.ready_s == 7200 and task.timeout_s > 2 * 7200, "it outlives the jobs"
        else:
            assert task.timeout_s == 7200


def on_yarn() -> dict[str, Output]:
    """A job in a container, recorded: what it printed, its log, and lines of the NodeManager's."""
    text, log, node = ((DATA / f"yarn-{n}").read_text() for n in ("job.txt", "job.log", "node.log"))
    job = Output(0, None, text, log, 90.0)
    return {"job-0": job, "nodemanager": Output(0, None, "", node, 99.0)}


def test_a_job_on_yarn() -> None:
    submitted = on_yarn()
    WORKLOAD.check(YARN, submitted)
    assert WORKLOAD.parse(YARN, submitted)["seconds"] == 90.0
    applications = WORKLOAD.facts(YARN, submitted)["applications"]
    assert applications == f"application_{WRITE}, application_{READ}"
    assert WORKLOAD.facts(TWO, submitted) == {}


@pytest.mark.parametrize(
    ("role", "old", "new", "why"),
    [
        ("job-0", f"Running job: job_{READ}", "Running job: job_local7_0001", "not on YARN"),
        ("job-0", f"Submitted application application_{READ}", "", "1 were submitted, 2 done"),
        (
            "job-0",
            f"Job job_{READ} completed",
            "Job job_7_0001 completed",
            "2 were submitted, 2 done",
        ),
        ("job-0", "Launched map tasks=3", "Launched map tasks=2", r"launched \[2, 3\]"),
        ("job-0", "Launched map tasks=3\n", "", r"YARN launched \[3\]"),
        ("nodemanager", f"{READ}_01_000003 transitioned from SCHEDULED", "", "started 4 "),
        ("nodemanager", "to RUNNING", "to KILLING", "started 4 "),
    ],
)
def test_what_yarn_did_not_run_has_no_figures(role: str, old: str, new: str, why: str) -> None:
    applications = on_yarn()
    assert old in applications[role].stderr
    bent = replace(applications[role], stderr=applications[role].stderr.replace(old, new, 1))
    with pytest.raises(InvalidTrialError, match=why):
        WORKLOAD.check(YARN, {**applications, role: bent})


def test_what_a_job_says_without_end_is_not_repeated() -> None:
    applications = on_yarn()
    log = applications["job-0"].stderr + 9_000 * "Launched map tasks=7\n"
    with pytest.raises(InvalidTrialError, match="launched") as caught:
        WORKLOAD.check(YARN, {**applications, "job-0": replace(applications["job-0"], stderr=log)})
    assert len(str(caught.value)) < 200


def test_more_than_yarn_could_tell_of_is_refused() -> None:
    DfsIoParameters(jobs=8, files=125, runner="yarn")
    DfsIoParameters(jobs=8, files=126)
    with pytest.raises(ValidationError, match="at most 1000 files of all jobs"):
        DfsIoParameters(jobs=8, files=126, runner="yarn")


def test_too_little_memory_is_refused_in_the_plan() -> None:
    text = """name: dfs
baseline: native
resources: {{memory: {memory}}}
environments:
  native: {{provider: native}}
workloads:
  - {{name: testdfsio, runner: {runner}}}
"""
    with pytest.raises(UllageError) as caught:
        matrix.resolve(*schema.loads(text.format(memory="512MiB", runner="yarn")))
    assert caught.value.kind is errors.PLAN_IMPOSSIBLE_MATRIX
    complaint = "plan.yaml:7: testdfsio takes at least 1.0GiB of memory, and native has 512MiB"
    assert complaint in caught.value.message
    matrix.resolve(*schema.loads(text.format(memory="2GiB", runner="yarn")))
    matrix.resolve(*schema.loads(text.format(memory="512MiB", runner="local")))


def test_without_its_node_nothing_is_proved() -> None:
    with pytest.raises(InvalidTrialError, match="started 0 containers"):
        WORKLOAD.check(YARN, {"job-0": on_yarn()["job-0"]})


def test_yarn_s_memory_is_that_of_its_containers() -> None:
    roles = {role.name: "10.0.0.2" for role in WORKLOAD.roles(YARN)}
    tasks = {task.role: task for task in WORKLOAD.tasks(YARN, Context(roles, 1, 1 << 30, 1))}
    assert tasks["job-0"].argv[-2:] == ("yarn", "512")
    assert tasks["nodemanager"].argv[-1] == tasks["resourcemanager"].argv[-1] == str(3 * 512)
    assert WORKLOAD.title(YARN) == "HDFS, 3 × 8 MiB, 1 job on YARN"
    assert WORKLOAD.duration_s(YARN) > WORKLOAD.duration_s(DfsIoParameters())


def test_all_jars_are_listed_once() -> None:
    places = [artifact.path for artifact in WORKLOAD.artifacts]
    assert len(places) == len(set(places)) > 100
    assert "/opt/hadoop/hadoop-yarn-server-nodemanager-3.4.1.jar" in places
    assert "/opt/hadoop/hadoop-mapreduce-client-jobclient-3.4.1-tests.jar" in places
