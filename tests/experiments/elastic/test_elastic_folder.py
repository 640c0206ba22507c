"""The folder of an elastic run: what was written is read again, and what is none is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.commandkit import ullage
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.experiments.elastic import folder as folders
from ullage.experiments.elastic.folder import (
    ElasticFinished,
    Lost,
    Ready,
    Release,
    RepetitionDone,
    RepetitionOutcome,
    Requested,
)
from ullage.experiments.elastic.plan import schema
from ullage.experiments.elastic.run.controller import Acts
from ullage.experiments.elastic.run.resolved import changes, resolved
from ullage.runs import records
from ullage.runs.events import Reason
from ullage.runs.reader import find_runs
from ullage.runs.records import NodeRecord
from ullage.workloads.web.clip import Clip

PLAN = """\
name: film
room: 4
environments: {box: {provider: oci}, late: {provider: oci, boot_delay: 40s}}
arrivals: {kind: poisson, rate: 0.01, viewers: 20}
time_scale: 60
"""
INSTANTS = st.integers(0, (1 << 62) - 1)


def record(text: str = PLAN, run: Path = Path("runs/a"), seed: int = 1) -> folders.ElasticResolved:
    plan, document = schema.loads(text)
    film = Clip(Path("film"), "bytes", "00", 1000, "a test")
    environments = schema.resolve(plan, document)
    return resolved(plan, environments, film, None, run=run, tag="u0000000", seed=seed)


def write(run: Path) -> folders.ElasticResolved:
    run.mkdir(parents=True)
    resolved_run = record(run=run)
    (run / records.RESOLVED).write_text(resolved_run.model_dump_json(indent=1), encoding="utf-8")
    return resolved_run


def test_the_plan_as_it_was_understood_is_read_again(tmp_path: Path) -> None:
    run = tmp_path / "runs" / "20261122T120000-film"
    resolved_run = write(run)
    assert folders.read_resolved(run) == resolved_run
    assert (resolved_run.patience_s, resolved_run.settings["late"].boot_delay_s) == (1, 40 / 60)
    assert resolved_run.users_time["boot_delay_s"] == {"box": 0, "late": 40}
    assert resolved_run.arrivals == {"kind": "poisson", "rate_hz": 0.6, "count": 20}
    assert [environment.key for environment in resolved_run.environments] == ["box", "late"]


def test_elastic_runs_and_others_lie_side_by_side(tmp_path: Path) -> None:
    for name in ("20261122T120000-film", "20261122T130000-film"):
        write(tmp_path / name)
    other = tmp_path / "20261122T140000-other"
    other.mkdir()
    (other / records.RESOLVED).write_text('{"format": 2}', encoding="utf-8")
    (tmp_path / "20261122T150000-begun").mkdir()
    assert folders.newest(tmp_path).name == "20261122T130000-film"
    assert folders.find(folders.newest(tmp_path)) == [folders.newest(tmp_path)]
    assert find_runs(tmp_path) == [other]
    assert find_runs(folders.newest(tmp_path)) == [], "it is listed once, as what it is"
    for nowhere in (tmp_path / "none", other):
        with pytest.raises(UllageError) as caught:
            folders.newest(nowhere)
        assert caught.value.kind is errors.RUN_NOT_FOUND


@given(
    node=st.integers(0, (1 << 31) - 1),
    times=st.lists(INSTANTS, min_size=5, max_size=5),
    why=st.text(),
)
def test_what_the_controller_did_is_read_again(
    tmp_path_factory: pytest.TempPathFactory, node: int, times: list[int], why: str
) -> None:
    folder = tmp_path_factory.mktemp("repetition")
    first, two, three, four, five = times
    did: list[folders.Act] = [
        Requested(node=node, instance="a", front_ns=first, at_ns=two),
        Ready(
            node=node,
            instance="a",
            address="10.0.0.1:80",
            asked_ns=first,
            made_ns=two,
            serving_ns=three,
            at_ns=four,
            stages={"TiI": 0.25},
            steps={"up": five},
        ),
        Release(node=node, instance="a", front_ns=first, asked_ns=two, at_ns=three, left=why),
    ]
    with Acts(folder / folders.CONTROLLER_LOG) as acts:
        for act in did:
            acts.add(act)
    assert list(folders.read_acts(folder)) == did
    with (folder / folders.CONTROLLER_LOG).open("ab") as file:
        file.write(b'{"event":"rea')  # killed while it wrote
    assert list(folders.read_acts(folder)) == did


def test_what_is_no_such_folder_is_refused_with_its_place(tmp_path: Path) -> None:
    run = tmp_path / "run"
    write(run)
    (run / records.JOURNAL).write_text('{"event":"party"}\n', encoding="utf-8")
    (run / folders.OUTCOME).write_text("{}", encoding="utf-8")
    (run / folders.CONTROLLER_LOG).write_text('{"event":"asked"}\n', encoding="utf-8")
    for read, where in (
        (folders.read_events, "journal.jsonl, line 1"),
        (folders.read_acts, "controller.jsonl, line 1: asked.node"),
        (folders.read_outcome, "outcome.json: environment"),
    ):
        with pytest.raises(UllageError) as caught:
            read(run)
        assert caught.value.kind is errors.RUN_BAD_FORMAT
        assert where in caught.value.message
    (run / records.RESOLVED).write_text('{"format": 1, "kind": "elastic"}', encoding="utf-8")
    with pytest.raises(UllageError) as caught:
        folders.read_resolved(run)
    assert caught.value.kind is errors.RUN_BAD_FORMAT
    with pytest.raises(UllageError) as caught:
        folders.read_resolved(tmp_path)
    assert caught.value.kind is errors.RUN_NOT_FOUND


def test_the_journal_and_outcomes_are_read_again(tmp_path: Path) -> None:
    reason = Reason(code="x", message="y")
    events: list[folders.ElasticEvent] = [
        RepetitionDone(
            environment="box", repetition=0, epoch_ns=1, seconds=2, status="failed", reason=reason
        ),
        ElasticFinished(epoch_ns=2, seconds=3, reason="interrupted"),
    ]
    lines = "".join(event.model_dump_json() + "\n" for event in events)
    (tmp_path / records.JOURNAL).write_text(lines + '{"event":"fin', encoding="utf-8")
    assert list(folders.read_events(tmp_path)) == events
    assert folders.read_outcome(tmp_path) is None
    outcome = RepetitionOutcome(
        environment="box",
        repetition=0,
        order=1,
        seed=2,
        status="invalid",
        reason=reason,
        epoch_ns=3,
        start_ns=4,
        end_ns=5,
    )
    (tmp_path / folders.OUTCOME).write_text(outcome.model_dump_json(), encoding="utf-8")
    assert folders.read_outcome(tmp_path) == outcome
    assert folders.repetition_folder(tmp_path, "a/b[x=1]", 7).relative_to(tmp_path) == Path(
        "repetitions/a-b-x-1/007"
    )


@pytest.mark.parametrize(
    ("old", "new", "fields"),
    [
        ("room: 4", "room: 5", ["room", "settings"]),
        ("rate: 0.01", "rate: 0.02", ["arrivals", "users_time"]),
        ("late: {provider: oci, ", "late: {provider: oci, policy: {name: spare}, ", ["settings"]),
        ("time_scale: 60", "time_scale: 60\nrepetitions: 9", []),
    ],
)
def test_a_resumed_run_must_be_the_same(old: str, new: str, fields: list[str]) -> None:
    assert changes(record(), record(PLAN.replace(old, new), Path("runs/b"))) == fields


def test_a_resumed_run_has_the_same_machines_whatever_they_tell_of_themselves() -> None:
    before, other = (
        record().model_copy(
            update={"machines": {"a": NodeRecord(address=address, facts={"kernel": kernel})}}
        )
        for address, kernel in (("root@a", "6.1.0"), ("root@c", "6.1.1"))
    )
    updated = {"machines": {"a": NodeRecord(address="root@a", facts={"kernel": "6.1.1"})}}
    assert changes(before, before.model_copy(update=updated)) == []
    assert changes(before, other) == ["machines"]
    assert changes(record(), other) == ["machines"]


def test_a_resumed_run_has_its_machines_joined_as_before() -> None:
    named = PLAN + "machines: {a: {ssh: root@a}}\n"
    by_default, routes, vxlan = (
        record(named + more) for more in ("", "between: routes\n", "between: vxlan\n")
    )
    assert changes(by_default, vxlan) == ["between"]
    assert changes(by_default, routes) == []
    assert "between" not in record().model_dump_json()


def test_the_machine_of_a_node_stands_in_the_log_where_a_plan_names_machines() -> None:
    lost = Lost(node=1, instance="n", at_ns=1, why="")
    assert "machine" not in lost.model_dump_json()
    assert '"machine":"a"' in lost.model_copy(update={"machine": "a"}).model_dump_json()
    assert "machines" not in record().model_dump_json()


@pytest.mark.parametrize(
    ("command", "again", "measured"),
    [
        (("elastic", "show"), "elastic run", "repetitions"),
        (("elastic", "report"), "elastic run", "repetitions"),
        (("show",), "run", "trials"),
    ],
)
def test_a_run_that_ended_before_it_was_prepared_is_told_with_what_takes_it_up(
    tmp_path: Path, command: tuple[str, ...], again: str, measured: str
) -> None:
    """As a full disk leaves it: a plan, and a journal that has no more than a beginning."""
    run = tmp_path / "runs" / "20261122T120000-film"
    run.mkdir(parents=True)
    (run / records.PLAN).write_text(PLAN, encoding="utf-8")
    (run / records.JOURNAL).touch()
    done = ullage(*command, run.name, cwd=tmp_path)
    assert done.code == errors.RUN_NOT_BEGUN.exit_code
    assert f"[{errors.RUN_NOT_BEGUN.code}]" in done.stderr
    assert f"`ullage {again} --resume runs/{run.name}`" in done.stderr
    (run / measured).mkdir()  # then it was prepared, and its description is lost
    done = ullage(*command, run.name, cwd=tmp_path)
    assert f"[{errors.RUN_NOT_FOUND.code}]" in done.stderr
