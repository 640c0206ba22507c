"""The command line as a user meets it: what it prints where, and how it ends."""

import contextlib
import fcntl
import json
import os
import pty
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from testing.synthetic import make_run
from tests.support import patient
from tests.support.commandkit import CHECKOUT, ullage
from ullage.common import errors
from ullage.host import leftovers

PLAN = """\
name: small
baseline: native
image: host
resources: {cpus: 1, memory: 256MiB}
environments:
  native: {provider: native}
  other: {provider: native}
workloads:
  - {name: command, argv: [sleep, "0.03"], vary: {timeout_s: [5, 6]}}
  - {name: command, as: nothing, argv: ["true"]}
blocks: {min: 6, max: 6}
"""


@pytest.fixture(autouse=True)
def places_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("STATE", "DATA", "CACHE"):
        monkeypatch.setenv(f"ULLAGE_{name}_DIR", str(tmp_path / name.lower()))
    monkeypatch.setenv("COLUMNS", "200")


def write_plan(folder: Path, text: str = PLAN) -> Path:
    file = folder / "plan.yaml"
    file.write_text(text)
    return file


def test_init_writes_a_plan_once_that_dry_runs(tmp_path: Path) -> None:
    assert ullage("init", cwd=tmp_path).code == 0
    again = ullage("init", cwd=tmp_path)
    assert again.code == 2
    assert errors.PLAN_EXISTS.code in again.stderr
    assert "hint:" in again.stderr
    assert ullage("init", "--force", cwd=tmp_path).code == 0
    dry = ullage("run", "plan.yaml", "--dry-run", cwd=tmp_path)
    assert dry.code == 0, dry.stderr
    assert "5 environments × 4 workloads" in dry.stdout
    assert "native~again" in dry.stdout
    assert not (tmp_path / "runs").exists()


TOO_LARGE = """
name: large
baseline: native
design: duet
resources: {cpus: 1000}
environments: {native: {provider: native}, other: {provider: native}}
workloads: [{name: command, argv: ["true"]}]
"""


