"""`ullage study …` as a user meets it: what it prints where, and how it ends."""

from __future__ import annotations

import html
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from testing.synthetic import make_run
from tests.experiments.elastic.elastic_made import SyntheticRun, make
from tests.experiments.studies import toystudy
from tests.support import commandkit
from tests.support.commandkit import CHECKOUT, Done, Ullage
from ullage.common import errors
from ullage.experiments.studies import STUDIES
from ullage.experiments.studies.base import StudyPlan
from ullage.runs.reader import RunFolder

DEADLINE_S = 120


ullage = commandkit.in_this_process("study")


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ullage: Ullage) -> Ullage:
    """The same with a toy in place of the studies."""
    monkeypatch.setenv(toystudy.PLACE, str(toystudy.write(tmp_path / "toy")))
    monkeypatch.setattr("ullage.experiments.studies.STUDIES", (toystudy.Toy,))
    return ullage


def toy_run(root: Path, name: str, stamp: str = "20260101T000000") -> Path:
    return make_run(root / f"{stamp}-{name}", blocks=6, failures=(), raw=False, name=name)


def test_list_says_what_each_asks_and_needs(ullage: Ullage) -> None:
    done = ullage("list")
    assert done.code == 0
    for study in STUDIES:
        assert study.name in done.stdout
        assert study.question in done.stdout
    assert "11 min" in done.stdout
    assert "needs root; the image" in done.stdout


def test_list_in_json(ullage: Ullage) -> None:
    studies = {row["name"]: row for row in json.loads(ullage("list", "--json").stdout)}
    assert set(studies) == {study.name for study in STUDIES}
    plan, windows = studies["cmu-overhead"]["quick"]
    assert windows["by_name"] is True and "by_name" not in plan
    assert plan["name"] == "cmu-overhead-quick"
    assert plan["minutes"] > 0


def test_show_recomputes_and_marks_what_disagrees(ullage: Ullage) -> None:
    done = ullage("show", "elastic-clock")
    assert done.code == 0
    assert "53 of them are known as printed: 49 agree to the last digit, 4 do not" in done.stdout
    assert "0.863 ≠ 2.11" in done.stdout
    assert "≠: the printed mean is a deviation" in done.stdout
    assert "Our own runs" not in done.stdout
    assert "165.7 = printed" in ullage("show", "flash-energy").stdout


def test_show_says_when_nothing_is_known_as_printed(ullage: Ullage) -> None:
    done = ullage("show", "network-pipeline")
    assert done.code == 0
    assert "None of them is known as printed" in done.stdout
    assert "17.22" in done.stdout


def test_show_in_json(ullage: Ullage) -> None:
    shown_json = json.loads(ullage("show", "elastic-clock", "--json").stdout)
    assert shown_json["fresh"] == []
    tables = {table["key"]: table for table in shown_json["published"]}
    share = tables["blocked"]["rows"][5]["cells"][0]
    assert share["printed"] == "2.11"
    assert share["agrees"] is False
    flash = json.loads(ullage("show", "flash-energy", "--json").stdout)
    (power,) = (table for table in flash["published"] if table["key"] == "power")
    assert power["rows"][0]["cells"][2]["agrees"] is True


@pytest.mark.parametrize("command", [["show"], ["run", "--quick"]])
def test_a_name_that_is_none(ullage: Ullage, command: list[str]) -> None:
    done = ullage(*command, "flash-enrgy")
    assert done.code == 2
    assert errors.STUDY_UNKNOWN.code in done.stderr
    assert "did you mean flash-energy?" in done.stderr


def test_run_wants_to_know_how_long(ullage: Ullage, tmp_path: Path) -> None:
    done = ullage("run", "cmu-overhead")
    assert done.code == 2
    assert "--quick or --full" in done.stderr
    assert not (tmp_path / "runs").exists()


def test_run_is_of_one_form(ullage: Ullage, tmp_path: Path) -> None:
    for argv in (("--quick", "--full"), ("--full", "--quick")):
        done = ullage("run", "cmu-overhead", *argv)
        assert done.code == 2
        assert "say --quick or --full, not both" in done.stderr
    assert not (tmp_path / "runs").exists()


def test_nothing_to_resume_begins_nothing(toy: Ullage, tmp_path: Path) -> None:
    toy_run(tmp_path / "my runs", "toy-a-full")
    done = toy("run", "toy", "--quick", "--resume", "--runs", "my runs")
    assert done.code == errors.STUDY_NOT_BEGUN.exit_code
    assert errors.STUDY_NOT_BEGUN.code in done.stderr
    assert "no run of toy-a-quick, toy-b-quick is in my runs" in done.stderr
    assert "`ullage study run toy --quick --runs 'my runs'` begins the study" in done.stderr
    assert len(list((tmp_path / "my runs").iterdir())) == 1


