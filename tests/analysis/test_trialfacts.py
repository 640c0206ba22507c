"""What trials tell beside their figures is shown: on the terminal and in the report."""

import json
from pathlib import Path

import pytest

from testing.synthetic import SCRIPT, WORKLOADS, make_run
from tests.support import commandkit
from ullage.analysis import overhead, trialfacts
from ullage.report.page import write
from ullage.runs.reader import RunFolder

LIMITS = ("the servers' CPUs", "the servers' CPUs", "none found", "the link", "this host's CPUs")
WORK = WORKLOADS[0]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six blocks, in which the limit was not always the same; one trial tells and then fails."""
    path = make_run(
        tmp_path_factory.mktemp("told") / "run", blocks=6, workloads=WORKLOADS[:2], failures=()
    )
    journal = path / "journal.jsonl"
    events = [json.loads(line) for line in journal.read_text().splitlines()]
    mine = [
        event
        for event in events
        if event.get("workload") == WORK.key and event.get("environment") in ("native", "vm")
    ]
    limits = iter(LIMITS)
    for event in mine:
        event["facts"] = {"server": f"nginx\x1b[31m{SCRIPT}"}
        if event["environment"] == "vm":
            event["facts"]["limit"] = next(limits, "of a trial that failed")
    failed = next(e for e in mine if e.get("facts", {}).get("limit") == "of a trial that failed")
    failed |= {"status": "failed", "metrics": {}, "reason": {"code": "lost", "message": "it went"}}
    journal.write_text("".join(json.dumps(event) + "\n" for event in events))
    return path


def test_one_value_or_how_many_trials_have_each(run: Path) -> None:
    native, vm = trialfacts.trial_facts(RunFolder.open(run), WORK.key)
    assert [name for name, _ in native.facts] == ["server"]
    assert " of " not in dict(native.facts)["server"]
    assert dict(vm.facts)["limit"] == (
        "the servers' CPUs (2 of 5); none found (1 of 5); the link (1 of 5); 1 more that differ"
    )
    assert "\x1b" not in dict(native.facts)["server"]


def test_who_has_none_is_not_named(run: Path) -> None:
    assert trialfacts.trial_facts(RunFolder.open(run), WORKLOADS[1].key) == []


def test_show_details_prints_them(run: Path) -> None:
    wide = {"COLUMNS": "200", "NO_COLOR": "1"}
    output = commandkit.ullage("show", str(run), "--details", environment=wide).stdout
    assert "  limit: the servers' CPUs (2 of 5); none found" in output
    assert "limit: " not in commandkit.ullage("show", str(run), environment=wide).stdout


def test_the_report_has_them_as_text(run: Path) -> None:
    folder = RunFolder.open(run)
    page = write(folder, overhead.analyse(folder)).read_text()
    assert page.count("What the trials told") == 1
    assert "the servers&#39; CPUs (2 of 5)" in page
    assert f"nginx␛[31m{SCRIPT}" not in page
