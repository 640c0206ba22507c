"""What the trials of `provisioning` in an ordinary run say of how long nodes take to come."""

import json
from pathlib import Path
from typing import Any

import pytest

from testing.synthetic import make_run
from ullage.common import errors
from ullage.common.errors import ErrorKind, UllageError
from ullage.experiments.elastic.analysis import latencies
from ullage.runs.allocations import Batch, Copy, InstanceSteps
from ullage.runs.reader import RunFolder
from ullage.runs.records import EnvironmentRecord, Metric, WorkloadRecord

MS = 1_000_000
ENVIRONMENTS = [
    EnvironmentRecord(key="native", label="native", provider="native"),
    EnvironmentRecord(key="native~again", label="native", provider="native", again_of="native"),
    EnvironmentRecord(key="lxc", label="lxc", provider="lxc"),
]


def workload(count: int, copied: Copy = "backing", name: str = "provisioning") -> WorkloadRecord:
    parameters = {"count": count, "copy": copied}
    return WorkloadRecord(
        key=f"{name}[count={count},copy={copied}]",
        workload=name,
        resource="other",
        title=f"allocate {count}",
        parameters=parameters,
        factors=parameters,
        metrics=(Metric(name="t", unit="s", better="lower", primary=True, description=""),),
        duration_s=1.0,
    )


def batch(count: int, each_ms: int) -> str:
    """The n-th is asked for n ms after the first, and takes n ms more than it."""
    instances = []
    for n in range(count):
        asked_ns = 1_000 * MS + n * MS
        steps = {
            "asked": asked_ns,
            "up": asked_ns + (each_ms + n) * MS,
            "replied": asked_ns + 900 * MS,
        }
        instances.append(
            InstanceSteps(name=f"i{n}", steps=steps, release_asked=2_000 * MS, released=3_000 * MS)
        )
    return Batch(copy_kind="backing", applied=True, instances=tuple(instances)).model_dump_json()


def make_provisioned(root: Path, workloads: list[WorkloadRecord], *, failures: Any = ()) -> Path:
    """A run in which an instance takes as many ms as were asked for, in lxc 100 times as many."""
    run = make_run(
        root / "run",
        blocks=3,
        environments=ENVIRONMENTS,
        workloads=workloads,
        truth={},
        failures=failures,
        raw=False,
    )
    counts = {load.key: load.parameters["count"] for load in workloads}
    for trial in RunFolder.open(run).trials:
        place = run / "trials" / trial.trial
        place.mkdir(parents=True, exist_ok=True)
        count = counts[trial.workload]
        slow = 100 if trial.environment == "lxc" else 1
        (place / "main.stdout").write_text(batch(count, slow * count))
    return run


def refused(kind: ErrorKind, *source: Any) -> str:
    with pytest.raises(UllageError) as error:
        latencies.of_run(*source)
    assert error.value.kind is kind, error.value
    return error.value.message


def test_each_instance_counts_with_those_that_were_asked_for_with_it(tmp_path: Path) -> None:
    loads = [workload(1), workload(4), workload(1, name="sysbench-cpu")]
    run = make_provisioned(tmp_path, loads, failures=[(1, "lxc", loads[1].key)])
    latencies_by_number = latencies.of_run(run, "lxc")
    # Until it was up, from its own request: not from the first one, nor until it replied.
    assert latencies_by_number == {1: [0.1] * 3, 4: [0.4, 0.401, 0.402, 0.403] * 2}
    assert latencies.of_run(run, "native")[4][:4] == [0.004, 0.005, 0.006, 0.007]
    rows = latencies.rows(latencies_by_number)
    assert [row["concurrent"] for row in rows] == [1, 4]
    assert "with `environment` one of native, lxc" in refused(
        errors.SIMULATION_NO_LATENCIES, run, "vm"
    )
    assert "one of native, lxc" in refused(errors.SIMULATION_NO_LATENCIES, run, None)


def test_a_trial_with_several_iterations_has_several_batches(tmp_path: Path) -> None:
    run = make_provisioned(tmp_path, [workload(2)])
    first = next(t for t in RunFolder.open(run).trials if t.environment == "lxc")
    place = run / "trials" / first.trial
    for number in range(2):
        (place / f"main-i{number:02d}.stdout").write_text(batch(2, 300))
    (place / "main.stdout").unlink()
    assert sorted(latencies.of_run(run, "lxc")[2])[-4:] == [0.3, 0.3, 0.301, 0.301]


def test_one_way_to_copy_the_image_is_chosen_where_there_are_two(tmp_path: Path) -> None:
    run = make_provisioned(tmp_path, [workload(1), workload(2, "real")])
    assert "with `copy` one of backing, real" in refused(errors.SIMULATION_NO_LATENCIES, run, "lxc")
    assert set(latencies.of_run(run, "lxc", "real")) == {2}
    assert set(latencies.of_run(run, "lxc", "backing")) == {1}


def test_what_has_no_such_trials_says_so(tmp_path: Path) -> None:
    run = make_provisioned(tmp_path, [workload(1, name="sysbench-cpu")])
    message = refused(errors.SIMULATION_NO_LATENCIES, run, "lxc")
    assert "none of its workloads is provisioning" in message
    load = workload(1)
    failures = [(block, "lxc", load.key) for block in range(3)]
    failed = make_provisioned(tmp_path / "failed", [load], failures=failures)
    message = refused(errors.SIMULATION_NO_LATENCIES, failed, "lxc")
    assert "no trial of provisioning in lxc has figures" in message


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "the times of its instances are lost"),
        ("{}", "main.stdout is no record of a batch"),
        ("\udce4", "main.stdout is no record of a batch"),
        (batch(1, 5).replace('"up"', '"chosen"'), "was not asked for, then up"),
        (batch(1, -5), "was not asked for, then up"),
    ],
)
def test_a_record_that_somebody_has_changed(tmp_path: Path, text: str | None, reason: str) -> None:
    run = make_provisioned(tmp_path, [workload(1)])
    trial = next(t for t in RunFolder.open(run).trials if t.environment == "lxc")
    file = run / "trials" / trial.trial / "main.stdout"
    file.unlink()
    if text is not None:
        file.write_text(text, errors="surrogateescape")
    message = refused(errors.RUN_BAD_FORMAT, run, "lxc")
    assert reason in message and trial.trial in message


def test_a_trial_outside_of_the_folder_is_not_read(tmp_path: Path) -> None:
    run = make_provisioned(tmp_path, [workload(1)])
    journal = run / "journal.jsonl"
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    for line in lines:
        if line["event"] == "trial" and line["environment"] == "lxc":
            line["trial"] = f"../../../{line['trial']}"
    journal.write_text("".join(json.dumps(line) + "\n" for line in lines))
    refused(errors.RUN_BAD_FORMAT, run, "lxc")
