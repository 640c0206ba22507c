"""Figures of one repetition, by hand and against a count."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.experiments.elastic.analysis.test_demand import (
    ready,
    released,
    requested,
    viewer,
    with_parts,
)
from tests.experiments.elastic.elastic_made import (
    NS,
    ZERO,
    SyntheticEnvironment,
    SyntheticRun,
    make,
    put_meter,
)
from ullage.experiments.elastic.analysis.definitions import (
    BUNGEE,
    BY_NAME,
    DEFINITIONS,
    HERE,
    SPEC_RG,
    STUDY,
)
from ullage.experiments.elastic.analysis.metrics import CONTEXTUALISATION, INJECTED, measured
from ullage.experiments.elastic.analysis.reading import ElasticRun
from ullage.experiments.elastic.folder import (
    FULL,
    Act,
    ElasticResolved,
    NotReady,
    Retried,
    ViewerSession,
    Violation,
)
from ullage.experiments.studies.elastic_clock import ElasticClock
from ullage.runs.records import ServicePrice


@pytest.fixture
def run(tmp_path: Path) -> ElasticRun:
    plan = SyntheticRun(
        environments={"lxc": SyntheticEnvironment()},
        repetitions=1,
        viewers=4,
        room=2,
        length_s=10.0,
        time_scale=1.0,
        patience_s=5.0,
    )
    return ElasticRun.open(make(tmp_path, plan))


def course(run: ElasticRun) -> dict[str, float]:
    """Four viewers, two nodes of which one is never had."""
    s = NS
    stopped = viewer(1, 1 * s, 2 * s, 13 * s).model_copy(
        update={
            "bytes": 3_000,
            "violations": (Violation(at_ns=ZERO + 5 * s, length_ns=s),),
        }
    )
    cut = viewer(2, 1 * s, 2 * s, 6 * s).model_copy(update={"outcome": "cut", "bytes": 1_000})
    sessions: tuple[ViewerSession, ...] = (
        viewer(0, 0, 2 * s, 12 * s).model_copy(update={"bytes": 4_000}),
        stopped,
        cut,
        viewer(3, 2 * s, None, 7 * s),
    )
    acts: tuple[Act, ...] = (
        requested(0, ZERO),
        ready(0, ZERO, ZERO + 2 * s),
        requested(1, ZERO + 3 * s),
        NotReady(
            node=1, instance="n1", asked_ns=ZERO + 3 * s, at_ns=ZERO + 5 * s, attempts=1, why=""
        ),
        released(0, ZERO + 13 * s, ZERO + 13 * s, ZERO + 14 * s),
    )
    return measured(with_parts(run, sessions, acts, 14 * s), run.resolved).figures


def test_what_the_viewers_felt(run: ElasticRun) -> None:
    run_course = course(run)
    assert run_course["requests"] == 4
    assert run_course["blocked"] == 1 / 4
    assert run_course["affected"] == 2 / 3
    assert run_course["turned_away"] == 0
    assert run_course["stalled"] == pytest.approx(1 / 3)
    assert run_course["wait_mean"] == pytest.approx((2 + 1 + 1) / 3)
    assert run_course["waited"] == 2 / 4
    assert run_course["bandwidth"] == pytest.approx(8 * 8_000 / 14)


def test_a_late_generator_or_a_late_answer_hides_nothing(run: ElasticRun) -> None:
    """Waits are from when he was due; a brief one is of the users' time; bits go on to the last."""
    late = viewer(0, 0, NS, 20 * NS).model_copy(update={"asked_ns": ZERO + NS // 2, "bytes": 500})
    repetition = with_parts(run, (late,), (), 14 * NS)
    figures = measured(repetition, run.resolved).figures
    assert (figures["wait_mean"], figures["waited"]) == (1.0, 0.0)
    assert figures["bandwidth"] == pytest.approx(8 * 500 / 20)
    twice_as_fast = run.resolved.model_copy(update={"time_scale": 2 * run.resolved.time_scale})
    assert measured(repetition, twice_as_fast).figures["waited"] == 1


def test_an_allocation_takes_from_the_first_attempt(run: ElasticRun) -> None:
    acts = (requested(0, ZERO), ready(0, ZERO + 3 * NS, ZERO + 4 * NS))
    repetition = with_parts(run, (viewer(0, 0, 4 * NS, 12 * NS),), acts, 14 * NS)
    assert measured(repetition, run.resolved).figures["tar"] == 4


def broken(client: int, *, began: bool) -> ViewerSession:
    """He was sent to a node, and lost it before or after the first byte."""
    whole = viewer(client, 0, NS, 4 * NS)
    return whole.model_copy(
        update={
            "outcome": "failed",
            "why": "connection-lost",
            "bytes": 500 if began else 0,
            "first_byte_ns": whole.first_byte_ns if began else None,
        }
    )


def test_who_lost_his_node_while_he_watched_is_served_and_affected(run: ElasticRun) -> None:
    sessions = (
        viewer(0, 0, 2 * NS, 12 * NS),
        broken(1, began=True),
        broken(2, began=False),
        viewer(3, 0, None, 5 * NS),
    )
    repetition = with_parts(run, sessions, (), 14 * NS)
    figures = measured(repetition, run.resolved).figures
    assert figures["affected"] == 1 / 2
    assert figures["blocked"] == 1 / 4
    assert figures["turned_away"] == 2 / 4
    assert figures["requests"] == 4
    assert figures["wait_mean"] == pytest.approx((2 + 1) / 2)
    only_broken = with_parts(run, (broken(1, began=True),), (), 14 * NS)
    assert measured(only_broken, run.resolved).figures["affected"] == 1


def test_what_nodes_took(run: ElasticRun) -> None:
    run_course = course(run)
    assert (run_course["tar"], run_course["tlr"]) == (2.0, 1.0)
    assert (run_course["allocations"], run_course["not_had"]) == (2, 1 / 2)
    assert run_course["node_seconds"] == pytest.approx(14 + 2)
    assert run_course["ready_seconds"] == pytest.approx(13 - 2)
    assert run_course["node_time"] == pytest.approx(16 / 3)
    assert run_course["nodes_most"] == 2


def test_how_supply_followed(run: ElasticRun) -> None:
    """Demanded: 1 to 1 s, 2 to 11 s, 1 to 12 s. Supplied: 1 from 2 s on."""
    run_course = course(run)
    assert run_course["demanded_seconds"] == pytest.approx(1 + 2 * 10 + 1)
    assert run_course["accuracy_u"] == pytest.approx((1 + 2 + 9) / 12)
    assert run_course["timeshare_u"] == pytest.approx(11 / 12)
    assert run_course["timeshare_o"] == run_course["theta_o"] == 0
    assert "speed_up" not in run_course


def test_absent_is_not_zero(run: ElasticRun) -> None:
    blocked = measured(
        with_parts(run, (viewer(0, 0, None, 5 * NS),), (), 6 * NS), run.resolved
    ).figures
    absent = {"tar", "tlr", "affected", "wait_mean", "bandwidth", "node_time", "not_had", "energy"}
    assert not absent & blocked.keys()
    assert blocked["blocked"] == 1
    nobody = measured(with_parts(run, (), (), 6 * NS), run.resolved)
    assert nobody.figures == {"requests": 0, "allocations": 0}
    assert nobody.curves is None


def test_energy_is_that_of_a_meter(tmp_path: Path) -> None:
    plan = SyntheticRun(
        environments={"lxc": SyntheticEnvironment()}, repetitions=2, viewers=5, watts=50.0
    )
    run = ElasticRun.open(make(tmp_path, plan))
    for repetition in run.repetitions:
        assert repetition.outcome is not None
        seconds = (repetition.outcome.end_ns - repetition.outcome.start_ns) / NS
        figures = measured(repetition, run.resolved).figures
        assert figures["energy"] == pytest.approx(50.0 * seconds)
        served = sum(session.was_served for session in repetition.sessions)
        assert figures["energy_per_viewer"] == pytest.approx(50.0 * seconds / served)


@pytest.mark.parametrize(("session", "last_s"), [("another", 300), ("t", 3)])
def test_a_meter_of_another_time_gives_no_energy(tmp_path: Path, session: str, last_s: int) -> None:
    plan = SyntheticRun(
        environments={"lxc": SyntheticEnvironment()}, repetitions=1, viewers=5, watts=50.0
    )
    path = make(tmp_path, plan)
    shutil.rmtree(path / "meters")
    put_meter(path, 50.0, session, last_s)
    assert ElasticRun.open(path).repetitions[0].energy_j is None


def test_stages_stand_in_their_order_and_the_injected_one_apart(tmp_path: Path) -> None:
    plan = SyntheticRun(
        environments={"lxc": SyntheticEnvironment(boot_delay_s=0.25)}, repetitions=1, viewers=20
    )
    run = ElasticRun.open(make(tmp_path, plan))
    stages = measured(run.repetitions[0], run.resolved).stages
    assert list(stages) == ["TeF", "TcI", "TiI", "application", INJECTED]
    assert set(stages[INJECTED]) == {0.25}


def test_contextualisation_is_in_one_figure_and_out_of_the_other(run: ElasticRun) -> None:
    stages = {"TiI": 3.0, CONTEXTUALISATION: 1.5}
    bare = ready(0, ZERO, ZERO + 4 * NS).model_copy(update={"stages": stages})
    acts: tuple[Act, ...] = (requested(0, ZERO), bare)
    sessions = (viewer(0, 0, 4 * NS, 12 * NS),)
    figures = measured(with_parts(run, sessions, acts, 14 * NS), run.resolved).figures
    assert (figures["tar"], figures["tar_bare"]) == (4.0, 2.5)
    acts += (requested(1, ZERO), ready(1, ZERO, ZERO + 4 * NS))
    figures = measured(with_parts(run, sessions, acts, 14 * NS), run.resolved).figures
    assert "tar_bare" not in figures, "one node does not tell it"


def no_room(node: int, at: int) -> NotReady:
    times = {"asked_ns": ZERO, "at_ns": ZERO + at}
    return NotReady(node=node, instance=f"n{node}", **times, attempts=1, why="full", code=FULL)


def test_who_was_blocked_by_a_full_cloud_and_who_by_a_slow_one(run: ElasticRun) -> None:
    sessions = (
        viewer(0, 0, None, 1 * NS),  # before it said anything
        viewer(1, 0, None, 3 * NS),  # after it had refused
        viewer(2, 0, None, 5 * NS),  # after it had given one
        viewer(3, 0, 4 * NS, 9 * NS),
    )
    acts: tuple[Act, ...] = (requested(0, ZERO), no_room(0, 2 * NS), requested(1, ZERO))
    acts += (ready(1, ZERO, ZERO + 4 * NS),)
    figures = measured(with_parts(run, sessions, acts, 14 * NS), run.resolved).figures
    assert (figures["blocked"], figures["blocked_full"]) == (3 / 4, 1 / 4)
    never = measured(with_parts(run, sessions, acts[2:], 14 * NS), run.resolved).figures
    assert "blocked_full" not in never


def priced(run: ElasticRun, **more: float) -> ElasticResolved:
    price = ServicePrice(per_hour=60, currency="EUR", billed="minute", **more)
    settings = {"lxc": run.resolved.settings["lxc"].model_copy(update={"price": price})}
    return run.resolved.model_copy(update={"settings": settings})


def test_money_is_each_life_as_it_is_billed_and_what_was_served(run: ElasticRun) -> None:
    sessions = (viewer(0, 0, 2 * NS, 12 * NS).model_copy(update={"bytes": 2 * 10**9}),) * 2
    acts = (
        requested(0, ZERO),
        ready(0, ZERO, ZERO + 2 * NS),
        released(0, ZERO + 61 * NS, ZERO + 61 * NS, ZERO + 61 * NS),
        requested(1, ZERO),
        ready(1, ZERO, ZERO + 2 * NS),  # it is there to the end: 14 s
        requested(2, ZERO),
        no_room(2, 2 * NS),
    )
    repetition = with_parts(run, sessions, acts, 14 * NS)
    assert measured(repetition, priced(run)).figures["cost"] == 3, "two minutes and one"
    whole = measured(repetition, priced(run, per_gb=0.5, per_request=0.25)).figures
    assert whole["cost"] == 3 + 4 * 0.5 + 2 * 0.25
    assert whole["cost_per_viewer"] == whole["cost"] / 2
    assert "cost" not in measured(repetition, run.resolved).figures


def failed(node: int, attempt: int, at: int, code: str = "") -> Retried:
    times = {"attempt": attempt, "at_ns": ZERO + at}
    return Retried(node=node, instance=f"n{node}", what="allocate", why="no", code=code, **times)


def test_each_attempt_is_an_instance_and_paid_as_one(run: ElasticRun) -> None:
    """A minute that begins is paid whole, for each of three; the fourth there was no room for."""
    sessions = (viewer(0, 0, 2 * NS, 12 * NS),)
    acts = (
        requested(0, ZERO),
        failed(0, 1, 30 * NS),
        failed(0, 2, 60 * NS),
        ready(0, ZERO + 60 * NS, ZERO + 90 * NS),
        released(0, ZERO + 100 * NS, ZERO + 100 * NS, ZERO + 100 * NS),
        requested(1, ZERO),
        failed(1, 1, 30 * NS),
        failed(1, 2, 40 * NS, FULL),
        no_room(1, 40 * NS).model_copy(update={"attempts": 2}),
        requested(2, ZERO),
        failed(2, 1, 30 * NS),
        no_room(2, 30 * NS).model_copy(update={"code": ""}),
    )
    figures = measured(with_parts(run, sessions, acts, 110 * NS), priced(run)).figures
    assert figures["cost"] == 5
    assert figures["node_seconds"] == figures["node_time"] == 100 + 30 + 30


def test_a_node_that_there_was_no_room_for_is_in_no_figure_of_the_cost(run: ElasticRun) -> None:
    sessions = (viewer(0, 0, 2 * NS, 12 * NS),)
    acts = (requested(0, ZERO), failed(0, 1, 5 * NS, FULL), no_room(0, 5 * NS))
    figures = measured(with_parts(run, sessions, acts, 14 * NS), priced(run)).figures
    assert (figures["cost"], figures["node_seconds"], figures["nodes_most"]) == (0, 0, 0)


def test_releases_at_the_end_and_those_that_left_something_do_not_count(run: ElasticRun) -> None:
    unremoved = released(0, ZERO, ZERO, ZERO + 4 * NS).model_copy(update={"left": "a mount"})
    acts = (
        requested(0, ZERO),
        ready(0, ZERO, ZERO + NS),
        unremoved,
        requested(1, ZERO),
        ready(1, ZERO, ZERO + NS),
        released(1, ZERO, ZERO + 2 * NS, ZERO + 5 * NS, end=True),
    )
    figures = measured(with_parts(run, (viewer(0, 0, NS, 9 * NS),), acts, 9 * NS), run.resolved)
    assert "tlr" not in figures.figures and figures.figures["tar"] == 1.0


def test_a_bound_of_the_clocks_is_told_as_a_share(tmp_path: Path) -> None:
    bounded = SyntheticRun(
        environments={"lxc": SyntheticEnvironment(bound_ns=10**6)}, repetitions=1, viewers=20
    )
    run = ElasticRun.open(make(tmp_path, bounded))
    course_of = measured(run.repetitions[0], run.resolved)
    assert course_of.curves is not None
    over = course_of.curves.over
    inside = [v for _, v in course_of.curves.supplied.corners(over.begin, over.end)]
    steps = int(np.abs(np.diff(inside)).sum())
    assert course_of.clock_share == pytest.approx(10**6 * steps / (over.end - over.begin))


def test_a_figure_of_every_kind_is_in_the_definitions(tmp_path: Path) -> None:
    plan = SyntheticRun(
        environments={"lxc": SyntheticEnvironment(stall=0.5)}, repetitions=1, watts=5.0
    )
    run = ElasticRun.open(make(tmp_path, plan))
    figures = measured(run.repetitions[0], run.resolved).figures
    assert figures.keys() <= BY_NAME.keys()
    assert {d.name for d in DEFINITIONS if not d.seldom} - figures.keys() <= {"speed_up"}
    assert len(BY_NAME) == len(DEFINITIONS)


def test_the_source_of_a_metric_is_one_that_can_be_found() -> None:
    assert ElasticClock.source == STUDY, "`ullage study` names it so"
    sources = {source for definition in DEFINITIONS for source in definition.source.split("; ")}
    assert sources == {STUDY, BUNGEE, SPEC_RG, HERE}
