"""`ullage profile` as a user meets it: what it prints where, and how it ends."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from testing.synthetic import make_run
from tests.analysis.profilekit import made_profile, survey
from tests.support import commandkit
from tests.support.commandkit import Ullage
from ullage.analysis.profiles.model import Profile
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.experiments.profile import disk
from ullage.experiments.profile import request as asking
from ullage.experiments.profile import run as running
from ullage.experiments.profile.request import ProfileRequest
from ullage.host import cgroups, leftovers, paths
from ullage.runs.reader import sessions

in_its_directory = commandkit.in_this_process("profile")


@pytest.fixture
def ullage(in_its_directory: Ullage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ullage:
    """The command with places of the test's own."""
    for name in ("STATE", "DATA", "CACHE"):
        monkeypatch.setenv(f"ULLAGE_{name}_DIR", str(tmp_path / name.lower()))
    return in_its_directory


@pytest.fixture
def saved(tmp_path: Path) -> str:
    profile = made_profile({"cpu": 0.6, "memory+disk": 0.3, "network": 0.0})
    (tmp_path / "p.json").write_text(profile.model_dump_json())
    return str(tmp_path / "p.json")


def test_weights_and_the_line_to_paste(ullage: Ullage, saved: str) -> None:
    done = ullage("--load", saved)
    assert done.code == 0, done.stderr
    assert done.stdout.startswith("What the 2 s of the command are, by how much slower it is")
    assert "memory + disk" in done.stdout
    # 0.6 : 0.15 : 0.15
    assert "ullage weigh RUN --weights cpu=0.66,memory=0.17,disk=0.17" in done.stdout
    assert "10 % of its time that no resource slows" in done.stdout
    assert "have one weight together" in done.stdout


def test_with_a_run_it_predicts(ullage: Ullage, saved: str, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", raw=False)
    done = ullage("--load", saved, "--run", str(run))
    assert done.code == 0, done.stderr
    assert "How many times longer than native it will take:" in done.stdout
    assert "qemu-tcg (emulated)" in done.stdout
    assert "cpu 60 % × " in done.stdout


def test_weights_that_the_data_do_not_hold_are_refused(
    ullage: Ullage, saved: str, tmp_path: Path
) -> None:
    known = Profile.model_validate_json(Path(saved).read_text())
    first, *others = known.weights
    share = first.share.model_copy(update={"low": 0.0, "high": 1.0})
    unknown = (first.model_copy(update={"share": share}), *others)
    wide = known.model_copy(update={"weights": unknown})
    (tmp_path / "wide.json").write_text(wide.model_dump_json())
    run = make_run(tmp_path / "run", raw=False)
    done = ullage("--load", "wide.json", "--run", str(run))
    assert done.code == 0, done.stderr
    assert "hold no weights: CPU may be 0 to 100 % of its time" in done.stdout
    assert "--weights" not in done.stdout and "it will take" not in done.stdout


def test_json_is_the_whole_result(ullage: Ullage, saved: str, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", raw=False)
    document = json.loads(ullage("--load", saved, "--run", str(run), "--json").stdout)
    assert Profile.model_validate(document["profile"]).weights[0].name == "cpu"
    assert {row["environment"] for row in document["prediction"]["predictions"]} >= {"vm"}
    assert json.loads(ullage("--load", saved, "--json").stdout)["prediction"] is None


def test_it_is_saved_whole(ullage: Ullage, saved: str, tmp_path: Path) -> None:
    assert ullage("--load", saved, "--save", "again.json").code == 0
    first = Profile.model_validate_json(Path(saved).read_text())
    assert Profile.model_validate_json((tmp_path / "again.json").read_text()) == first


@pytest.mark.parametrize("where", ["no/such/folder.json", "folder"])
def test_where_it_cannot_be_saved_is_said_before_it_is_measured(
    ullage: Ullage, tmp_path: Path, where: str
) -> None:
    (tmp_path / "folder").mkdir()
    done = ullage("--save", where, "--", "sleep", "0.2")
    assert done.code == errors.FILE_FAILED.exit_code
    assert f"error[{errors.FILE_FAILED.code}]: {where}: " in done.stderr
    assert not (tmp_path / "profiles").exists()  # nothing was measured


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ((), "give a command after `--`, or a profile with --load"),
        (
            ("--load", "p.json", "--", "true"),
            "a command and --load are given, and only one of them may be",
        ),
        (("--resources", "gpu", "--", "true"), "'gpu' is no resource"),
        (("--resources", "other", "--", "true"), "other cannot be slowed"),
        (("--resources", "cpu,cpu", "--", "true"), "cpu stands twice"),
        (("--budget", "soon", "--", "true"), "a duration such as 500ms"),
        (("--budget", "0s", "--", "true"), "--budget"),
        (("--repeat", "1", "--", "true"), "--repeat"),
    ],
)
def test_what_is_no_question_is_refused(
    ullage: Ullage, saved: str, argv: tuple[str, ...], message: str
) -> None:
    done = ullage(*argv)
    assert done.code == 2
    plain = " ".join(done.stderr.replace("│", " ").split())
    assert message in plain
    assert done.stdout == ""


