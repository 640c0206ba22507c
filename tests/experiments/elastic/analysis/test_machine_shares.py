"""What became of the nodes on each machine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.experiments.elastic.elastic_made import (
    NS,
    ZERO,
    SyntheticEnvironment,
    SyntheticRun,
    make,
    put,
)
from ullage.experiments.elastic import folder
from ullage.experiments.elastic.analysis.contrasts import sides
from ullage.experiments.elastic.analysis.doubts import doubts
from ullage.experiments.elastic.analysis.reading import ElasticRun
from ullage.experiments.elastic.analysis.summary import summarise
from ullage.experiments.elastic.folder import Act, Lost, Ready, Retried
from ullage.experiments.elastic.report import page, show
from ullage.report.charts.text import quantity
from ullage.runs.records import RESOLVED, NodeRecord


def test_nodes_are_counted_by_their_machine(tmp_path: Path) -> None:
    def more(number: int) -> list[Act]:
        ready = Ready(
            node=1000,
            instance="n",
            machine="a",
            address="10.213.1.2:8080",
            asked_ns=ZERO,
            made_ns=ZERO,
            serving_ns=ZERO,
            at_ns=ZERO + NS,
            stages={"TcI": 1.5 + number},
        )
        failed = Retried(
            node=1001, instance="n", machine="b", what="allocate", attempt=1, at_ns=ZERO, why=""
        )
        stays = failed.model_copy(update={"what": "release", "machine": "a"})
        return [
            ready,
            failed,
            stays,
            Lost(node=1000, instance="n", machine="a", at_ns=ZERO, why=""),
        ]

    path = make(
        tmp_path,
        SyntheticRun(environments={"lxc": SyntheticEnvironment(more=more)}, repetitions=2),
    )
    machines = {"a": NodeRecord(address="root@a"), "b": NodeRecord(address="root@b")}
    update = {"machines": machines}
    put(path / RESOLVED, folder.read_resolved(path).model_copy(update=update))
    run = ElasticRun.open(path)
    (lxc,) = summarise(run, sides(run)).environments
    a, b = lxc.machines
    assert (a.machine, a.allocated, a.failed, a.lost, a.longest_copy_s) == ("a", 2, 0, 2, 2.5)
    assert (b.machine, b.allocated, b.failed, b.lost, b.longest_copy_s) == ("b", 0, 2, 0, None)
    content = page.render(page.report_of(show.find(path, tmp_path)))
    for text in (
        "Nodes on each machine, in repetitions with figures",
        quantity(2.5, "s"),
        "a (root@a), b (root@b)",
        "reached as",
    ):
        assert text in content


def test_repetitions_on_other_machines_are_doubted(tmp_path: Path) -> None:
    def doubted(folder_of: str, where: Callable[[int], str]) -> list[str]:
        def more(number: int) -> list[Act]:
            times = dict.fromkeys(("asked_ns", "made_ns", "serving_ns", "at_ns"), ZERO)
            return [
                Ready(
                    node=1000 + turn, instance="n", machine=one, address="10.213.1.2:8080", **times
                )
                for turn, one in enumerate(where(number))
            ]

        own = SyntheticEnvironment(more=more)
        path = make(tmp_path / folder_of, SyntheticRun(environments={"lxc": own}, repetitions=3))
        run = ElasticRun.open(path)
        all_sides = sides(run)
        every = doubts(run, summarise(run, all_sides), all_sides)
        return [doubt.message for doubt in every if doubt.code == "other-machines"]

    (message,) = doubted("other", lambda number: "a" if number == 1 else "ab")
    assert "lxc on a and b in 2 repetitions; lxc on a in 1 repetition" in message
    assert doubted("same", lambda _: "ba") == []


def test_a_run_without_machines_says_nothing_of_them(tmp_path: Path) -> None:
    path = make(tmp_path, SyntheticRun(repetitions=2))
    run = ElasticRun.open(path)
    assert "machines" not in summarise(run, sides(run)).model_dump_json()
    content = page.render(page.report_of(show.find(path, tmp_path)))
    assert "Nodes on each machine" not in content and "<summary>The machines" not in content
