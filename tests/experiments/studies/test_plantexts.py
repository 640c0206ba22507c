"""A plan of a study as it is run here: with the run of an earlier step, that says a node's room."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from testing.synthetic import make_run
from ullage.cli.live.terminal import ElasticProgress, RunProgress
from ullage.common import errors
from ullage.common.errors import ExitCode, UllageError
from ullage.experiments.studies import finding, get, plantexts, running, yourclouds
from ullage.experiments.studies.base import StudyPlan
from ullage.experiments.studies.elastic_clock.study import QUICK
from ullage.experiments.studies.plantexts import Choices, Clouds
from ullage.runs.writer import new_folder

STUDY = get("elastic-clock")
*_, ROOM, MOVIE, CLOUD_MOVIE = QUICK
VIEWS = running.Views(RunProgress, ElasticProgress)
BOTH = (ROOM.name, MOVIE.name)


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Path]]:
    """What the study runs, plan by plan, in place of running it: step 1 ends, with trials."""
    folders: list[tuple[str, Path]] = []

    def run_one(plan: StudyPlan, folder: Path, _: running.Views) -> ExitCode:
        folders.append((plan.name, folder))
        if plan.name == ROOM.name:
            measured(folder.parent, folder.name)
        return ExitCode.DONE

    monkeypatch.setattr(running, "_run_one", run_one)
    monkeypatch.setattr(running, "_check_one", lambda *_: None)
    return folders


def measured(runs: Path, name: str = "20260101T000000-elastic-clock-room-quick") -> Path:
    return make_run(runs / name, blocks=3, failures=(), raw=False, name=ROOM.name)


def request(runs: Path, *only: str, resume: bool = False) -> running.StudyRequest:
    return running.StudyRequest(quick=True, runs=runs, only=only, resume=resume)


def room_of(folder: Path) -> object:
    return yaml.safe_load((folder / "plan.yaml").read_text(encoding="utf-8"))["room"]


def test_the_run_of_step_1_is_handed_to_step_2(
    tmp_path: Path, begun: list[tuple[str, Path]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its whole path, as --resume may be typed elsewhere; and it is the one just made."""
    monkeypatch.chdir(tmp_path)
    measured(Path("runs"))
    folders, code = running.run(STUDY, VIEWS, request(Path("runs"), *BOTH))
    assert code == ExitCode.DONE
    assert [name for name, _ in begun] == [ROOM.name, MOVIE.name]
    here = str(tmp_path / folders[ROOM.name])
    assert room_of(folders[MOVIE.name]) == {"capacity": here, "environment": "lxc"}
    assert "20260101T000000" not in here


def test_step_2_alone_takes_the_newest_run_of_step_1(
    tmp_path: Path, begun: list[tuple[str, Path]]
) -> None:
    measured(tmp_path)
    newest = measured(tmp_path, "20260102T000000-elastic-clock-room-quick")
    folders, _ = running.run(STUDY, VIEWS, request(tmp_path, MOVIE.name))
    assert [name for name, _ in begun] == [MOVIE.name]
    assert room_of(folders[MOVIE.name]) == {"capacity": str(newest), "environment": "lxc"}


def _without_its_end(run: Path) -> None:
    journal = run / "journal.jsonl"
    lines = journal.read_text(encoding="utf-8").splitlines(keepends=True)
    kept = [line for line in lines if json.loads(line)["event"] != "finished"]
    assert len(kept) < len(lines)
    journal.write_text("".join(kept), encoding="utf-8")


@pytest.mark.parametrize("step", ["never run", "not ended"])
def test_step_2_alone_says_what_it_lacks_and_begins_nothing(
    tmp_path: Path, begun: list[tuple[str, Path]], step: str
) -> None:
    runs = tmp_path / "my runs"
    if step == "not ended":
        _without_its_end(measured(runs))
    with pytest.raises(UllageError) as caught:
        running.run(STUDY, VIEWS, request(runs, MOVIE.name))
    assert caught.value.kind is errors.STUDY_NO_ROOM
    assert f"{MOVIE.name} takes its nodes' room from {ROOM.name}" in caught.value.message
    again = f"--quick --plan {ROOM.name} --plan {MOVIE.name} --runs '{runs}'"
    assert f"`ullage study run elastic-clock {again}` measures it first" in caught.value.hint
    assert begun == []