def test_a_file_that_is_no_profile_is_refused(ullage: Ullage, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("{}")
    done = ullage("--load", "x.json")
    assert done.code == 2
    assert "error[profile-bad-file]: x.json is no profile" in done.stderr


def test_a_pipe_is_no_profile(ullage: Ullage, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.json")
    done = ullage("--load", "x.json")
    assert done.code == 2
    assert "x.json is no profile: it is not a regular file" in done.stderr


def test_a_profile_of_millions_of_wrong_values(ullage: Ullage, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"budgets":[' + ",".join(["[]"] * 1_000_000) + "]}")
    done = ullage("--load", "x.json")
    assert done.code == 2
    assert "more than 250,000 values" in done.stderr


@pytest.mark.root
@pytest.mark.parametrize("program", ["no-such-program", "./no-such-program", "/"])
def test_a_program_that_is_not_there_is_told_at_once(
    ullage: Ullage, tmp_path: Path, program: str
) -> None:
    done = ullage("--", program)
    assert (done.code, done.stdout) == (2, "")
    assert f"error[{errors.PROFILE_NO_PROGRAM.code}]" in done.stderr
    assert not (tmp_path / "profiles").exists()


@pytest.mark.root
def test_a_command_that_fails_gives_no_weights(
    ullage: Ullage, tmp_path: Path, agent_binary: Path
) -> None:
    done = ullage("--resources", "cpu", "--", "sh", "-c", "echo no luck >&2; exit 7")
    assert (done.code, done.stdout) == (3, "")
    assert f"error[{errors.PROFILE_FAILED.code}]" in done.stderr
    assert "7" in done.stderr and "no luck" in done.stderr
    assert nothing_left(tmp_path)


@pytest.mark.root
def test_alone_without_a_network_a_failure_says_so(
    ullage: Ullage, tmp_path: Path, agent_binary: Path
) -> None:
    done = ullage("--resources", "cpu,network", "--", "sh", "-c", "exit 1")
    assert done.code == 3
    assert "leave network out of `--resources`" in done.stderr
    assert nothing_left(tmp_path)


@pytest.mark.root
def test_a_command_of_no_length_is_refused(
    ullage: Ullage, tmp_path: Path, agent_binary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "LEAST_S", 1e6)  # however slow this machine is now
    done = ullage("--resources", "cpu", "--", "true")
    assert done.code == 2
    assert f"error[{errors.PROFILE_TOO_SHORT.code}]" in done.stderr
    assert nothing_left(tmp_path)


@pytest.mark.root
def test_what_could_not_be_counted_is_not_nothing(
    ullage: Ullage, tmp_path: Path, agent_binary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*_: object) -> None:
        raise OSError("gone")

    monkeypatch.setattr(disk, "requests", gone)
    if disk.tree() is None:
        pytest.skip("this host counts no requests")
    done = ullage("--resources", "cpu,disk", "--", "true")
    assert done.code == 3
    assert "could not be counted" in done.stderr
    assert nothing_left(tmp_path)


@pytest.mark.root
def test_a_budget_for_nothing_is_told_before_anything_is_slowed(
    ullage: Ullage, tmp_path: Path, agent_binary: Path
) -> None:
    done = ullage("--resources", "cpu", "--budget", "0.5s", "--", "sleep", "0.4")
    assert done.code == 2
    assert f"error[{errors.PROFILE_BUDGET.code}]" in done.stderr
    assert "the budget is 0.5 s" in done.stderr
    assert nothing_left(tmp_path)


@pytest.mark.root
def test_a_secret_of_the_environment_stands_in_no_file(
    ullage: Ullage, tmp_path: Path, agent_binary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN_OF_MINE", "hush-7261")
    done = ullage(
        "--resources", "cpu", "--", "sh", "-c", 'test -n "$TOKEN_OF_MINE" && pwd >here; exit 3'
    )
    assert "3" in done.stderr
    assert (tmp_path / "here").read_text().strip() == str(tmp_path)
    files = [file for file in (tmp_path / "profiles").rglob("*") if file.is_file()]
    assert files
    assert not [file for file in files if b"hush-7261" in file.read_bytes()]


def test_without_root_it_says_what_else_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(UllageError) as caught:
        asking.check(request(tmp_path))
    assert caught.value.kind is errors.HOST_NEEDS_ROOT
    assert "ullage weigh" in caught.value.hint


@pytest.mark.root
def test_what_this_host_cannot_slow_is_told_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda name, path=None: "/bin/true" if path else None)
    monkeypatch.setattr(disk, "tree", lambda: None)
    monkeypatch.setattr(cgroups, "available", lambda: {"cpu"})
    absent = asking.check(request(tmp_path))
    assert set(absent) == {"memory", "disk", "network"}
    assert absent["memory"] == "stress-ng is missing: apt-get install stress-ng"
    assert "tc missing" in absent["network"]
    monkeypatch.setattr(cgroups, "available", set)
    with pytest.raises(UllageError) as caught:
        asking.check(request(tmp_path))
    assert caught.value.kind is errors.PROFILE_NOTHING
    assert "no cgroup controller `cpu`" in caught.value.message


@pytest.mark.root
@pytest.mark.parametrize("resources", ["cpu", "cpu,memory,disk,network"])
def test_more_cpus_than_there_are(ullage: Ullage, tmp_path: Path, resources: str) -> None:
    cpus = len(os.sched_getaffinity(0))
    done = ullage("--cpus", str(cpus + 1), "--resources", resources, "--", "sleep", "1")
    assert (done.code, done.stdout) == (2, "")
    assert f"error[{errors.PROFILE_TOO_MANY_CPUS.code}]" in done.stderr
    assert f"`--cpus {cpus}` or fewer" in done.stderr
    assert "duet" not in done.stderr
    assert not (tmp_path / "profiles").exists()


def test_names_of_folders_are_plain(tmp_path: Path) -> None:
    names = {"/usr/bin/gcc": "gcc", "./my prog;rm": "my-prog-rm", "-x": "x-x", "é": "x"}
    for program, name in names.items():
        assert request(tmp_path, program).name == name


def request(directory: Path, program: str = "true") -> ProfileRequest:
    return ProfileRequest(
        argv=(program,), directory=directory, variables={"PATH": os.environ["PATH"]}
    )


def nothing_left(root: Path) -> bool:
    folders = [file.parent for file in root.rglob("journal.jsonl")]
    tags = [session.tag for folder in folders for session in sessions(folder)]
    assert tags
    assert all(paths.TAG.fullmatch(tag) for tag in tags)
    return all(leftovers.find(tag, own=True) == [] for tag in tags)


def test_the_kit_is_a_profile_of_its_survey() -> None:
    assert made_profile({"cpu": 1.0}).survey == survey()