def test_a_plan_for_a_larger_host_is_looked_at_and_not_begun(tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text(TOO_LARGE)
    dry = ullage("run", "plan.yaml", "--dry-run", cwd=tmp_path)
    assert dry.code == 0
    assert "not on this host: the plan asks for 2000 CPUs" in dry.stderr
    done = ullage("run", "plan.yaml", cwd=tmp_path)
    assert done.code == errors.HOST_TOO_SMALL.exit_code
    assert "error[host-too-small]" in done.stderr
    assert not (tmp_path / "runs").exists()


def test_dry_run_in_json(tmp_path: Path) -> None:
    write_plan(tmp_path)
    forecast = json.loads(ullage("run", "plan.yaml", "--dry-run", "--json", cwd=tmp_path).stdout)
    assert forecast["environments"] == ["native", "other", "native~again"]
    assert len(forecast["order"]) == 9
    assert forecast["least_s"] > 0
    assert forecast["learned"] is False


def test_the_schema_describes_plans(tmp_path: Path) -> None:
    schema = json.loads(ullage("init", "--schema", cwd=tmp_path).stdout)
    assert {"name", "baseline", "environments", "workloads"} <= set(schema["properties"])


@pytest.mark.parametrize("argv", [["run"], ["run", "plan.yaml", "--resume", "x"]])
def test_run_wants_one_of_two(tmp_path: Path, argv: list[str]) -> None:
    done = ullage(*argv, cwd=tmp_path)
    assert done.code == 2
    assert "--resume" in done.stderr


def test_a_bad_plan_costs_nothing(tmp_path: Path) -> None:
    write_plan(tmp_path, PLAN.replace("argv", "arg"))
    done = ullage("run", "plan.yaml", cwd=tmp_path)
    assert done.code == 2
    assert errors.PLAN_UNKNOWN_FIELD.code in done.stderr
    assert "plan.yaml:9" in done.stderr
    assert "did you mean argv?" in done.stderr
    assert done.stdout == ""
    assert not (tmp_path / "runs").exists()


@pytest.mark.root
def test_run_interrupt_resume_and_every_view(tmp_path: Path, agent_binary: Path) -> None:
    """Two providers' worth of path on one: two workloads, a factor, Ctrl-C, resume, reports."""
    write_plan(tmp_path)
    argv = [sys.executable, "-m", patient.__name__, "run", "plan.yaml", "--runs", "my runs"]
    env = os.environ | {"PYTHONPATH": str(CHECKOUT)}
    controller = subprocess.Popen(argv, cwd=tmp_path, env=env, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while len(list(tmp_path.glob("my runs/*/trials/*"))) < 10 and time.monotonic() < deadline:
        time.sleep(0.01)
    controller.send_signal(signal.SIGINT)
    _, stderr = controller.communicate(timeout=60)
    assert controller.returncode == 130, stderr
    (run,) = (tmp_path / "my runs").iterdir()
    assert f"ullage run --resume 'my runs/{run.name}'" in stderr

    again = ("run", "--resume", run.name, "--runs", "my runs", "--json")
    done = ullage(*again, cwd=tmp_path, module=patient.__name__)
    assert done.code == 0, done.stderr
    answer = json.loads(done.stdout)
    assert Path(tmp_path, answer["report"]).is_file()
    assert sum('"event":"trial"' in line for line in (run / "journal.jsonl").open()) == 54

    table = ullage("show", str(run), cwd=tmp_path)
    assert "other: native" in table.stdout
    (tmp_path / "my runs").rename(tmp_path / "runs")
    run = tmp_path / "runs" / run.name
    listed = json.loads(ullage("list", "--json", cwd=tmp_path).stdout)
    assert [run["finished"] for run in listed] == ["blocks"]
    counted = ullage(
        "query", "select count(*) as n from samples where is_primary", "--json", cwd=tmp_path
    )
    assert json.loads(counted.stdout) == [{"n": 54}]
    learned = json.loads(ullage("run", "plan.yaml", "--dry-run", "--json", cwd=tmp_path).stdout)
    assert learned["learned"] is True
    by_name = ("run", "plan.yaml", "--dry-run", "--json", "--pilot", run.name)
    assert json.loads(ullage(*by_name, cwd=tmp_path).stdout)["learned"] is True


@pytest.mark.root
@pytest.mark.parametrize("how", ["signal", "terminal"])
def test_a_hang_up_tears_down(tmp_path: Path, agent_binary: Path, how: str) -> None:
    """As when an ssh session drops: the terminal is gone, and whoever writes to it fails."""
    write_plan(tmp_path, PLAN.replace("max: 6", "max: 60"))
    ours, theirs = pty.openpty()
    controller = subprocess.Popen(
        [sys.executable, "-m", "ullage", "run", "plan.yaml"],
        cwd=tmp_path,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - no thread yet
    )
    os.close(theirs)
    os.set_blocking(ours, False)
    deadline = time.monotonic() + 60
    while len(list(tmp_path.glob("runs/*/trials/*"))) < 5 and time.monotonic() < deadline:
        with contextlib.suppress(BlockingIOError):
            os.read(ours, 4096)
        time.sleep(0.01)
    (journal,) = tmp_path.glob("runs/*/journal.jsonl")
    tag = json.loads(journal.read_text().splitlines()[0])["tag"]
    if how == "signal":
        controller.send_signal(signal.SIGHUP)
    else:
        os.close(ours)
    assert controller.wait(60) == 130
    assert leftovers.find(tag) == []
    assert json.loads(journal.read_text().splitlines()[-1])["reason"] == "interrupted"
    if how == "signal":
        os.close(ours)


@pytest.mark.lab
def test_views_of_a_run_from_elsewhere(tmp_path: Path) -> None:
    run = make_run(tmp_path / "runs" / "copied")
    csv = ullage("export", str(run), cwd=tmp_path)
    assert csv.code == 0, csv.stderr
    assert csv.stdout.splitlines()[0].startswith("run,environment")
    for form in ("json", "latex", "parquet"):
        out = tmp_path / f"table.{form}"
        assert (
            ullage("export", str(run), "--format", form, "--out", str(out), cwd=tmp_path).code == 0
        )
        assert out.stat().st_size > 500
    wrong = ullage("export", str(run), "--format", "xls", cwd=tmp_path)
    assert errors.EXPORT_UNKNOWN_FORMAT.code in wrong.stderr
    report = ullage("report", str(run), "--out", str(tmp_path / "page.html"), cwd=tmp_path)
    assert report.code == 0, report.stderr
    assert "<html" in (tmp_path / "page.html").read_text()
    assert json.loads(ullage("show", str(run), "--json", cwd=tmp_path).stdout)["comparisons"]


HOSTILE = "\x1b]0;pwned\x07\x1b[2J\x9b2J\u202e[red]"


@pytest.mark.parametrize(
    "argv",
    [
        ["show", "RUN"],
        ["list"],
        ["export", "RUN"],
        ["export", "RUN", "--format", "json"],
        ["export", "RUN", "--format", "latex"],
        [
            "query",
            "select reason as \"x\x1b[2J\", environment_label from samples where reason != ''",
        ],
        ["query", "select '\x1b[2J' as x, pwned"],
        ["query", "select pwned from samples", "--json"],
        ["show", f"runs/no{HOSTILE}"],
    ],
)
def test_a_hostile_run_does_not_steer_the_terminal(tmp_path: Path, argv: list[str]) -> None:
    run = make_run(tmp_path / "runs" / f"copied{HOSTILE}", blocks=6, raw=False)
    label = '"label": "'
    resolved = (run / "resolved.json").read_text()
    hostile = json.dumps(HOSTILE).strip('"')
    (run / "resolved.json").write_text(resolved.replace(label, f"{label}{hostile}"))
    journal = (run / "journal.jsonl").read_text()
    (run / "journal.jsonl").write_text(journal.replace('"message":"', f'"message":"{hostile}'))
    bad = make_run(tmp_path / "runs" / f"bad{HOSTILE}", blocks=1, raw=False)
    (bad / "resolved.json").write_text("{}")
    done = ullage(*(str(run) if word == "RUN" else word for word in argv), cwd=tmp_path)
    printed = done.stdout + done.stderr
    assert "pwned" in printed
    assert not set(printed) & set("\x1b\x07\x9b\u202e")


@pytest.mark.parametrize("argv", [["show", "RUN", "--details"], ["list"], ["export", "RUN"]])
def test_no_word_of_a_guest_begins_a_line(tmp_path: Path, argv: list[str]) -> None:
    run = make_run(tmp_path / "runs" / "copied\nforged", blocks=6, raw=False)
    for name, before in (
        ("resolved.json", '"label": "'),
        ("resolved.json", '"title": "'),
        ("journal.jsonl", '"message":"'),
        ("journal.jsonl", '"facts":{'),
    ):
        word = '"tool":"x\\nforged",' if before.endswith("{") else "x\\nforged\\u2028forged"
        text = (run / name).read_text()
        (run / name).write_text(text.replace(before, f"{before}{word}").replace('",}', '"}'))
    done = ullage(*(str(run) if word == "RUN" else word for word in argv), cwd=tmp_path)
    assert done.code == 0, done.stderr
    assert "forged" in done.stdout
    lines = (done.stdout + done.stderr).splitlines()
    assert not [line for line in lines if line.lstrip(" \"'│").startswith("forged")]


def test_no_such_run(tmp_path: Path) -> None:
    for command in ("show", "report", "export"):
        done = ullage(command, "runs/absent", cwd=tmp_path)
        assert done.code == 2
        assert errors.RUN_NOT_FOUND.code in done.stderr


def test_bad_sql_is_the_users(tmp_path: Path) -> None:
    make_run(tmp_path / "runs" / "one")
    done = ullage("query", "selec 1", cwd=tmp_path)
    assert done.code == 2
    assert errors.QUERY_FAILED.code in done.stderr


@pytest.mark.lab
def test_doctor_tells_machines_too(tmp_path: Path) -> None:
    done = ullage("doctor", "--json", cwd=tmp_path)
    document = json.loads(done.stdout)
    states = {finding["what"]: finding["state"] for finding in document["findings"]}
    assert states["CPUs"] in ("ok", "limited")
    assert all(f["hint"] for f in document["findings"] if f["state"] != "ok")
    assert done.code == int("missing" in states.values())
    assert document["host"]["cpus"] == sorted(os.sched_getaffinity(0))


def test_a_reader_that_has_enough_is_no_failure(tmp_path: Path) -> None:
    write_plan(tmp_path)
    command = [sys.executable, "-m", "ullage", "run", "plan.yaml", "--dry-run"]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        stderr = process.stderr.read().decode()
    assert process.returncode == 0, stderr
    assert "Broken pipe" not in stderr and "Traceback" not in stderr


def test_a_folder_without_runs_says_so(tmp_path: Path) -> None:
    done = ullage("list", cwd=tmp_path)
    assert (done.code, done.stdout) == (0, "")
    assert "no runs in runs" in done.stderr


def test_what_is_to_be_compared_and_is_not_there_is_named(tmp_path: Path) -> None:
    done = ullage("compare", "nope1", "nope2", cwd=tmp_path)
    assert done.code == 2 and "there is no nope1 nor nope2" in done.stderr