def test_a_run_of_the_study_by_its_name(toy: Ullage, tmp_path: Path) -> None:
    run = toy_run(tmp_path / "my runs", "toy-a-quick")
    done = toy("show", "toy", run.name, "--runs", "my runs", "--json")
    assert done.code == 0, done.stderr
    assert done.json["runs"] == {"toy-a-quick": f"my runs/{run.name}"}


def test_a_run_that_is_not_there(toy: Ullage) -> None:
    done = toy("show", "toy", "runs/none")
    assert done.code == 2
    assert errors.RUN_NOT_FOUND.code in done.stderr


@pytest.mark.parametrize("name", ["vm-or-container", "toy-c-quick", "\x1b[31mred"])
def test_the_run_of_another_study(toy: Ullage, tmp_path: Path, name: str) -> None:
    run = make_run(tmp_path / "other", blocks=6, failures=(), raw=False, name=name)
    done = toy("show", "toy", str(run))
    assert done.code == 2
    assert errors.STUDY_OTHER_RUN.code in done.stderr
    assert "toy-a-full, toy-a-quick, toy-b-quick" in done.stderr
    assert "\x1b" not in done.stderr


def test_an_elastic_run_of_another_study(toy: Ullage, tmp_path: Path) -> None:
    done = toy("show", "toy", str(make(tmp_path / "runs", SyntheticRun(repetitions=2))))
    assert done.code == 2
    assert errors.STUDY_OTHER_RUN.code in done.stderr
    assert "'made'" in done.stderr


def test_a_folder_that_does_not_say_what_it_is(toy: Ullage, tmp_path: Path) -> None:
    (tmp_path / "resolved.json").write_text("[]")
    done = toy("show", "toy", str(tmp_path))
    assert done.code == 2
    assert errors.RUN_BAD_FORMAT.code in done.stderr


def test_both_forms_or_one_plan_twice_are_not_put_together(toy: Ullage, tmp_path: Path) -> None:
    quick = toy_run(tmp_path, "toy-a-quick")
    full = toy_run(tmp_path, "toy-a-full")
    again = toy_run(tmp_path, "toy-a-quick", "20260102T000000")
    for second in (full, again):
        done = toy("show", "toy", str(quick), str(second))
        assert done.code == 2
        assert errors.STUDY_OTHER_RUN.code in done.stderr
        assert "one of toy-b-quick" in done.stderr


