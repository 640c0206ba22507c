"""What a reader is told before believing a figure."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.experiments.elastic.elastic_made import (
    NS,
    ZERO,
    SyntheticEnvironment,
    SyntheticRun,
    make,
)
from ullage.experiments.elastic import folder
from ullage.experiments.elastic.analysis.contrasts import sides
from ullage.experiments.elastic.analysis.doubts import ElasticDoubt, doubts
from ullage.experiments.elastic.analysis.reading import ElasticRun
from ullage.experiments.elastic.analysis.summary import summarise
from ullage.experiments.elastic.folder import FrontEnded, Lost, Retried
from ullage.experiments.elastic.report.page import write
from ullage.experiments.elastic.report.show import find
from ullage.runs.records import JOURNAL, RESOLVED


def doubts_of(tmp_path: Path, plan: SyntheticRun) -> dict[str, ElasticDoubt]:
    return of(make(tmp_path, plan))


def of(path: Path) -> dict[str, ElasticDoubt]:
    run = ElasticRun.open(path)
    all_sides = sides(run)
    return {d.code: d for d in doubts(run, summarise(run, all_sides), all_sides)}


def plan(environment: SyntheticEnvironment | None = None, **fields: object) -> SyntheticRun:
    some = {
        "environments": {"lxc": environment or SyntheticEnvironment()},
        "repetitions": 6,
        "viewers": 12,
    }
    return SyntheticRun(**({"time_scale": 1.0} | some | fields))  # type: ignore[arg-type]


def test_a_sound_run_has_no_doubts(tmp_path: Path) -> None:
    assert doubts_of(tmp_path, plan()) == {}


def test_energies_that_no_instrument_saw_are_called_so(tmp_path: Path) -> None:
    assert doubts_of(tmp_path / "measured", plan(watts=50.0)) == {}
    path = make(tmp_path / "estimated", plan(watts=50.0))
    for file in (path / RESOLVED, path / "meters" / "wall.jsonl"):
        file.write_text(file.read_text().replace('"measured"', '"estimated"'))
    assert "are estimated, by the meter wall (nut)" in of(path)["energy-not-measured"].message
    (path / "meters" / "wall.jsonl").unlink()
    by_code = of(path)
    assert "6 of 6 repetitions have no energy" in by_code["energy-missing"].message
    assert "energy-not-measured" not in by_code


def test_failed_repetitions_are_named_with_their_reasons(tmp_path: Path) -> None:
    by_code = doubts_of(
        tmp_path, plan(SyntheticEnvironment(fails=frozenset({1, 4})), why="the host went away")
    )
    message = by_code["repetition-failed"].message
    assert message.startswith("2 repetitions failed and have no figures: ")
    assert "lxc no. 2 (the host went away)" in message and "lxc no. 5" in message
    assert message.endswith(".")


def test_a_late_generator_is_named(tmp_path: Path) -> None:
    by_code = doubts_of(tmp_path, plan(SyntheticEnvironment(late=frozenset({3}))))
    assert "lxc no. 4 (p99 lateness 0.2 s)" in by_code["repetition-invalid"].message


def test_an_interrupted_run_is_said(tmp_path: Path) -> None:
    path = make(tmp_path, plan(finished=False, done=3))
    folder.repetition_folder(path, "lxc", 3).mkdir()
    by_code = of(path)
    assert "lxc no. 4" in by_code["repetition-unfinished"].message
    assert "not-finished" in by_code


@pytest.mark.parametrize(("number", "consequence"), [(1, "no interval"), (5, "intervals are wide")])
def test_too_few_repetitions_are_said(tmp_path: Path, number: int, consequence: str) -> None:
    message = doubts_of(tmp_path, plan(repetitions=number))["too-few-repetitions"].message
    assert f"lxc {number}" in message and consequence in message


def test_a_rare_share_is_said(tmp_path: Path) -> None:
    by_code = doubts_of(tmp_path, plan(SyntheticEnvironment(stall=0.01), viewers=60, repetitions=8))
    assert "PcAf of lxc" in by_code["rare"].message
    assert "rare" not in doubts_of(tmp_path / "2", plan(SyntheticEnvironment(stall=0.5)))


def test_a_wide_bound_of_the_clocks_names_the_metrics(tmp_path: Path) -> None:
    doubt = doubts_of(tmp_path, plan(SyntheticEnvironment(bound_ns=2 * 10**8)))["clock-bound"]
    assert "σ" in doubt.message and "τ_U" in doubt.message and "TaR" not in doubt.message
    assert "clock-bound" not in doubts_of(
        tmp_path / "2", plan(SyntheticEnvironment(bound_ns=1_000))
    )


def test_the_cap_of_nodes_is_said_where_it_was_reached(tmp_path: Path) -> None:
    by_code = doubts_of(tmp_path, plan(SyntheticEnvironment(max_nodes=1), viewers=40))
    assert "all 1 nodes" in by_code["cap-reached"].message
    assert "cap-reached" not in doubts_of(tmp_path / "2", plan(SyntheticEnvironment(max_nodes=50)))


def test_what_happened_in_repetitions_with_figures_is_counted(tmp_path: Path) -> None:
    def more(number: int) -> list[folder.Act]:
        at = ZERO + NS
        retried = Retried(node=0, instance="n", what="allocate", attempt=1, at_ns=at, why="hung")
        acts: list[folder.Act] = [retried, retried.model_copy(update={"attempt": 2})]
        if number == 0:
            acts.append(FrontEnded(at_ns=at, back_ns=at + NS, how="killed"))
            acts.append(Lost(node=0, instance="n", at_ns=at, why="died"))
        return acts

    by_code = doubts_of(tmp_path, plan(SyntheticEnvironment(more=more)))
    assert "12 times in lxc" in by_code["retried"].message
    assert "once in lxc" in by_code["front-restarted"].message
    assert "once in lxc" in by_code["node-lost"].message


def test_the_time_scale_and_an_injected_delay_are_said(tmp_path: Path) -> None:
    by_code = doubts_of(tmp_path, plan(SyntheticEnvironment(boot_delay_s=0.5), time_scale=60.0))
    assert "60 times as fast" in by_code["time-scaled"].message
    assert "lxc for 500" in by_code["boot-delay"].message


def test_nobody_is_said(tmp_path: Path) -> None:
    assert "nobody-came" in doubts_of(tmp_path, plan(viewers=0))


def test_a_run_without_a_baseline_is_said(tmp_path: Path) -> None:
    two = {"lxc": SyntheticEnvironment(), "qemu": SyntheticEnvironment()}
    assert "no-baseline" in doubts_of(tmp_path, plan(environments=two, baseline=None))


def test_warnings_and_notes_are_passed_on_and_cleaned(tmp_path: Path) -> None:
    path = make(tmp_path, plan())
    with (path / JOURNAL).open("a") as journal:
        warning = {"event": "warning", "epoch_ns": 1, "code": "host-shared", "message": "a\x1b[1m"}
        journal.write(json.dumps(warning) + "\n")
    file = folder.repetition_folder(path, "lxc", 0) / folder.OUTCOME
    outcome = json.loads(file.read_text()) | {"notes": ["the\u202efront"]}
    file.write_text(json.dumps(outcome))
    by_code = of(path)
    assert by_code["host-shared"].message == "a␛[1m"
    assert by_code["note"].message == "the⟨U+202E⟩front"


def test_what_each_session_of_a_run_says_stands_once(tmp_path: Path) -> None:
    path = make(tmp_path, plan(repetitions=6))
    warnings = [("time-scaled", "time runs ×60"), ("plan-doubtful", "a"), ("plan-doubtful", "b")]
    session = [{"event": "warning", "epoch_ns": 1, "code": c, "message": m} for c, m in warnings]
    with (path / JOURNAL).open("a") as journal:
        for warning in [*session, *session, {**session[1], "message": "c"}]:
            journal.write(json.dumps(warning) + "\n")
    for number in (0, 1):
        file = folder.repetition_folder(path, "lxc", number) / folder.OUTCOME
        file.write_text(json.dumps(json.loads(file.read_text()) | {"notes": ["the same"]}))
    run = ElasticRun.open(path)
    all_sides = sides(run)
    all_doubts = doubts(run, summarise(run, all_sides), all_sides)
    assert [(d.code, d.message) for d in all_doubts if d.code in ("note", *dict(warnings))] == [
        ("note", "the same"),
        *warnings,
        ("plan-doubtful", "c"),
    ]
    page = write(find(path, tmp_path)).read_text(encoding="utf-8")
    assert page.count("time runs ×60") == 1


def test_what_was_left_of_a_node_is_said(tmp_path: Path) -> None:
    path = make(tmp_path, plan())
    file = folder.repetition_folder(path, "lxc", 2) / folder.CONTROLLER_LOG
    file.write_text(file.read_text().replace('"left":""', '"left":"a mount"', 1))
    doubt = of(path)["left-over"]
    assert "lxc no. 3: a mount" in doubt.message and "--node" not in str(doubt.advice)
    left = '"left":"the node a is gone","machine":"a"'
    file.write_text(file.read_text().replace('"left":"a mount"', left, 1))
    doubt = of(path)["left-over"]
    assert "the node a is gone" in doubt.message and "with `--node`" in str(doubt.advice)


def test_viewers_without_a_record_are_said(tmp_path: Path) -> None:
    path = make(tmp_path, plan())
    file = folder.repetition_folder(path, "lxc", 1) / folder.SESSIONS
    file.write_bytes(file.read_bytes()[:-9])
    message = of(path)["viewers-missing"].message
    assert "lxc no. 2" in message and "of 12 viewers who were due 11 have a record" in message


def test_viewers_who_kept_their_places_are_said(tmp_path: Path) -> None:
    """They were gone, and the front could not be told: a run's figures count, and are off."""
    path = make(tmp_path, plan())
    for number, untold in ((0, 0), (1, 3)):
        file = folder.repetition_folder(path, "lxc", number) / folder.VIEWERS
        file.write_text(json.dumps(json.loads(file.read_text()) | {"untold": untold}))
    message = of(path)["viewers-untold"].message
    assert "lxc no. 2: 3 viewers." in message and "lxc no. 1" not in message


