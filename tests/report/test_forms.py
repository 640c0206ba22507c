"""What other tools would write: written, and read again by `compare`."""

from __future__ import annotations

import dataclasses
import json
import math
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from testing.synthetic import make_run
from tests.support import commandkit
from tests.support.commandkit import Done
from ullage.analysis import overhead
from ullage.analysis.tables import forms as readers
from ullage.analysis.tables.forms import FormRow
from ullage.common import errors
from ullage.report import export, forms
from ullage.runs.reader import RunFolder
from ullage.runs.records import Metric, WorkloadRecord

compare = commandkit.in_this_process("compare")
exported = commandkit.in_this_process("export")
TIMES = ("hyperfine", "pytest-benchmark", "google-benchmark")
PLAN = """\
name: forms
baseline: native
image: host
environments:
  native: {provider: native}
  other: {provider: native}
workloads:
  - {name: command, as: app, argv: [sleep, "0.01"]}
blocks: {min: 6, max: 6}
"""


@pytest.fixture(scope="module")
def timed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of times."""
    place = tmp_path_factory.mktemp("forms")
    (place / "plan.yaml").write_text(PLAN)
    done = commandkit.ullage("run", "plan.yaml", cwd=place)
    assert done.code == 0, done.stderr
    (folder,) = (place / "runs").iterdir()
    return folder


def test_every_form_has_a_writer() -> None:
    assert (*forms.DOCUMENTS, "prometheus") == export.TOOLS


@pytest.mark.root
@pytest.mark.parametrize("form", TIMES)
def test_times_come_back_as_they_were(
    timed: Path, form: str, exported: Callable[..., Done], tmp_path: Path
) -> None:
    file = tmp_path / "times.json"
    done = exported(str(timed), "--format", form, "--out", str(file))
    assert done.code == 0, done.stderr
    folder = RunFolder.open(timed)
    expected = sorted(trial.metrics["seconds"] for trial in folder.trials)
    assert sorted(row.value or math.nan for row in readers.read(file)) == expected


@pytest.mark.root
def test_compare_reads_what_was_written(
    timed: Path, exported: Callable[..., Done], compare: Callable[..., Done], tmp_path: Path
) -> None:
    file = tmp_path / "times.json"
    assert exported(str(timed), "--format", "hyperfine", "--out", str(file)).code == 0
    answer = compare(str(file), "--baseline", "native/app/seconds", "--json")
    assert answer.code == 0, answer.stderr
    document = json.loads(answer.stdout)
    names = {c["environment"] for c in (*document["comparisons"], *document["again"])}
    assert names == {"other/app/seconds", "native~again/app/seconds"}


def test_other_figures_go_to_reframe_and_prometheus(tmp_path: Path) -> None:
    folder = RunFolder.open(make_run(tmp_path / "run", blocks=8))
    analysis = overhead.analyse(folder)
    report = json.loads(forms.write(folder, analysis, "reframe"))
    assert {case["environ"] for case in report["runs"][0]["testcases"]} >= {"native", "container"}
    text = forms.write(folder, analysis, "prometheus").decode()
    samples = [
        sample for family in text_string_to_metric_families(text) for sample in family.samples
    ]
    ratios = {
        (s.labels["environment"], s.labels["workload"], s.labels["metric"]): s.value
        for s in samples
        if s.name == "ullage_ratio"
    }
    assert ratios == {
        (c.environment, c.workload, c.metric): c.ratio
        for c in analysis.primary()
        if c.ratio is not None
    }


PAINTED = WorkloadRecord(
    key="paint",
    workload="paint",
    resource="cpu",
    title="paints",
    parameters={},
    duration_s=1.0,
    metrics=(
        Metric(name="seconds", unit="s", better="lower", description="time", primary=True),
        Metric(name="cpu_seconds", unit="s", better="lower", description="of CPUs"),
    ),
)
LOST = [(1, "container", "paint"), (4, "container", "paint"), (2, "native", "paint")]


@pytest.fixture
def painted(tmp_path: Path) -> RunFolder:
    """A run of times in which three trials failed."""
    return RunFolder.open(make_run(tmp_path / "run", workloads=[PAINTED], failures=LOST))


@pytest.mark.parametrize("form", (*TIMES, "reframe"))
def test_a_trial_that_failed_is_not_dropped(painted: RunFolder, form: str, tmp_path: Path) -> None:
    file = tmp_path / "times.json"
    file.write_bytes(forms.write(painted, overhead.analyse(painted), form))
    rows = readers.read(file)
    assert len(rows) == len(painted.trials)
    lost = sorted("container" in row.environment for row in rows if row.value is None)
    assert lost == [False, True, True]
    (reason,) = {t.reason.code for t in painted.trials if t.reason is not None}
    assert file.read_text().count(reason) == len(LOST)


def test_a_case_whose_trial_lacks_one_of_two_figures_keeps_the_other(painted: RunFolder) -> None:
    first = next(trial for trial in painted.trials if trial.status == "ok")
    whole = forms.MeasuredFigure(
        painted.resolved.environments[0], PAINTED, PAINTED.metrics[0], painted.trials
    )
    other = dataclasses.replace(whole, metric=PAINTED.metrics[1])
    trial = first.model_copy(update={"metrics": {"seconds": 2.0}})
    case = forms.reframe_case(trial, [whole, other])
    assert (case["result"], case["fail_phase"]) == ("fail", "performance")
    document = readers.Reframe.model_validate({"session_info": {}, "runs": [{"testcases": [case]}]})
    assert {row.metric: row.value for row in document.rows()} == {
        "seconds": 2.0,
        "cpu_seconds": None,
    }


def test_time_of_the_cpu_is_the_program_s_or_nobody_s(timed: Path, painted: RunFolder) -> None:
    folder = RunFolder.open(timed)
    document = json.loads(forms.write(folder, overhead.analyse(folder), "google-benchmark"))
    expected = sorted(trial.metrics["cpu_seconds"] for trial in folder.trials)
    assert sorted(item["cpu_time"] for item in document["benchmarks"]) == expected
    for trial in painted.trials:
        trial.metrics.pop("cpu_seconds", None)
    document = json.loads(forms.write(painted, overhead.analyse(painted), "google-benchmark"))
    assert not any("cpu_time" in item for item in document["benchmarks"])


@pytest.mark.parametrize("form", TIMES)
def test_a_run_without_times_is_refused_by_name(tmp_path: Path, form: str) -> None:
    folder = RunFolder.open(make_run(tmp_path / "run", blocks=6))
    with pytest.raises(errors.UllageError) as refusal:
        forms.write(folder, overhead.analyse(folder), form)
    assert refusal.value.kind is errors.EXPORT_NOTHING_FITS


def test_hyperfine_s_own_file(tmp_path: Path, compare: Callable[..., Done]) -> None:
    file = tmp_path / "h.json"
    command = [shutil.which("hyperfine") or "hyperfine", "--style=none", "--runs=6", "-N"]
    command += [f"--export-json={file}", "sleep 0.01", "sleep 0.1"]
    subprocess.run(command, check=True, capture_output=True)
    answer = compare(str(file), "--baseline", "sleep 0.01", "--json")
    assert answer.code == 0, answer.stderr
    (comparison,) = json.loads(answer.stdout)["comparisons"]
    assert comparison["environment"] == "sleep 0.1"
    assert comparison["ratio"] > 1


HYPERFINE = {"results": [{"command": "a", "times": [1, 2], "exit_codes": [0, 1]}]}
GOOGLE = {
    "context": {},
    "benchmarks": [
        {"name": "BM_a", "run_type": "iteration", "real_time": 5, "time_unit": "ms"},
        {"name": "BM_a", "run_type": "iteration", "error_occurred": True},
        {"name": "BM_a_mean", "run_type": "aggregate", "real_time": 5},
    ],
}
REFRAME = {
    "session_info": {},
    "runs": [
        {
            "testcases": [
                {
                    "name": "stream",
                    "system": "here",
                    "environ": "gnu",
                    "perfvars": [{"name": "triad", "value": 9, "unit": "GB/s"}],
                },
                {
                    "name": "stream",
                    "system": "here",
                    "environ": "gnu",
                    "result": "fail",
                    "fail_phase": "sanity",
                    "perfvars": None,
                },
                {
                    "name": "stream",
                    "system": "here",
                    "environ": "gnu",
                    "result": "fail",
                    "fail_phase": "performance",
                    "perfvars": [{"name": "triad", "value": 2, "unit": "GB/s"}],
                },
                {"name": "skipped", "system": "here", "result": "skip"},
                {"name": "never", "system": "here", "environ": "gnu", "result": "fail"},
            ]
        }
    ],
}


@pytest.mark.parametrize(
    ("document", "rows"),
    [
        (
            HYPERFINE,
            [
                FormRow("a", "command", "time", 1, "s", "lower"),
                FormRow("a", "command", "time", None, "s", "lower"),
            ],
        ),
        (
            GOOGLE,
            [
                FormRow("BM_a", "benchmark", "time", 0.005, "s", "lower"),
                FormRow("BM_a", "benchmark", "time", None, "s", "lower"),
            ],
        ),
        (
            REFRAME,
            [
                FormRow("here:gnu", "stream", "triad", 9, "GB/s", None),
                FormRow("here:gnu", "stream", "triad", None, "GB/s", None),
                FormRow("here:gnu", "stream", "triad", 2, "GB/s", None),
                FormRow("here:gnu", "never", "performance", None, "", None),
            ],
        ),
    ],
)
def test_what_failed_has_no_value_and_aggregates_are_no_measurements(
    tmp_path: Path, document: object, rows: list[FormRow]
) -> None:
    file = tmp_path / "f.json"
    file.write_text(json.dumps(document))
    assert readers.read(file) == rows


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "no JSON document"),
        ('{"a": 1}', "JSON of none of hyperfine"),
        ('{"results": []}', "results"),
        ('{"results": [{"command": "a", "times": [1], "exit_codes": [0, 0]}]}', "one exit code"),
        ('{"results": [{"command": "a", "times": [1e999]}]}', "times.0"),
        ('{"context": {}, "benchmarks": [{"name": "a", "run_type": "aggregate"}]}', "of its own"),
    ],
)
def test_bad_documents(tmp_path: Path, text: str, reason: str) -> None:
    file = tmp_path / "f.json"
    file.write_text(text)
    with pytest.raises(errors.UllageError) as refusal:
        readers.read(file)
    assert refusal.value.kind is errors.TABLE_NOT_READABLE
    assert reason in refusal.value.message
