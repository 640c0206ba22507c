"""The study of elasticity and the clock: runs of our own beside what was published."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import ClassVar

import pytest

from tests.experiments.elastic import elastic_made
from tests.experiments.elastic.elastic_made import SyntheticEnvironment, SyntheticRun
from tests.experiments.studies.planruns import figure, fresh, holds, make, printed
from ullage.cli.live.terminal import ElasticProgress, RunProgress
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.experiments.studies import clockfile, finding, get, running
from ullage.experiments.studies.base import StudyPlan
from ullage.experiments.studies.elastic_clock.study import FULL, QUICK, ElasticClock

STUDY = get("elastic-clock")
TIME, HOST, MOVIE = QUICK
TIME_FULL, STREAMS, _, MOVIE_FULL = FULL


# --- runs of our own ----------------------------------------------------------------------------


VIEWS = running.Views(RunProgress, ElasticProgress)


class OnlyClock(ElasticClock):
    """The study with one plan, a part of its own."""

    place: ClassVar[Path]

    @property
    def folder(self) -> Path:
        return self.place

    def plans(self, quick: bool) -> tuple[StudyPlan, ...]:
        return (TIME,)


def test_the_clock_is_measured_and_kept(tmp_path: Path) -> None:
    """As `ullage study run` does, and again with --resume."""
    OnlyClock.place = tmp_path
    text = f"name: {TIME.name}\nmeasure: [cost]\nquick: true\n"
    (tmp_path / TIME.file).write_text(text)
    runs = tmp_path / "runs"
    request = running.StudyRequest(quick=True, runs=runs)
    folders, code = running.run(OnlyClock(), VIEWS, request)
    folder = folders[TIME.name]
    assert (code, (folder / "plan.yaml").read_text()) == (0, text)
    written = (folder / clockfile.FILE).read_bytes()
    request = running.StudyRequest(quick=True, resume=True, runs=runs, as_json=True)
    again, _ = running.run(OnlyClock(), VIEWS, request)
    assert again == folders == finding.newest([TIME], runs)
    assert (folder / clockfile.FILE).read_bytes() == written, "what is measured stays"
    assert finding.plan_of(folder) == TIME.name
    table = fresh(STUDY, (TIME, folder))["clock-cost-fresh"]
    rows = [row.label for row in table.rows]
    counter = next(row for row in rows if row.startswith("counter"))
    ours = next(row for row in rows if "now" in row)
    over = table.columns[1].title
    assert figure(table, counter, over).value == pytest.approx(1)
    assert (figure(table, ours, over).value or 0) > 0
    assert round(figure(table, ours, f"{over} there").value or 0, 2) == 1.63


@pytest.mark.parametrize(
    "text", ["", "{}", '{"format": 2, "name": "x"}', '{"format": 1, "name": "x", "more": 1}']
)
def test_a_clock_file_that_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / clockfile.FILE).write_text(text)
    with pytest.raises(UllageError) as raised:
        finding.plan_of(tmp_path)
    assert raised.value.kind is errors.RUN_BAD_FORMAT


@pytest.mark.parametrize("number", ["1e308", "1e151", "-1e308", "1" + 400 * "0"])
def test_a_clock_file_with_a_number_too_large(tmp_path: Path, number: str) -> None:
    record = json.loads((Path(__file__).parent / "clock-measured.json").read_bytes())
    record.pop("sum", None)
    text = json.dumps(record)
    mean = re.search(r'"mean_ns": ([0-9.]+)', text)
    assert mean
    (tmp_path / clockfile.FILE).write_text(text[: mean.start(1)] + number + text[mean.end(1) :])
    with pytest.raises(UllageError) as raised:
        clockfile.read(tmp_path)
    assert raised.value.kind is errors.RUN_BAD_FORMAT
    assert ".mean_ns: " in raised.value.message


def test_a_folder_without_a_clock_file(tmp_path: Path) -> None:
    with pytest.raises(UllageError) as raised:
        clockfile.read(tmp_path)
    assert raised.value.kind is errors.RUN_NOT_FOUND


def test_the_clock_s_other_tables(tmp_path: Path) -> None:
    """From what `ullage clock` printed on some machine."""
    file = Path(__file__).parent / "clock-measured.json"
    (tmp_path / clockfile.FILE).write_bytes(file.read_bytes())
    tables = fresh(STUDY, (TIME_FULL, tmp_path))
    assert set(tables) == {"clock-cost-fresh", "clock-ecp-fresh", "clock-scaling-fresh"}
    precision = tables["clock-ecp-fresh"]
    assert all(value == "0" for value in printed(precision, "zero", 0).values())
    scaling = tables["clock-scaling-fresh"]
    measured = json.loads(file.read_text())["scaling"]["stages"][0]
    real = measured["real"][0]
    label = f"{measured['name']}, flat, {real['nodes']} real"
    mean_ns = sum(real["elapsed_ns"]) / len(real["elapsed_ns"]) / 1e6
    assert figure(scaling, label, "all nodes").value == pytest.approx(mean_ns)


def test_our_host_beside_the_published(tmp_path: Path) -> None:
    truth = {("lxc", "allocation"): 3.0}
    tables = fresh(STUDY, (HOST, make(tmp_path, STUDY, HOST, truth)))
    parts = tables["allocation-fresh"]
    assert [column.title for column in parts.columns] == ["TaR", "TeF", "TcI", "TiI", "TlR"]
    assert holds(figure(parts, "lxc, 1 at once", "TcI"), 3000)
    assert holds(figure(parts, "native, 1 at once", "TlR"), 1000)
    assert figure(parts, "kvm on openstack there", "TaR").value == 10.729
    missing = figure(parts, "kvm on openstack there", "TcI")
    assert missing.value is None and missing.why == "defined there, never reported"
    streams = tables["streams-fresh"]
    assert {row.label.rpartition("(")[2] for row in streams.rows} == {"server_cpu_per_stream)"}


def test_our_streams_beside_the_published(tmp_path: Path) -> None:
    truth = {("vm[instances=1]", "streams"): 4.0}
    table = fresh(STUDY, (STREAMS, make(tmp_path, STUDY, STREAMS, truth)))["streams-fresh"]
    published = {
        row.label.partition(",")[0]: cell.value
        for row, of, cell in table.figures()
        if of.title == "one instance there" and cell.value is not None
    }
    assert published["lxc[instances=1]"] == 1
    assert published["vm[instances=1]"] == pytest.approx(320 / 242)
    assert "container" not in published, "no such technique was published"


def movie(tmp_path: Path, **environments: SyntheticEnvironment) -> Path:
    return elastic_made.make(
        tmp_path, SyntheticRun(name=MOVIE_FULL.name, environments=environments, baseline="lxc")
    )


def test_our_movie(tmp_path: Path) -> None:
    path = movie(
        tmp_path,
        **{
            "lxc": SyntheticEnvironment(tar_s=0.2),
            "openstack-kvm": SyntheticEnvironment(tar_s=1.5),
        },
    )
    tables = fresh(STUDY, (MOVIE_FULL, path))
    table = tables["movie-fresh"]
    slow = next(row.label for row in table.rows if "openstack-kvm" in row.label)
    quick = next(row.label for row in table.rows if row.label != slow)
    assert holds(figure(table, slow, "TaR"), 1.5)
    assert figure(table, slow, "PcBl there").value == 8.30
    nothing = figure(table, quick, "PcBl there")
    assert nothing.value is None and nothing.why
    blocked = [figure(table, row, "PcBl").value for row in (quick, slow)]
    assert blocked[0] is not None and blocked[1] is not None
    assert blocked[0] < blocked[1] <= 100
    verdicts = tables["movie-verdicts-fresh"]
    cells = {row.label.rpartition(", ")[2]: row.cells for row in verdicts.rows}
    assert cells["blocked viewers"][2] == "worse"
    assert cells["blocked viewers"][0] == "", "a share is compared by its difference"
    assert cells["allocation of a node"][1] == ""


def test_a_movie_without_a_baseline_has_no_verdicts(tmp_path: Path) -> None:
    path = elastic_made.make(
        tmp_path,
        SyntheticRun(name=MOVIE.name, environments={"lxc": SyntheticEnvironment()}, baseline=None),
    )
    assert set(fresh(STUDY, (MOVIE, path))) == {"movie-fresh"}


def test_all_quick_runs_together(tmp_path: Path) -> None:
    clock = tmp_path / "clock"
    clock.mkdir()
    measured = Path(__file__).parent / "clock-measured.json"
    (clock / clockfile.FILE).write_bytes(measured.read_bytes())
    host = make(tmp_path, STUDY, HOST, blocks=2)
    path = elastic_made.make(tmp_path, SyntheticRun(name=MOVIE.name, repetitions=2))
    tables = fresh(STUDY, (TIME, clock), (HOST, host), (MOVIE, path))
    keys = list(tables)
    assert len(keys) == len(set(keys)) == 8
    assert keys[0] == "streams-fresh", "steps come in their order, the clock last"
