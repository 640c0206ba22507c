"""A run by the bare name of its folder, and printed commands that can be pasted."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from testing.synthetic import make_run
from tests.analysis.profilekit import made_profile
from tests.experiments.elastic.elastic_made import SyntheticRun, make
from tests.support.commandkit import ullage
from ullage.common import errors
from ullage.runs.reader import named, typed

NAME = "20260101T000000-a"
OTHER = "20260102T000000-b"
TAKE_A_RUN = (
    ("show", NAME),
    ("report", NAME),
    ("export", NAME),
    ("weigh", NAME, "--weights", "cpu=1"),
    ("compare", NAME, OTHER),
    ("profile", "--load", "p.json", "--run", NAME),
)

PLAN = """\
name: a
baseline: native
image: host
environments:
  native: {provider: native}
  other: {provider: native}
workloads:
  - {name: command, argv: ["true"]}
"""
ELASTIC = """\
name: a
room: 4
environments:
  lxc: {provider: lxc}
arrivals: {kind: poisson, rate: 0.01, viewers: 20}
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs in runs/, one in `my runs`, and a profile."""
    at = tmp_path_factory.mktemp("named")
    for name in (NAME, OTHER):
        make_run(at / "runs" / name, blocks=6, failures=(), raw=False)
    make_run(at / "my runs" / "else", blocks=6, failures=(), raw=False)
    profile = made_profile({"cpu": 0.6, "memory+disk": 0.3, "network": 0.0})
    (at / "p.json").write_text(profile.model_dump_json())
    return at


@pytest.mark.parametrize("argv", TAKE_A_RUN, ids=lambda argv: argv[0])
def test_a_bare_name_is_that_of_a_folder_in_runs(place: Path, argv: tuple[str, ...]) -> None:
    done = ullage(*argv, cwd=place)
    assert done.code == 0, done.stderr
    assert done.stdout
    slashed = tuple(f"no/{word}" if word == NAME else word for word in argv)
    done = ullage(*slashed, cwd=place)
    assert done.code == 2


@pytest.mark.parametrize("argv", TAKE_A_RUN, ids=lambda argv: argv[0])
def test_other_places_are_named_by_an_option(place: Path, argv: tuple[str, ...]) -> None:
    renamed = ("else" if word in (NAME, OTHER) else word for word in argv)
    done = ullage(*renamed, "--runs", "my runs", cwd=place)
    assert done.code == 0, done.stderr


def test_the_newest_is_looked_for_there_too(place: Path) -> None:
    done = ullage("report", "--runs", "my runs", cwd=place)
    assert done.code == 0, done.stderr
    assert done.stdout == "my runs/else/report.html\n"


def test_an_elastic_run_too(tmp_path: Path) -> None:
    run = make(tmp_path / "runs", SyntheticRun(repetitions=2))
    done = ullage("elastic", "show", run.name, cwd=tmp_path)
    assert done.code == 0, done.stderr
    done = ullage("show", run.name, cwd=tmp_path)
    assert errors.RUN_OF_ANOTHER_KIND.code in done.stderr
    assert f"`ullage elastic show runs/{run.name}`" in done.stderr


@pytest.mark.parametrize("command", ["show", "report", "export"])
def test_the_same_command_for_an_elastic_run_is_named(tmp_path: Path, command: str) -> None:
    run = make(tmp_path / "runs", SyntheticRun(repetitions=2, viewers=5))
    done = ullage(command, run.name, cwd=tmp_path)
    assert errors.RUN_OF_ANOTHER_KIND.code in done.stderr
    (_, hint) = done.stderr.splitlines()
    works = shlex.split(hint.split("`")[1])
    assert works == ["ullage", "elastic", command, f"runs/{run.name}"]
    assert ullage(*works[1:], cwd=tmp_path).code == 0


def test_two_elastic_runs_are_compared_by_another_command(tmp_path: Path) -> None:
    old = make(tmp_path / "my runs", SyntheticRun(repetitions=2, viewers=5, name="old"))
    new = make(tmp_path / "my runs", SyntheticRun(repetitions=2, viewers=5, name="new"))
    done = ullage("compare", old.name, new.name, "--runs", "my runs", cwd=tmp_path)
    assert errors.RUN_OF_ANOTHER_KIND.code in done.stderr
    works = shlex.split(done.stderr.splitlines()[1].split("`")[1])
    assert works[1:3] == ["elastic", "report"]
    # The first is what the others are compared with.
    assert works[3:] == [f"my runs/{new.name}", "--against", f"my runs/{old.name}"]
    done = ullage(*works[1:], cwd=tmp_path)
    assert done.code == 0 and "Both are" not in done.stdout, done.stderr


def test_an_interrupted_run_is_taken_up_by_its_name(tmp_path: Path) -> None:
    for command, plan in ((("run",), PLAN), (("elastic", "run"), ELASTIC)):
        folder = tmp_path / "runs" / f"20260101T000000-{command[0]}"
        folder.mkdir(parents=True)
        (folder / "plan.yaml").write_text(plan)
        done = ullage(*command, "--resume", folder.name, "--dry-run", cwd=tmp_path)
        assert done.code == 0, done.stderr
        for absent in ("absent", f"no/{folder.name}"):
            done = ullage(*command, "--resume", absent, cwd=tmp_path)
            assert done.code == 2
            assert errors.RUN_NOT_FOUND.code in done.stderr


def test_a_run_of_another_kind_is_taken_up_by_another_command(tmp_path: Path) -> None:
    elastic = make(tmp_path / "my runs", SyntheticRun(repetitions=2))
    ordinary = make_run(tmp_path / "my runs" / NAME, blocks=1, failures=(), raw=False)
    for command, run, command_of_kind in (
        (("run",), elastic, "elastic run"),
        (("elastic", "run"), ordinary, "run"),
    ):
        (run / "plan.yaml").write_text(PLAN)
        done = ullage(*command, "--resume", run.name, "--runs", "my runs", cwd=tmp_path)
        assert errors.RUN_OF_ANOTHER_KIND.code in done.stderr
        assert f"`ullage {command_of_kind} --resume 'my runs/{run.name}'`" in done.stderr


def test_a_pilot_is_found_by_its_name(place: Path) -> None:
    (place / "plan.yaml").write_text(PLAN)
    argv = ("run", "plan.yaml", "--dry-run", "--json", "--pilot")
    assert ullage(*argv, NAME, cwd=place).json["pilot"]["blocks"] == 6
    done = ullage(*argv, "absent", cwd=place)
    assert errors.RUN_NOT_FOUND.code in done.stderr


def test_only_a_bare_name_without_such_a_path_is_looked_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    runs = tmp_path / "runs"
    for name in ("a", "here", "x/y"):
        (runs / name).mkdir(parents=True)
    Path("here").mkdir()
    assert named(Path("a"), runs) == runs / "a"
    for text in ("here", "x/y", "/a", "./../a", "..", ".", "absent"):
        assert named(Path(text), runs) == Path(text)


def test_a_path_as_it_is_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert typed(tmp_path / "runs" / "a") == "runs/a"
    assert typed(Path("runs/it's mine")) == shlex.quote("runs/it's mine")
    assert typed(Path("/else/a b")) == "'/else/a b'"
    assert typed(Path("-a")) == "./-a"


@pytest.mark.parametrize(
    ("profile", "runs"), [("my runs/else", "runs"), ("else", "my runs")], ids=["path", "name"]
)
def test_the_command_that_a_profile_prints_works(place: Path, profile: str, runs: str) -> None:
    done = ullage("profile", "--load", "p.json", "--run", profile, "--runs", runs, cwd=place)
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("ullage weigh "))
    assert line.startswith("ullage weigh 'my runs/else' --weights ")
    weighed = ullage(*shlex.split(line)[1:], cwd=place)
    assert weighed.code == 0, weighed.stderr


def test_one_run_is_not_compared_and_the_command_for_it_works(place: Path) -> None:
    done = ullage("compare", "my runs/else", cwd=place)
    assert done.code == 2
    assert "`ullage show 'my runs/else'` shows one" in " ".join(
        done.stderr.replace("│", " ").split()
    )


def test_a_run_that_did_not_end_names_the_command_that_takes_it_up(tmp_path: Path) -> None:
    make_run(tmp_path / "my runs" / "a", blocks=6, raw=False, finished=False)
    done = ullage("show", "my runs/a", "--json", cwd=tmp_path)
    advice = [doubt["advice"] for doubt in done.json["doubts"]]
    assert "Take it up: `ullage run --resume 'my runs/a'`." in advice


def test_the_plan_that_was_written_is_named_as_it_is_typed(tmp_path: Path) -> None:
    (tmp_path / "my plans").mkdir()
    done = ullage("init", "my plans/a.yaml", cwd=tmp_path)
    (line,) = done.stderr.splitlines()
    command = shlex.split(line.partition("next: ")[2])
    assert command == ["ullage", "run", "my plans/a.yaml"]