@pytest.mark.parametrize("damaged", [True, False])
def test_a_later_run_of_step_1_that_did_not_end_is_passed_over(
    tmp_path: Path, begun: list[tuple[str, Path]], damaged: bool
) -> None:
    """By who asks for a room, and by who looks for what was killed with that room in its text."""
    run = measured(tmp_path)
    later = measured(tmp_path, "20260102T000000-elastic-clock-room-quick")
    if damaged:
        (later / "journal.jsonl").write_text("{", encoding="utf-8")
    else:
        _without_its_end(later)
    folders, _ = running.run(STUDY, VIEWS, request(tmp_path, MOVIE.name))
    killed = folders[MOVIE.name]
    assert room_of(killed) == {"capacity": str(run), "environment": "lxc"}
    again, _ = running.run(STUDY, VIEWS, request(tmp_path, MOVIE.name, resume=True))
    assert again == {MOVIE.name: killed}


@pytest.mark.parametrize("room", [True, False])
def test_what_was_killed_before_it_said_what_it_is_goes_on(tmp_path: Path, room: bool) -> None:
    """Its plan is told by its text, in which the path of step 1's run stands."""
    run = measured(tmp_path)
    folder = new_folder(tmp_path, MOVIE.name)
    (folder / "plan.yaml").write_bytes(plantexts.text(STUDY, MOVIE, room=run if room else None))
    assert finding.begun(STUDY, [MOVIE], tmp_path) == ({MOVIE.name: folder} if room else {})


def test_disks_are_in_the_text_of_what_was_killed_early(tmp_path: Path) -> None:
    """It was begun anew: its text was held against the one without disks."""
    study = get("flash-energy")
    plan = next(plan for plan in study.plans(quick=True) if plan.disks)
    disks = Choices((tmp_path / "a", tmp_path / "b"))
    folder = new_folder(tmp_path / "runs", plan.name)
    (folder / "plan.yaml").write_bytes(plantexts.text(study, plan, disks))
    assert finding.begun(study, [plan], tmp_path / "runs", disks) == {plan.name: folder}
    assert finding.begun(study, [plan], tmp_path / "runs", Choices(disks.disks[:1])) == {}


def test_a_number_stands_for_the_room_until_step_1_has_run() -> None:
    """So that the rest of the plan is checked before anything starts."""
    assert yaml.safe_load(plantexts.text(STUDY, MOVIE))["room"] == 1


PLAN = """\
name: mine
baseline: container
resources: {cpus: 2, memory: 2GiB}
allow: [pinning]
environments:
  container: {provider: oci}
  far:
    provider: openstack
    cloud: 'my "own" cloud'
    flavor: m1.small
    boot_image: debian-12
    price: {per_hour: 0.02, currency: EUR}
  other: {provider: ec2, flavor: t3.small, boot_image: INSTANCE}
workloads:
  - {name: sysbench-cpu}
"""


def test_clouds_of_the_users_plan_are_asked(tmp_path: Path) -> None:
    """Field by field, each under a name of its own, and of the size that the plan says."""
    file = tmp_path / "plan.yaml"
    file.write_text(PLAN, encoding="utf-8")
    clouds = yourclouds.read(file)
    plan = next(plan for plan in QUICK if plan.cloud)
    text = plantexts.text(STUDY, plan, Choices(clouds=clouds))
    written, user = yaml.safe_load(text), yaml.safe_load(PLAN)
    assert written["resources"] == user["resources"]
    assert written["environments"].pop("here") == {"provider": "lxc"}
    assert written["environments"] == {
        name: user["environments"][name] for name in ("far", "other")
    }
    folder = new_folder(tmp_path / "runs", plan.name)
    (folder / "plan.yaml").write_bytes(text)
    killed = finding.begun(STUDY, [plan], tmp_path / "runs", Choices(clouds=clouds))
    assert killed == {plan.name: folder}


