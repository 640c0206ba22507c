"""The twin of a real repetition. The real one is made here, by a model of its own in Python."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.experiments.elastic.elastic_made import NS, SyntheticEnvironment, SyntheticRun, make
from ullage.experiments.elastic.analysis.curves import StepCurve
from ullage.experiments.elastic.analysis.reading import ElasticRun
from ullage.experiments.elastic.folder import Act, Lost, NotReady, Ready, Release, Requested
from ullage.experiments.elastic.simulator import twin

PLAN = SyntheticRun(
    environments={"lxc": SyntheticEnvironment(tar_s=0.5), "qemu": SyntheticEnvironment(tar_s=2.0)}
)


def test_what_is_simulated_is_what_was_real(tmp_path: Path) -> None:
    run = ElasticRun.open(make(tmp_path, PLAN))
    twins = twin.twins(run)
    assert set(twins) == {(r.environment, r.number) for r in run.repetitions}
    slow = [simulated for simulated in twins.values() if simulated.environment == "qemu"]
    assert all(simulated.real > 0 for simulated in slow)
    # Two programs that share nothing, to the last viewer.
    assert all(simulated.blocked == simulated.real for simulated in slow)
    assert all(
        simulated.blocked == simulated.real == 0
        for simulated in twins.values()
        if simulated.environment == "lxc"
    )


def test_the_curve_stands_on_the_runs_clock(tmp_path: Path) -> None:
    run = ElasticRun.open(make(tmp_path, PLAN))
    first = next(r for r in run.repetitions if r.environment == "qemu")
    simulated = twin.twin(first, run.resolved, seeds=3)
    assert simulated is not None and first.outcome is not None
    assert first.outcome.start_ns < simulated.supplied.at[0] < first.outcome.end_ns + 60 * NS
    assert simulated.supplied.value.min() >= 0
    assert simulated.watching.value.max() <= run.resolved.room * simulated.supplied.value.max()
    again = twin.twin(first, run.resolved, seeds=3)
    assert again is not None and again.blocked == simulated.blocked


def test_the_nth_node_takes_as_long_as_the_nth_took(tmp_path: Path) -> None:
    run = ElasticRun.open(make(tmp_path, PLAN))
    first = run.repetitions[0]
    spec = twin.specification(replace(first, acts=first.acts[::-1]), run.resolved)
    assert spec is not None
    ready = {act.node: act.at_ns for act in first.acts if isinstance(act, Ready)}
    requests = sorted((act.front_ns, act.node) for act in first.acts if isinstance(act, Requested))
    (row,) = spec["allocation"]["rows"]
    (stage,) = row["stages"]
    assert stage["time"]["kind"] == "in-turn"
    assert stage["time"]["values_s"] == [(ready[node] - at) / 1e9 for at, node in requests]


def test_nodes_that_failed_fail_in_the_twin(tmp_path: Path) -> None:
    run = ElasticRun.open(make(tmp_path, PLAN))
    first = run.repetitions[0]
    requests = [act for act in first.acts if isinstance(act, Requested)]
    begin = requests[0].front_ns
    gone = NotReady(
        node=1000, instance="x", asked_ns=begin, at_ns=begin + 3 * NS, attempts=1, why="full"
    )
    extra = requests[0].model_copy(update={"node": 1000})
    lost = Lost(node=requests[0].node, instance="y", at_ns=begin + 9 * NS, why="died")
    spec = twin.specification(replace(first, acts=(*first.acts, extra, gone, lost)), run.resolved)
    assert spec is not None
    failures = spec["failures"]
    assert failures["error"] == pytest.approx(1 / (len(requests) + 1))
    assert failures["error_after"]["values_s"] == [3.0]
    assert failures["lifetime"]["mean_s"] >= 1
    assert spec["reconnect"] == {"kind": "fixed", "s": 0.25}
    whole = twin.specification(first, run.resolved)
    assert whole is not None
    assert whole["failures"] == {} and whole["reconnect"] is None


def test_a_node_that_was_kept_to_the_end_does_not_say_how_long_one_takes_to_go(
    tmp_path: Path,
) -> None:
    run = ElasticRun.open(make(tmp_path, PLAN))
    first = run.repetitions[0]
    gone = [act for act in first.acts if isinstance(act, Release) and not act.end]
    kept_node = gone[0].model_copy(update={"end": True, "at_ns": gone[0].at_ns + 99 * NS})
    spec = twin.specification(replace(first, acts=(*first.acts, kept_node)), run.resolved)
    assert spec is not None
    assert len(spec["release"]["values_s"]) == len(gone)


def test_who_lost_his_node_does_not_say_how_long_people_watch(tmp_path: Path) -> None:
    """The twin loses nodes of its own."""
    run = ElasticRun.open(make(tmp_path, PLAN))
    first = run.repetitions[0]
    one, *others = first.sessions
    assert one.answered_ns is not None
    lost = {"outcome": "failed", "ended_ns": one.answered_ns + NS // 1000}
    broken = replace(first, sessions=(one.model_copy(update=lost), *others))
    spec = twin.specification(broken, run.resolved)
    assert spec is not None
    served = sum(session.outcome == "served" for session in broken.sessions)
    assert len(spec["watch"]["values_s"]) == served == len(first.sessions) - 1


def test_where_nothing_came_there_is_no_twin(tmp_path: Path) -> None:
    environments = {"lxc": SyntheticEnvironment(fails=frozenset({0}))}
    run = ElasticRun.open(make(tmp_path, SyntheticRun(environments=environments, repetitions=2)))
    assert list(twin.twins(run, seeds=2)) == [("lxc", 1)]
    empty = replace(run.repetitions[1], acts=())
    assert twin.twin(empty, run.resolved) is None


def test_the_difference_of_two_shares_ends_at_a_hundred_points() -> None:
    none = StepCurve.counted([])
    simulated = [
        twin.Simulated("lxc", n, real, 0.5, none, none) for n, real in enumerate((0.0, 1.0))
    ]
    gap = twin.difference(simulated, 0.95)
    assert (gap.low, gap.mean, gap.high) == (-1.0, 0.0, 1.0)


def test_equal_differences_have_no_interval() -> None:
    none = StepCurve.counted([])
    simulated = [twin.Simulated("lxc", n, 0.5, 0.5, none, none) for n in range(3)]
    assert twin.difference(simulated, 0.95) == twin.TwinDifference(
        0.0, None, None, "all 3 are equal"
    )
    alone = twin.difference(simulated[:1], 0.95)
    assert (alone.low, alone.why) == (None, "one repetition has no spread")


def test_nodes_that_are_kept_stand_before_the_first_viewer(tmp_path: Path) -> None:
    run = ElasticRun.open(make(tmp_path, PLAN))
    first = next(r for r in run.repetitions if r.environment == "qemu")
    assert first.outcome is not None
    start_ns = first.outcome.start_ns
    sample = next(act for act in first.acts if isinstance(act, Ready))
    acts: list[Act] = []
    for node in range(4):
        place = {"node": 900 + node, "instance": f"kept-{node}"}
        asked_ns = start_ns - 9 * NS + node * 2 * NS
        ends = {"made_ns": asked_ns + NS, "serving_ns": asked_ns + NS, "at_ns": asked_ns + 2 * NS}
        acts.append(Requested(**place, front_ns=asked_ns, at_ns=asked_ns))
        acts.append(sample.model_copy(update={**place, **ends, "asked_ns": asked_ns}))
    before = replace(first, acts=tuple(acts))
    setting = run.resolved.settings["qemu"]
    four = setting.model_copy(update={"machine": {**setting.machine, "min_nodes": 4}})
    at_once = {"settings": {**run.resolved.settings, "qemu": four}, "patience_s": 0.0}
    simulated = twin.twin(before, run.resolved.model_copy(update=at_once), seeds=2)
    assert simulated is not None
    assert simulated.supplied(start_ns) == 4
    assert simulated.watching(start_ns - 1) == 0
