"""The curves of a repetition."""

from __future__ import annotations

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
from ullage.experiments.elastic.analysis.demand import curves, window_ns
from ullage.experiments.elastic.analysis.reading import ElasticRun, Repetition
from ullage.experiments.elastic.folder import (
    Act,
    Lost,
    NotReady,
    Ready,
    Release,
    Requested,
    TakenBack,
    ViewerSession,
)


def requested(node: int, at: int) -> Requested:
    return Requested(node=node, instance=f"n{node}", front_ns=at - 1, at_ns=at)


def ready(node: int, begin: int, at: int) -> Ready:
    return Ready(
        node=node,
        instance=f"n{node}",
        address="10.0.0.1:80",
        asked_ns=begin,
        made_ns=begin,
        serving_ns=at,
        at_ns=at,
    )


def released(node: int, front: int, begin: int, at: int, *, end: bool = False) -> Release:
    return Release(
        node=node, instance=f"n{node}", front_ns=front, asked_ns=begin, at_ns=at, end=end
    )


def viewer(client: int, due: int, answered: int | None, ended: int) -> ViewerSession:
    return ViewerSession(
        client=client,
        due_ns=ZERO + due,
        asked_ns=ZERO + due,
        answered_ns=None if answered is None else ZERO + answered,
        node=None if answered is None else "10.0.0.1:80",
        first_byte_ns=None if answered is None else ZERO + answered,
        ended_ns=ZERO + ended,
        outcome="blocked" if answered is None else "served",
    )


@pytest.fixture
def run(tmp_path: Path) -> ElasticRun:
    plan = SyntheticRun(
        environments={"lxc": SyntheticEnvironment()},
        repetitions=1,
        viewers=4,
        room=2,
        length_s=10.0,
    )
    return ElasticRun.open(make(tmp_path, plan))


def with_parts(
    run: ElasticRun, sessions: tuple[ViewerSession, ...], acts: tuple[Act, ...], end: int
) -> Repetition:
    (repetition,) = run.repetitions
    assert repetition.outcome is not None
    outcome = repetition.outcome.model_copy(update={"end_ns": ZERO + end})
    return Repetition(
        "lxc", 0, repetition.path, "ok", None, outcome, acts, sessions, repetition.viewers
    )


def test_demand_is_of_all_who_are_due(run: ElasticRun) -> None:
    s = NS
    sessions = (
        viewer(0, 0, 2 * s, 12 * s),
        viewer(1, 1 * s, 2 * s, 12 * s),
        viewer(2, 2 * s, None, 3 * s),
    )
    repetition = with_parts(run, sessions, (), 13 * s)
    course = curves(repetition, run.resolved)
    assert course is not None
    assert (course.over.begin, course.over.end) == (ZERO, ZERO + 12 * s)

    def at(second: float) -> tuple[int, ...]:
        when = ZERO + round(second * s)
        kinds = (course.offered, course.demanded, course.present, course.waiting)
        return tuple(int(curve(when)) for curve in kinds)

    assert at(0.5) == (1, 1, 1, 1)
    assert at(1.5) == (2, 1, 2, 2)
    assert at(2.5) == (3, 2, 3, 1)
    # The third was blocked, but would still be watching: the load is the same for everyone.
    assert at(5) == (3, 2, 2, 0)
    # The first two watch later than they would have, had they been served at once.
    assert at(11.5) == (1, 1, 2, 0)


def test_nobody_is_no_demand(run: ElasticRun) -> None:
    assert curves(with_parts(run, (), (), 1), run.resolved) is None


def test_a_node_counts_from_ready_to_the_decision_to_release(run: ElasticRun) -> None:
    s = NS
    acts = (
        requested(0, ZERO + 1 * s),
        ready(0, ZERO + 1 * s, ZERO + 3 * s),
        released(0, ZERO + 8 * s, ZERO + 9 * s, ZERO + 10 * s),
    )
    course = curves(with_parts(run, (viewer(0, 0, 3 * s, 8 * s),), acts, 11 * s), run.resolved)
    assert course is not None
    assert course.supplied.integral(ZERO, ZERO + 20 * s) == 5 * s
    assert course.allocated.integral(ZERO, ZERO + 20 * s) == 9 * s


ENDS: list[tuple[str, tuple[Act, ...], int, int]] = [
    ("never", (), 17, 19),
    ("lost", (Lost(node=0, instance="n", at_ns=ZERO + 7 * NS, why="gone"),), 4, 6),
    (
        "lost and removed",
        (
            Lost(node=0, instance="n", at_ns=ZERO + 7 * NS, why="gone"),
            released(0, ZERO + 8 * NS, ZERO + 8 * NS, ZERO + 9 * NS),
        ),
        4,
        8,
    ),
    (
        "at the end",
        (released(0, ZERO, ZERO + 12 * NS, ZERO + 13 * NS, end=True),),
        9,
        12,
    ),
]


@pytest.mark.parametrize(("name", "over", "supplied", "paid"), ENDS, ids=[e[0] for e in ENDS])
def test_how_a_node_ends(
    run: ElasticRun, name: str, over: tuple[Act, ...], supplied: int, paid: int
) -> None:
    s = NS
    acts = (requested(0, ZERO + 1 * s), ready(0, ZERO + 1 * s, ZERO + 3 * s), *over)
    course = curves(with_parts(run, (viewer(0, 0, 3 * s, 8 * s),), acts, 20 * s), run.resolved)
    assert course is not None
    assert course.supplied.integral(ZERO, ZERO + 30 * s) == supplied * s
    assert course.allocated.integral(ZERO, ZERO + 30 * s) == paid * s


NEVER_HAD = [
    NotReady(node=0, instance="n", asked_ns=ZERO + NS, at_ns=ZERO + 5 * NS, attempts=3, why="no"),
    TakenBack(node=0, instance="n", front_ns=ZERO + 4 * NS, at_ns=ZERO + 5 * NS),
]


@pytest.mark.parametrize("over", NEVER_HAD, ids=lambda act: act.event)
def test_a_node_that_was_never_had_is_paid_for_until_then(run: ElasticRun, over: Act) -> None:
    s = NS
    acts = (requested(0, ZERO + 1 * s), over)
    course = curves(with_parts(run, (viewer(0, 0, None, 8 * s),), acts, 9 * s), run.resolved)
    assert course is not None
    assert course.supplied.integral(ZERO, ZERO + 30 * s) == 0
    assert course.allocated.integral(ZERO, ZERO + 30 * s) == 4 * s


def test_a_real_course_never_serves_more_than_it_supplies(run: ElasticRun) -> None:
    (repetition,) = run.repetitions
    course = curves(repetition, run.resolved)
    assert course is not None
    for at in (*course.present.at.tolist(), *course.supplied.at.tolist()):
        watching = int(course.present(at)) - int(course.waiting(at))
        assert watching <= run.resolved.room * int(course.supplied(at))
        assert int(course.supplied(at)) <= int(course.allocated(at))


@pytest.mark.parametrize(
    ("scale", "length", "window"), [(1.0, 1800.0, 60.0), (60.0, 30.0, 1.0), (1.0, 10.0, 1.0)]
)
def test_the_window_is_a_minute_of_the_users(
    run: ElasticRun, scale: float, length: float, window: float
) -> None:
    video = run.resolved.video.model_copy(update={"length_s": length})
    changed = run.resolved.model_copy(update={"time_scale": scale, "video": video})
    assert window_ns(changed) == round(window * NS)


def test_folders_are_named_by_their_slug() -> None:
    assert folder.repetition_folder(Path("r"), "vm[nic=e1000]", 3).name == "003"