@pytest.mark.parametrize("cut", [0, 1, 3])
def test_a_log_of_the_nodes_that_is_torn_is_said(tmp_path: Path, cut: int) -> None:
    """The beginning of one line more (0), or the last line without its end."""
    path = make(tmp_path, plan())
    file = folder.repetition_folder(path, "lxc", 1) / folder.CONTROLLER_LOG
    whole = file.read_bytes()
    file.write_bytes(whole[:-cut] if cut else whole + b'{"ev')
    message = of(path)["log-not-whole"].message
    assert "lxc no. 2" in message and "lxc no. 1" not in message
    assert ("(1 node)" in message) == bool(cut)


def test_nodes_of_which_the_end_is_not_told_are_said(tmp_path: Path) -> None:
    """Whole lines are gone: of one that streamed, and of one that only was asked for."""
    path = make(tmp_path, plan())
    for number, of_kind in enumerate(("released", "ready")):
        file = folder.repetition_folder(path, "lxc", number) / folder.CONTROLLER_LOG
        lines = file.read_text().splitlines(keepends=True)
        first = json.loads(next(line for line in lines if f'"{of_kind}"' in line))["node"]
        ends = ("released",) if of_kind == "released" else ("ready", "released")
        acts = [
            line
            for line in lines
            if json.loads(line)["node"] != first or json.loads(line)["event"] not in ends
        ]
        assert len(acts) == len(lines) - len(ends)
        file.write_text("".join(acts))
    message = of(path)["log-not-whole"].message
    assert "lxc no. 1 (1 node)" in message and "lxc no. 2 (1 node)" in message


@pytest.mark.parametrize("event", ["not-ready", "taken-back"])
def test_a_node_that_never_streamed_has_an_end_too(tmp_path: Path, event: str) -> None:
    def more(_: int) -> list[folder.Act]:
        at, name = ZERO + NS, {"node": 999, "instance": "n"}
        request = folder.Requested(**name, front_ns=at, at_ns=at)
        ends: dict[str, folder.Act] = {
            "not-ready": folder.NotReady(**name, asked_ns=at, at_ns=at + 1, attempts=1, why="full"),
            "taken-back": folder.TakenBack(**name, front_ns=at, at_ns=at + 1),
        }
        return [request, ends[event]]

    assert "log-not-whole" not in doubts_of(tmp_path, plan(SyntheticEnvironment(more=more)))