def test_a_plan_without_a_cloud_is_none_to_ask(tmp_path: Path) -> None:
    file = tmp_path / "plan.yaml"
    head, _, tail = PLAN.partition("  far:")
    file.write_text(head + tail[tail.index("workloads") :], encoding="utf-8")
    with pytest.raises(UllageError) as caught:
        yourclouds.read(file)
    assert caught.value.kind is errors.STUDY_WANTS_CLOUD
    assert "plan.yaml has no environment in one" in caught.value.message


def test_a_plan_that_asks_a_cloud_is_left_out_without_one(tmp_path: Path) -> None:
    clouds = Clouds({"far": {"provider": "openstack"}}, {}, Path("my plan.yaml"))
    without = running.StudyRequest(quick=True, runs=tmp_path)
    chosen = running.StudyRequest(quick=True, runs=tmp_path, choices=Choices(clouds=clouds))
    asking = [plan for plan in chosen.plans(STUDY) if plan not in without.plans(STUDY)]
    assert asking and all(plan.cloud for plan in asking)
    left_out = [name for name, option in without.left_out(STUDY) if "--cloud PLAN" in option]
    assert left_out == [plan.name for plan in asking]
    plan = asking[0]
    assert chosen.command(STUDY)[-4:-2] == ["--cloud", "my plan.yaml"]
    with pytest.raises(UllageError) as caught:
        running.StudyRequest(quick=True, only=(plan.name,)).plans(STUDY)
    assert caught.value.kind is errors.STUDY_WANTS_CLOUD
    with pytest.raises(UllageError) as caught:
        running.StudyRequest(True, only=(MOVIE.name,), choices=Choices(clouds=clouds)).plans(STUDY)
    assert caught.value.kind is errors.STUDY_NO_CLOUDS


@pytest.mark.parametrize(
    ("name", "image"),
    [("instance", "INSTANCE CLOUD"), ("a" * 40, "im\U0001f600ge: #1"), ("here", "debian-12")],
)
def test_whatever_a_cloud_is_called_it_is_asked_as_it_stands(name: str, image: str) -> None:
    fields = {"provider": "openstack", "flavor": "m1", "boot_image": image, "host_key": "console"}
    clouds = Clouds({name: fields}, {"cpus": 1}, Path("plan.yaml"))
    for plan in (plan for plan in QUICK if plan.cloud):
        written = yaml.safe_load(plantexts.text(STUDY, plan, Choices(clouds=clouds)))
        environments = written["environments"]
        assert environments["here"] == {"provider": "lxc"}
        (key,) = environments.keys() - {"here"}
        assert key == ("here-cloud" if name == "here" else name)
        assert environments[key] == fields


def test_a_run_that_asked_another_cloud_is_not_gone_on_with(tmp_path: Path) -> None:
    """Another one is paid for."""
    (plan,) = (plan for plan in QUICK if plan.cloud and not plan.elastic)
    cheap, dear = (
        Choices(clouds=Clouds({"far": {"provider": "ec2", "flavor": size}}, {}, Path("p.yaml")))
        for size in ("t3.nano", "p5.48xlarge")
    )
    run = make_run(tmp_path / f"20260101T000000-{plan.name}", blocks=3, raw=False, name=plan.name)
    (run / "plan.yaml").write_bytes(plantexts.text(STUDY, plan, cheap))
    assert finding.begun(STUDY, [plan], tmp_path, cheap) == {plan.name: run}
    assert finding.begun(STUDY, [plan], tmp_path, dear) == {}


@pytest.mark.parametrize("more", ["instances: 2", "userland: own", "vary: {zone: [a, b]}"])
def test_what_a_study_says_itself_is_refused(tmp_path: Path, more: str) -> None:
    """In the words of the user's plan, not in those of one that nobody wrote."""
    file = tmp_path / "plan.yaml"
    text = PLAN.replace("boot_image: INSTANCE", f"boot_image: ami-1, {more}")
    file.write_text(text, encoding="utf-8")
    with pytest.raises(UllageError) as caught:
        yourclouds.read(file)
    assert caught.value.kind is errors.STUDY_WANTS_CLOUD
    assert f"other in {file} has `{more.partition(':')[0]}`" in caught.value.message
