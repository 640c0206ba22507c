"""The study of message passing: no published figures, its plans, and runs of our own."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.experiments.studies.planruns import figure, fresh, holds, make
from ullage.experiments.studies import get, measured
from ullage.experiments.studies.mpi_degradation import communication
from ullage.experiments.studies.mpi_degradation.study import FULL, QUICK
from ullage.experiments.studies.within import Term, product
from ullage.plan import matrix, schema

STUDY = get("mpi-degradation")
VIRTIO, E1000 = "vm[nic=virtio]", "vm[nic=e1000]"


def test_nothing_was_published_and_the_readme_says_so() -> None:
    assert STUDY.tables() == ()
    assert "No figure of this study is published with ullage" in STUDY.readme()


@pytest.mark.parametrize("name", ["quick.yaml", "full.yaml"])
def test_the_network_card_is_a_factor(name: str) -> None:
    cells = matrix.resolve(*schema.load(STUDY.folder / name))
    keys = [environment.key for environment in cells.environments if environment.again_of is None]
    assert keys == ["native", "container", "lxc", VIRTIO, E1000]
    assert {environment.provider.name for environment in cells.environments} == {
        "native",
        "oci",
        "lxc",
        "qemu",
    }


def test_the_full_plan_has_the_published_settings() -> None:
    cells = matrix.resolve(*schema.load(STUDY.folder / FULL[0].file))
    cases = {case.key: case.parameters.model_dump() for case in cells.cases}
    messages, pings = cases["messages"], cases["round-trips"]
    assert (messages["min_size"], messages["max_size"]) == (1, 1 << 30)
    assert (messages["warmups"], messages["repetitions"]) == (30, 100)
    assert (pings["count"], pings["size"]) == (10_000, 12)
    kernels = {
        parameters["kernel"] for key, parameters in cases.items() if key.startswith("kernels[")
    }
    assert kernels == {"ep", "cg", "mg", "ft", "is"}
    exact = matrix.resolve(*schema.load(STUDY.folder / FULL[1].file)).cases[0]
    parameters = exact.parameters.model_dump()
    assert (parameters["warmups"], parameters["repetitions"]) == (30, 100)
    assert (parameters["max_size"], parameters["bytes_per_size"]) == (1 << 30, None)
    large = matrix.resolve(*schema.load(STUDY.folder / FULL[2].file))
    classes = {case.parameters.model_dump(by_alias=True)["class"] for case in large.cases}
    assert classes == {"S", "W", "A", "B"}
    ranks: dict[str, set[int]] = {}
    for plan in FULL:
        for case in matrix.resolve(*schema.load(STUDY.folder / plan.file)).cases:
            if case.workload.name == "nas":
                written = case.parameters.model_dump(by_alias=True)
                ranks.setdefault(written["class"], set()).add(written["ranks"])
    assert ranks == {name: {1, 2, 4} for name in "SWAB"}


@pytest.mark.parametrize(
    ("slower", "words"),
    [
        (VIRTIO, "the conclusion holds here"),
        (E1000, "the conclusion does not hold at all sizes here"),
    ],
)
def test_the_paper_s_own_conclusion_is_asked(tmp_path: Path, slower: str, words: str) -> None:
    """e1000 degrades less than virtio: at every size, by bounds that hold along all of them."""
    run = make(tmp_path, STUDY, QUICK, {(slower, "messages"): 3.0})
    table = fresh(STUDY, (QUICK, run))["conclusion-fresh"]
    assert len(table.rows) >= 3
    for row in table.rows:
        truth = 1 / 3 if slower == VIRTIO else 3.0
        assert holds(figure(table, row.label, "time of e1000 over virtio"), truth)
    assert words in table.notes[0]


def test_all_full_runs_together(tmp_path: Path) -> None:
    runs = [(plan, make(tmp_path, STUDY, plan, blocks=2)) for plan in FULL]
    tables = STUDY.fresh({plan.name: path for plan, path in runs})
    assert len({table.key for table in tables}) == len(tables)


@pytest.mark.parametrize("name", ["quick.yaml", "full.yaml"])
def test_every_program_is_there_on_one_rank_too(name: str) -> None:
    cells = matrix.resolve(*schema.load(STUDY.folder / name))
    programs: dict[tuple[object, ...], set[int]] = {}
    for case in cells.cases:
        if case.workload.name not in (communication.NAS, communication.QUEENS):
            continue
        parameters = case.parameters.model_dump()
        setting = tuple(parameters.get(name) for name in ("kernel", "class", "queens", "depth"))
        programs.setdefault((case.workload.name, *setting), set()).add(parameters["ranks"])
    assert programs
    assert set(map(frozenset, programs.values())) == {frozenset({1, 2})}


def test_degradation_by_message_size(tmp_path: Path) -> None:
    truth = {(VIRTIO, "messages"): 2.0, (E1000, "messages"): 5.0, (E1000, "round-trips"): 4.0}
    tables = fresh(STUDY, (QUICK, make(tmp_path, STUDY, QUICK, truth)))
    messages, trips = tables["messages-fresh"], tables["round-trips-fresh"]
    for row in ("64 B", "1 KiB", "16 KiB", "256 KiB"):
        assert holds(figure(messages, row, VIRTIO), 2.0)
        assert holds(figure(messages, row, E1000), 5.0)
        assert holds(figure(messages, row, "lxc"), 1.0)
    assert messages.of == "message size"
    assert (messages.columns[0].title, messages.columns[0].unit) == ("native", "µs")
    assert all(holds(figure(trips, row.label, E1000), 4.0) for row in trips.rows)
    verdicts = tables["verdicts-fresh"]
    label = next(row.label for row in verdicts.rows if row.label.startswith(f"{E1000}, messages"))
    assert holds(figure(verdicts, label, "ratio"), 5.0)
    assert len(verdicts.rows) == 4 * 2


def test_overhead_by_what_programs_communicate(tmp_path: Path) -> None:
    """Two ranks, T(2) as long as 0.8 · T(1) natively: 37.5 % of it is communication."""
    truth = {
        ("native", "kernels[kernel=cg]"): 0.8,
        ("lxc", "kernels[kernel=cg]"): 0.8,
        (VIRTIO, "kernels[kernel=cg]"): 0.8 * 3 * 2,
        (VIRTIO, "kernels-alone[kernel=cg]"): 3.0,
        ("native", "kernels[kernel=is]"): 0.5,
    }
    tables = fresh(STUDY, (QUICK, make(tmp_path, STUDY, QUICK, truth)))
    slower, adds = tables["communication-fresh"], tables["added-by-messages-fresh"]
    assert holds(figure(slower, "CG S, 2 ranks", "share in native"), 37.5)
    assert holds(figure(slower, "IS S, 2 ranks", "share in native"), 0.0)
    assert holds(figure(slower, "CG S, 2 ranks", VIRTIO), 6.0)
    assert holds(figure(adds, "CG S, 2 ranks", VIRTIO), 2.0), "without the slower arithmetic"
    assert holds(figure(adds, "CG S, 2 ranks", "lxc"), 1.0)
    labels = [row.label for row in slower.rows]
    assert labels[:2] == ["IS S, 2 ranks", "CG S, 2 ranks"], "the least communicating first"
    assert set(labels[2:]) == {"13 queens, depth 1, 2 ranks", "13 queens, depth 3, 2 ranks"}


def test_a_program_that_failed_has_no_share(tmp_path: Path) -> None:
    cell = ("native", "kernels-alone[kernel=is]")
    run = make(tmp_path, STUDY, QUICK, failures=[(0, *cell), (1, *cell)])
    table = fresh(STUDY, (QUICK, run))["communication-fresh"]
    assert table.rows[-1].label == "IS S, 2 ranks"
    share = figure(table, "IS S, 2 ranks", "share in native")
    assert share.value is None
    assert "of 8 blocks 6" in share.why
    assert figure(table, "IS S, 2 ranks", "lxc").value is not None


def test_without_programs_there_are_no_tables_of_them(tmp_path: Path) -> None:
    run = make(tmp_path, STUDY, QUICK)
    opened = measured.opened(run)
    assert len(communication.kernels(opened)) == 4
    resolved = opened.folder.resolved
    workloads = tuple(w for w in resolved.workloads if w.workload == "flood-ping")
    less = replace(opened.folder, resolved=resolved.model_copy(update={"workloads": workloads}))
    assert communication.tables(replace(opened, folder=less)) == []


@settings(max_examples=25, deadline=None)
@given(power=st.sampled_from([-2.0, -1.0, 0.5, 1.0, 2.0]), scale=st.floats(1e-6, 1e6))
def test_a_product_of_powers_is_that_of_the_blocks(
    power: float, scale: float, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """x^p · x^−p is 1 in every block, so the product is its scale, exactly and without a spread."""
    run = measured.opened(_shared(tmp_path_factory))
    key = "kernels[kernel=cg]"
    terms = [Term(power, "native", key, "seconds"), Term(-power, "native", key, "seconds")]
    figure = product(run, terms, scale)
    assert figure.value == pytest.approx(scale, rel=1e-9)
    alone = product(run, [Term(1, "lxc", key, "seconds")])
    inverse = product(run, [Term(-1, "lxc", key, "seconds")])
    assert alone.value is not None and inverse.value is not None
    assert math.isclose(alone.value * inverse.value, 1, rel_tol=1e-9)
    assert alone.low is not None and inverse.high is not None
    assert math.isclose(alone.low * inverse.high, 1, rel_tol=1e-9)


_RUNS: dict[str, Path] = {}


def _shared(factory: pytest.TempPathFactory) -> Path:
    if "run" not in _RUNS:
        _RUNS["run"] = make(factory.mktemp("shared"), STUDY, QUICK)
    return _RUNS["run"]