def test_without_runs_named_the_newest_form_is_shown(toy: Ullage, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    old = toy_run(runs, "toy-a-quick", "20260101T000000")
    new = toy_run(runs, "toy-a-quick", "20260103T000000")
    second = toy_run(runs, "toy-b-quick", "20260101T000001")
    toy_run(runs, "toy-a-full", "20260102T000000")
    toy_run(runs, "another", "20260104T000000")
    make(runs, SyntheticRun(repetitions=2))
    shown_json = json.loads(toy("show", "toy", "--json").stdout)
    assert shown_json["runs"] == {
        "toy-a-quick": str(new.relative_to(tmp_path)),
        "toy-b-quick": str(second.relative_to(tmp_path)),
    }
    assert old.is_dir()
    assert [table["key"] for table in shown_json["fresh"]] == ["toy-a-quick", "toy-b-quick"]


def test_fresh_figures_stand_beside_with_intervals_and_verdicts(
    toy: Ullage, tmp_path: Path
) -> None:
    done = toy("show", "toy", str(toy_run(tmp_path, "toy-a-quick")))
    assert done.code == 0
    assert "Our own runs" in done.stdout
    assert re.search(r" [\d.]+ \([\d.]+ to [\d.]+\) +worse", done.stdout)


def test_the_page_is_one_file_without_network_and_script(toy: Ullage, tmp_path: Path) -> None:
    toy_run(tmp_path / "runs", "toy-a-quick")
    out = tmp_path / "page.html"
    assert toy("show", "toy", "--out", str(out)).code == 0
    page = out.read_text(encoding="utf-8")
    assert page.rstrip().endswith("</html>")
    assert "default-src 'none'" in html.unescape(page)
    assert "<script" not in page
    assert not re.search(r"""(src|href)=["']?(https?:)?//""", page)
    for text in ("Does it run?", "5.3 ≠ 4.06", "165.7 = printed", "≠: other weights.", "verdict"):
        assert text in page
    assert "<h2>Question</h2>" in page
    assert "&lt;b&gt;Does it run?&lt;/b&gt;" in page, "HTML in a README is text"


def test_what_a_run_calls_itself_is_text_in_the_page(toy: Ullage, tmp_path: Path) -> None:
    run = toy_run(tmp_path / "runs", "toy-a-quick")
    file = run / "resolved.json"
    resolved = json.loads(file.read_text(encoding="utf-8"))
    resolved["environments"][-1]["label"] = "</td><img src=x onerror=alert(1)>\x1b[2J"
    file.write_text(json.dumps(resolved), encoding="utf-8")
    out = tmp_path / "page.html"
    done = toy("show", "toy", "--out", str(out))
    assert done.code == 0
    page = out.read_text(encoding="utf-8")
    assert "<img src=x" not in page
    assert "&lt;img src=x" in page
    assert "\x1b" not in page + done.stdout


# What follows runs real plans, on native instances of this host.


def places_of(cwd: Path, toy: Path) -> dict[str, str]:
    own = {f"ULLAGE_{name}_DIR": str(cwd / name.lower()) for name in ("STATE", "DATA", "CACHE")}
    return {toystudy.PLACE: str(toy), **own}


def started(*argv: str, cwd: Path, toy: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.experiments.studies.toystudy", "study", *argv],
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": str(CHECKOUT), **places_of(cwd, toy)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finished(*argv: str, cwd: Path, toy: Path) -> Done:
    return commandkit.ullage(
        "study",
        *argv,
        cwd=cwd,
        module=toystudy.__name__,
        timeout_s=DEADLINE_S,
        environment=places_of(cwd, toy),
    )


def test_a_study_runs_all_its_plans(tmp_path: Path, agent_binary: Path) -> None:
    toy = toystudy.write(tmp_path / "toy")
    done = finished("run", "toy", "--quick", "--json", cwd=tmp_path, toy=toy)
    assert done.code == 0, done.stderr
    shown_json = json.loads(done.stdout)
    assert list(shown_json["runs"]) == ["toy-a-quick", "toy-b-quick"]
    first, second = (tmp_path / path for path in shown_json["runs"].values())
    assert (first / "study.html").is_file()
    assert (first / "report.html").is_file()
    assert (second / "report.html").is_file()
    assert len(shown_json["fresh"]) == 2
    assert done.stderr.startswith("toy, quick: 2 plans, about 12 s on two quiet CPUs\n")
    assert "toy: plan toy-b-quick (2 of 2), about 6 s" in done.stderr
    assert {RunFolder.open(path).finished.reason for path in (first, second)} == {"blocks"}  # type: ignore[union-attr]


def test_cells_without_figures_are_told_by_the_exit_code(
    tmp_path: Path, agent_binary: Path
) -> None:
    toy = toystudy.write(tmp_path / "toy", second="'false'")
    done = finished("run", "toy", "--quick", cwd=tmp_path, toy=toy)
    assert done.code == errors.ExitCode.SOME_CELLS_FAILED, done.stderr
    assert "Our own runs" in done.stdout
    assert "study: " in done.stderr
    assert len(list((tmp_path / "runs").iterdir())) == 2


def test_no_plan_starts_when_one_of_them_cannot_run_here(tmp_path: Path) -> None:
    toy = toystudy.write(tmp_path / "toy", cpus=1000)
    done = finished("run", "toy", "--quick", cwd=tmp_path, toy=toy)
    assert done.code == errors.STUDY_TOO_LARGE.exit_code
    assert "1 of 2 plans of toy do not fit this host; toy-b-quick: the plan asks" in done.stderr
    assert "hint: `ullage study run toy --quick --plan toy-a-quick` runs those" in done.stderr
    assert not (tmp_path / "runs").exists()


def test_what_was_killed_before_it_said_what_it_is_goes_on(
    tmp_path: Path, agent_binary: Path
) -> None:
    """Its folder has the plan alone; else it and what it made would be left for ever."""
    toy = toystudy.write(tmp_path / "toy")
    folder = tmp_path / "runs" / "20260101T000000-toy-a-quick"
    folder.mkdir(parents=True)
    (folder / "plan.yaml").write_bytes((toy / "a-quick.yaml").read_bytes())
    (tmp_path / "runs" / "other").mkdir()
    os.mkfifo(tmp_path / "runs" / "other" / "plan.yaml")  # nobody waits for it
    done = finished("run", "toy", "--quick", "--resume", cwd=tmp_path, toy=toy)
    assert done.code == 0, done.stderr
    assert len(list((tmp_path / "runs").glob("*-toy-a-quick"))) == 1, "nothing was begun anew"
    assert RunFolder.open(folder).finished is not None


def test_a_plan_whose_files_find_no_room_is_refused_before_it_starts(
    toy: Ullage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = StudyPlan(name="toy-a-full", file="a-full.yaml", minutes=1, disk_gib=1e6)
    monkeypatch.setattr(toystudy.Toy, "plans", lambda _, quick: (plan,))
    done = toy("run", "toy", "--full")
    assert done.code == 2
    assert errors.HOST_TOO_SMALL.code in done.stderr
    assert "asks for 1e+06 GiB of disk for the files of toy-a-full" in done.stderr
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("argv", "kind", "words"),
    [
        (["--quick", "--plan", "toy-a-quik"], errors.STUDY_UNKNOWN_PLAN, "toy-a-quick?"),
        (["--quick", "--disk", "/tmp"], errors.STUDY_NO_DISKS, "leave out `--disk`"),
        (["--full", "--plan", "toy-disks-full"], errors.STUDY_WANTS_DISKS, "--disk /mnt/hdd"),
        (
            ["--full", "--plan", "toy-disks-full", "--disk", ".", "--disk", "runs"],
            errors.DISK_SHARED,
            "",
        ),
    ],
)
def test_plans_and_disks_that_cannot_be(
    toy: Ullage, tmp_path: Path, argv: list[str], kind: errors.ErrorKind, words: str
) -> None:
    (tmp_path / "runs").mkdir()
    done = toy("run", "toy", *argv)
    assert done.code == 2
    assert kind.code in done.stderr
    assert words in done.stderr
    assert list((tmp_path / "runs").iterdir()) == []


@pytest.fixture
def memory_disk() -> Iterator[Path]:
    """A directory in memory: another disk than that of the tests' own."""
    with TemporaryDirectory(dir="/dev/shm", prefix="ullage-test-") as place:
        yield Path(place)


def test_two_disks_in_one_run(tmp_path: Path, memory_disk: Path, agent_binary: Path) -> None:
    """Interleaved and compared: both in one folder, the first is the baseline."""
    toy = toystudy.write(tmp_path / "toy")
    only = ("--plan", "toy-disks-full", "--disk", str(tmp_path), "--disk", str(memory_disk))
    done = finished("run", "toy", "--full", *only, cwd=tmp_path, toy=toy)
    assert done.code == 0, done.stderr
    assert "toy, full: 1 plan, about 1 h 30 min on two quiet CPUs" in done.stderr
    (folder,) = (tmp_path / "runs").iterdir()
    resolved = RunFolder.open(folder).resolved
    assert resolved.baseline == "disk-1"
    places = {e.key: e.treatments["data on"] for e in resolved.environments if e.again_of is None}
    assert places["disk-1"].startswith(f"{tmp_path}: ")
    assert places["disk-2"].startswith(f"{memory_disk}: tmpfs on ")


def test_interrupted_and_resumed(tmp_path: Path, agent_binary: Path) -> None:
    toy = toystudy.write(tmp_path / "toy", second="sleep, '1'")
    runs = tmp_path / "my runs"
    process = started("run", "toy", "--quick", "--runs", "my runs", cwd=tmp_path, toy=toy)
    deadline = time.monotonic() + DEADLINE_S
    while not list(runs.glob("*-toy-b-quick/resolved.json")):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == errors.ExitCode.INTERRUPTED, stderr
    *_, hint = stderr.splitlines()
    words, _, again = hint.partition(": ")
    assert words == "that was one plan of the study; to go on with the whole of it"
    assert again == "ullage study run toy --quick --runs 'my runs' --resume"
    (first,) = runs.glob("*-toy-a-quick")
    journal = (first / "journal.jsonl").read_bytes()

    done = finished(*shlex.split(again)[2:], "--json", cwd=tmp_path, toy=toy)
    assert done.code == 0, done.stderr
    assert len(list(runs.iterdir())) == 2, "nothing was begun anew"
    assert (first / "journal.jsonl").read_bytes() == journal, "what had ended stays"
    (second,) = runs.glob("*-toy-b-quick")
    run = RunFolder.open(second)
    assert run.finished is not None and run.finished.reason == "blocks"
    assert len(run.sessions) == 2
