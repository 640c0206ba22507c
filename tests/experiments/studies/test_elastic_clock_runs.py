"""The study of elasticity and the clock: runs of our own beside what was published."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from tests.experiments.elastic import elastic_made
from tests.experiments.elastic.elastic_made import SyntheticEnvironment, SyntheticRun
from tests.experiments.studies.planruns import figure, fresh, holds, make, printed
from ullage.cli.live.terminal import ElasticProgress, RunProgress
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.experiments.clock.ntp import guest
from ullage.experiments.clock.ntp.experiment import poll_exponent
from ullage.experiments.clock.ntp.logs import Tracking
from ullage.experiments.clock.ocean.outcome import (
    NoiseDone,
    OceanReport,
    OceanSeries,
    OceanTrial,
    noise_name,
)
from ullage.experiments.elastic.plan import schema as elastic_plan
from ullage.experiments.elastic.plan.units import Scaled
from ullage.experiments.studies import clockfile, clockrun, finding, get, running
from ullage.experiments.studies.base import DerivedTable, StudyPlan
from ullage.experiments.studies.elastic_clock.study import FULL, QUICK, ElasticClock
from ullage.host import binaries
from ullage.runs.reader import RunFolder

STUDY = get("elastic-clock")
TIME, OCEAN, NTP, HOST, CLOUD, ROOM, MOVIE, _ = QUICK
FULL_PLANS = {plan.name.removeprefix("elastic-clock-"): plan for plan in FULL}
TIME_FULL, STREAMS = FULL_PLANS["time-full"], FULL_PLANS["streams-full"]
HOST_FULL = FULL_PLANS["host-full"]
MOVIE_FULL = FULL_PLANS["movie-p120-v400-r100-full"]
MOVIES = [plan for name, plan in FULL_PLANS.items() if name.startswith("movie-")]


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


def test_the_kernel_s_clock_stands_beside_one_of_the_same_source(tmp_path: Path) -> None:
    """575 ns were a read of HPET: nothing of that is a ratio to a clock that the TSC drives."""
    text = (Path(__file__).parent / "clock-measured.json").read_text()
    record = json.loads(text)
    record.pop("sum", None)
    for source, value in (("tsc", None), ("hpet", 0.73)):
        record["cost"]["measured"]["machine"]["clocksource"] = source
        (tmp_path / clockfile.FILE).write_text(json.dumps(record))
        table = fresh(STUDY, (TIME_FULL, tmp_path))["clock-cost-fresh"]
        row = next(row.label for row in table.rows if "now" in row.label)
        there = figure(table, row, f"{table.columns[2].title} there")
        assert (there.value and round(there.value, 2)) == value
        assert bool(there.why) == (value is None)


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
    of = ("cost", "ecp", "loops", "loop-means", "order-cores", "scaling")
    assert list(tables) == [f"clock-{name}-fresh" for name in of]
    precision = tables["clock-ecp-fresh"]
    assert all(value == "0" for value in printed(precision, "zero", 0).values())
    scaling = tables["clock-scaling-fresh"]
    measured = json.loads(file.read_text())["scaling"]["stages"][0]
    real = measured["real"][0]
    label = f"{measured['name']}, flat, {real['nodes']} real"
    mean_ns = sum(real["elapsed_ns"]) / len(real["elapsed_ns"]) / 1e6
    assert figure(scaling, label, "all nodes").value == pytest.approx(mean_ns)


def test_the_loops_by_each_clock(tmp_path: Path) -> None:
    """Of 300 values, counted by hand in the file."""
    file = Path(__file__).parent / "clock-measured.json"
    (tmp_path / clockfile.FILE).write_bytes(file.read_bytes())
    loops = fresh(STUDY, (TIME_FULL, tmp_path))["clock-loops-fresh"]
    ours, raw = "10,000, ours (now)", "10,000, CLOCK_MONOTONIC_RAW"
    assert figure(loops, ours, "median").value == 2.163
    assert figure(loops, ours, "fullest bin").value == pytest.approx(100 * 287 / 300)
    assert figure(loops, raw, "fullest bin").value == pytest.approx(100 * 235 / 300)
    assert figure(loops, raw, "fullest 3 in a row").value == pytest.approx(100 * 297 / 300)
    assert any("same counter, not independent" in note for note in loops.notes)


def test_beside_the_means_of_loops_stands_nothing_as_none_were_said_to_be_as_long(
    tmp_path: Path,
) -> None:
    """What “10 K” counts was not said: 86 µs at 2.33 GHz are 20 cycles for each of them."""
    record = json.loads((Path(__file__).parent / "clock-measured.json").read_bytes())
    record.pop("sum", None)
    (tmp_path / clockfile.FILE).write_text(json.dumps(record))
    means = fresh(STUDY, (TIME_FULL, tmp_path))["clock-loop-means-fresh"]
    assert [row.label for row in means.rows] == ["10,000", "100,000", "1,000,000"]
    loop = next(x for x in record["check"]["loops"]["loops"] if x["instructions"] == 10_000)
    ours = loop["rvec"]["durations"]["mean_ns"] / 1e3
    assert figure(means, "10,000", "ours (now)").value == pytest.approx(ours)
    assert [column.title for column in means.columns] == ["ours (now)", "deviation"]
    assert any("was not said" in note for note in means.notes)
    (kind,) = (kind for kind in STUDY.coverage() if kind.file == "clock2015_loops")
    assert kind.fresh == 0
    assert "was not said" in kind.missing


def test_the_order_of_two_cores_and_of_two_clients(tmp_path: Path) -> None:
    record = json.loads((Path(__file__).parent / "clock-measured.json").read_bytes())
    record.pop("sum", None)
    record["scaling"]["stages"][0]["order"] = {
        "messages": 400, "backward": 3, "equal": 0, "worst_ns": 1500,
        "shortest_ns": [30_000, 42_000], "bound_ns": 18_000,
    }  # fmt: skip
    (tmp_path / clockfile.FILE).write_text(json.dumps(record))
    tables = fresh(STUDY, (TIME_FULL, tmp_path))
    cores = tables["clock-order-cores-fresh"]
    assert figure(cores, "counter, unfenced", "went back").value == 4546
    assert figure(cores, "ours, ordered", "went back").value == 0
    clients = tables["clock-order-clients-fresh"]
    (row,) = clients.rows
    assert figure(clients, row.label, "received before sent").value == 3
    assert figure(clients, row.label, "clocks apart").value == 6.0
    assert figure(clients, row.label, "bound of both").value == 18.0


def test_our_host_beside_the_published(tmp_path: Path) -> None:
    truth = {("lxc", "allocation"): 3.0}
    tables = fresh(STUDY, (HOST, make(tmp_path, STUDY, HOST, truth)))
    parts = tables["allocation-fresh"]
    assert [column.title for column in parts.columns] == ["TaR", "TeF", "TcI", "TiI", "TlR"]
    assert holds(figure(parts, "lxc, 1 at once, image copied", "TcI"), 3000)
    assert holds(figure(parts, "native, 1 at once, image copied", "TlR"), 1000)
    assert not any("there" in row.label for row in parts.rows), "a cloud is another setting"
    streams = tables["streams-fresh"]
    assert {row.label.rpartition("(")[2] for row in streams.rows} == {"server_cpu_per_stream)"}


def test_an_allocation_in_the_users_cloud(tmp_path: Path) -> None:
    """Published times of clouds are told with it, and no figure of theirs stands in its rows."""
    run = make(tmp_path, STUDY, CLOUD, {("mine", "allocation"): 3.0})
    tables = fresh(STUDY, (CLOUD, run))
    means = tables["cloud-allocation-means-fresh"]
    trials = [
        value
        for trial in RunFolder.open(run).trials
        if trial.environment == "mine"
        and isinstance(value := trial.metrics["allocation_time"], float)
    ]
    assert figure(means, "mine, 1 at once", "TaR, mean").value == pytest.approx(np.mean(trials))
    assert figure(means, "mine, 1 at once", "TaR, deviation").value == pytest.approx(
        np.std(trials, ddof=1)
    )
    parts = tables["cloud-allocation-fresh"]
    assert [row.label for row in parts.rows] == ["here, 1 at once", "mine, 1 at once"]
    assert holds(figure(parts, "mine, 1 at once", "TaR"), 3000)
    assert "openstack on kvm 10.729 ± 1.439 s, openstack on xen 71.965" in parts.notes[-1]
    ratios = tables["cloud-allocation-ratios-fresh"]
    assert holds(figure(ratios, "mine, allocation", "ratio"), 3.0)
    assert [column.title for column in ratios.columns] == ["ratio", "verdict"]


def test_copied_and_cold_images_are_told_apart(tmp_path: Path) -> None:
    """All rows of one number of instances were called the same."""
    tables = fresh(STUDY, (HOST_FULL, make(tmp_path, STUDY, HOST_FULL, blocks=2)))
    labels = [row.label for row in tables["allocation-fresh"].rows]
    assert len(set(labels)) == len(labels)
    assert {"lxc, 1 at once", "lxc, 16 at once, image copied", "lxc, 1 at once, image cold"} <= {
        *labels
    }


def test_images_of_a_size_and_a_format_have_tables_of_their_own(tmp_path: Path) -> None:
    images = FULL_PLANS["images-full"]
    tables = fresh(
        STUDY,
        (HOST_FULL, make(tmp_path, STUDY, HOST_FULL, blocks=2)),
        (images, make(tmp_path, STUDY, images, blocks=2)),
    )
    assert {"allocation-fresh", "images-fresh", "images-ratios-fresh"} <= set(tables)
    labels = [row.label for row in tables["images-fresh"].rows]
    assert len(set(labels)) == len(labels)
    assert "lxc, 1 at once, image of 1.4 GB copied" in labels
    (cold,) = (
        label for label in labels if "qcow2" in label and "2.8 GB copied, image cold" in label
    )
    assert figure(tables["images-fresh"], cold, "TcI").value == pytest.approx(1000, rel=0.05)


def test_our_streams_beside_the_published(tmp_path: Path) -> None:
    truth = {("vm[instances=1]", "streams"): 4.0}
    table = fresh(STUDY, (STREAMS, make(tmp_path, STUDY, STREAMS, truth)))["streams-fresh"]
    published = {
        row.label.partition(" (")[0].partition(", streams")[0]: cell.value
        for row, of, cell in table.figures()
        if of.title == "there" and cell.value is not None
    }
    assert published == {
        **{f"lxc[instances={n}]": 1 for n in (1, 2, 4, 8)},
        "vm[instances=1]": pytest.approx(320 / 242),
        "vm[instances=2]": pytest.approx(320 / 282),
        "vm[instances=4]": 1,
        "vm[instances=8]": 1,
    }, "as many instances as there, and no OCI container, which was not measured"


def test_the_limit_is_named_with_each_number_of_streams(tmp_path: Path) -> None:
    """896 Mbit/s of all techniques were the card: that does not make them equal."""
    run = make(tmp_path, STUDY, STREAMS, blocks=3)
    journal = run / "journal.jsonl"
    events = [json.loads(line) for line in journal.read_text().splitlines()]
    for event in events:
        if event.get("environment") == "native" and "block" in event:
            full = event["block"] < 2
            event["facts"] = {
                "limit": "the link: 97% used" if full else "the servers' CPUs, 1: 99% used"
            }
        elif event.get("environment") == "container" and "block" in event:
            event["facts"] = {"limit": "the link: 90% used"}
    journal.write_text("".join(json.dumps(event) + "\n" for event in events))
    table = fresh(STUDY, (STREAMS, run))["limits-fresh"]
    rows = {row.label.partition(",")[0]: row.cells for row in table.rows}
    assert rows == {
        "native": ("the link (2); the servers' CPUs, 1 (1)",),
        "container": ("the link (3)",),
    }, "of an environment whose trials told nothing there is nothing"


def test_streams_over_another_link_stand_beside_nothing(tmp_path: Path) -> None:
    run = make(tmp_path, STUDY, STREAMS)
    resolved = json.loads((run / "resolved.json").read_text())
    resolved.pop("sum", None)
    assert resolved["network"]["rate"] == 10**9
    resolved["network"]["rate"] = 10**10
    (run / "resolved.json").write_text(json.dumps(resolved))
    table = fresh(STUDY, (STREAMS, run))["streams-fresh"]
    assert all(cell.value is None for _, of, cell in table.figures() if of.title == "there")


def movie(
    tmp_path: Path, environments: dict[str, SyntheticEnvironment], cell: StudyPlan = MOVIE_FULL
) -> Path:
    """A run with the viewers, patience, film and room of a full plan."""
    plan, _ = elastic_plan.load(STUDY.folder / cell.file)
    assert plan.room.viewers is not None
    return elastic_made.make(
        tmp_path,
        SyntheticRun(
            name=cell.name,
            environments=environments,
            baseline="lxc",
            room=plan.room.viewers,
            length_s=plan.video.length / plan.time_scale,
            time_scale=plan.time_scale,
            users_time=Scaled(plan).users_time(()),
        ),
    )


def test_all_ten_published_cells_are_asked_again() -> None:
    """Viewers, patience, room, and how long an allocation took; OpenStack's 30 s on top of it."""
    cells: set[tuple[str, ...]] = set()
    times = {(row["platform"], row["hypervisor"]): row for row in
             STUDY.published("elastic2015_allocation")}  # fmt: skip
    for movie_plan in MOVIES:
        plan, _ = elastic_plan.load(STUDY.folder / movie_plan.file)
        assert (plan.repetitions, plan.video.length) == (10, 1800)
        assert (plan.video.bitrate, plan.video.sent) == (2_698_000, 2_968_000)
        for key, environment in plan.environments.items():
            if not key.startswith("lxc-as-"):
                continue
            platform, hypervisor = key.removeprefix("lxc-as-").split("-")
            time, own = times[platform, hypervisor], environment.allocation_time
            more = 30 if platform == "openstack" else 0
            assert own is not None
            assert own.mean == pytest.approx(float(time["mean_s"]) + more)
            assert own.deviation == pytest.approx(float(time["stddev_s"]))
            assert plan.arrivals.rate is not None
            cells.add((platform, hypervisor, f"{plan.patience:g}", str(plan.arrivals.viewers),
                       f"{1 / plan.arrivals.rate:g}", str(plan.room.viewers)))  # fmt: skip
    names = ("platform", "hypervisor", "patience_s", "clients", "interarrival_s", "clients_per_vm")
    published = STUDY.published("elastic2015_blocking")
    assert len(published) == 10
    assert cells == {tuple(row[name] for name in names) for row in published}


def test_each_cell_stands_beside_its_own_and_no_other(tmp_path: Path) -> None:
    keys = [f"lxc-as-{platform}-{hypervisor}" for platform in ("openstack", "opennebula")
            for hypervisor in ("kvm", "xen")]  # fmt: skip
    beside: list[str] = []
    for cell in MOVIES:
        nodes = {key: SyntheticEnvironment() for key in ("lxc", *keys)}
        table = fresh(STUDY, (cell, movie(tmp_path, nodes, cell)))["movie-fresh"]
        beside += [str(figure.value) for _, of, figure in table.figures()
                   if of.title == "PcBl there" and figure.value is not None]  # fmt: skip
    printed = [str(float(row["blocked_pct"])) for row in STUDY.published("elastic2015_blocking")]
    assert sorted(beside) == sorted(printed)


def test_other_viewers_stand_beside_nothing(tmp_path: Path) -> None:
    other = elastic_made.make(
        tmp_path,
        SyntheticRun(
            name=MOVIE_FULL.name,
            environments={"lxc": SyntheticEnvironment(),
                          "lxc-as-openstack-kvm": SyntheticEnvironment()},
        ),
    )  # fmt: skip
    table = fresh(STUDY, (MOVIE_FULL, other))["movie-fresh"]
    assert all(c.value is None for _, of, c in table.figures() if of.title == "PcBl there")


def test_a_daemon_s_corrections_stand_beside_no_client_s(tmp_path: Path) -> None:
    """And 600 s can be reached: chrony polls there at least twenty times."""
    plan = clockrun.load(STUDY.folder / FULL_PLANS["ntp-full"].file)
    assert plan.intervals == (600.0,)
    assert plan.observe_s / 2 ** poll_exponent(600.0) > 20
    assert set(clockrun.load(STUDY.folder / TIME_FULL.file).intervals) == {0.0, 10.0}


def recorded(tmp_path: Path, plan: StudyPlan, **parts: object) -> Path:
    """A folder that a plan for the clock left, with these parts."""
    folder = tmp_path / plan.name
    folder.mkdir()
    record = {"format": 1, "name": plan.name, **parts}
    (folder / clockfile.FILE).write_text(json.dumps(record))
    return folder


def ocean(ranks: int, *failed: str) -> OceanSeries:
    """Ten runs of 10 s; beside chronyd 1.02 times as long, and five times as far apart."""
    variants = {"stock": (1.0, 1), "stock~again": (1.0, 1), "chrony": (1.02, 5), "ullage": (1, 1)}
    trials = [
        OceanTrial(variant=name, block=block, position=0, failed="mpirun gave up")
        if name in failed
        else OceanTrial(
            variant=name,
            block=block,
            position=0,
            total_s=longer * (10 + far * 0.001 * (block - 4.5)),
            skew_after_s=2e-6 * far,
        )
        for name, (longer, far) in variants.items()
        for block in range(10)
    ]
    return OceanSeries(ranks=ranks, variants=tuple(variants), trials=tuple(trials))


def sailed(tmp_path: Path, plan: StudyPlan, *series: OceanSeries) -> DerivedTable:
    """The table of a plan's run."""
    options = clockrun.load(STUDY.folder / plan.file).ocean()
    report = OceanReport(
        options=options, cpus=2, left_out={"chrony": "no chronyd"}, versions={}, series=series
    )
    folder = recorded(tmp_path, plan, ocean=report.model_dump(mode="json"))
    (table,) = fresh(STUDY, (plan, folder)).values()
    return table


def test_the_ocean_program_under_each_clock(tmp_path: Path) -> None:
    table = sailed(tmp_path, OCEAN, ocean(4), ocean(8))
    assert table.key == "clock-ocean-4-8-fresh"
    assert len(table.rows) == 8
    longer = figure(table, "8, chronyd beside it", "÷ ours")
    assert holds(longer, 1.02)
    ratio = figure(table, "8, chronyd beside it", "deviation ÷ ours")
    assert ratio.value == pytest.approx(5 * 1.02)
    assert ratio.low is not None and ratio.high is not None
    # F with 9 and 9 degrees of freedom: 4.026 at 97.5 %.
    assert ratio.low == pytest.approx(5 * 1.02 / 4.026**0.5, rel=1e-3)
    assert ratio.high == pytest.approx(5 * 1.02 * 4.026**0.5, rel=1e-3)
    assert figure(table, "4, our clock", "clocks apart").value == pytest.approx(2)
    deviation = figure(table, "4, our clock", "deviation")
    assert deviation.value == pytest.approx(0.0030277, rel=1e-4)
    assert not deviation.why
    assert not any("there" in column.title for column in table.columns), "POP is another setting"
    assert any("the scheduler's" in note for note in table.notes), "8 on 2 processors"


def test_runs_that_failed_are_no_figures_and_are_counted(tmp_path: Path) -> None:
    table = sailed(tmp_path, OCEAN, ocean(4, "ullage"))
    for column in ("run", "clocks apart", "deviation", "÷ the library's"):
        missing = figure(table, "4, our clock", column)
        assert missing.value is None and missing.why, column
    assert figure(table, "4, our clock", "failed").value == 10
    assert figure(table, "4, our clock", "runs").value == 0
    assert figure(table, "4, chronyd beside it", "÷ ours").value is None
    assert any("mpirun gave up" in note for note in table.notes)
    assert any("no chronyd" in note for note in table.notes)


def changed(series: OceanSeries, name: str, **fields: object) -> OceanSeries:
    """The same, but for these fields of a variant's trials in odd blocks."""
    trials = (
        t.model_copy(update=fields) if t.variant == name and t.block % 2 else t
        for t in series.trials
    )
    return series.model_copy(update={"trials": tuple(trials)})


def test_exchanges_are_said_for_each_number_of_processes(tmp_path: Path) -> None:
    busy, idle = changed(ocean(4), "chrony", exchanges=7), changed(ocean(8), "chrony", exchanges=0)
    table = sailed(tmp_path, OCEAN, busy, idle)
    assert (
        "Exchanges of chronyd during the runs: with 4 processes 35 in 5 runs, 0 of them without "
        "any; with 8 processes 0 in 5 runs, 5 of them without any."
    ) in table.notes


def test_a_clock_of_ours_that_does_not_call_itself_global_is_counted(tmp_path: Path) -> None:
    sure = changed(ocean(4), "ullage", wtime_is_global=True)
    assert not any("global" in note for note in sailed(tmp_path, OCEAN, sure).notes)
    (tmp_path / "doubtful").mkdir()
    doubtful = changed(ocean(8), "ullage", wtime_is_global=False)
    notes = sailed(tmp_path / "doubtful", OCEAN, sure, doubtful).notes
    assert "Our clock did not call itself global: with 8 processes in 5 of 5 runs." in notes


@pytest.mark.parametrize(
    ("fifo", "ending"),
    [(1, "before all usual processes."), (0, "it waits for its turn.")],
)
def test_a_daemon_of_noise_says_what_it_did(tmp_path: Path, fifo: int, ending: str) -> None:
    options = clockrun.load(STUDY.folder / FULL_PLANS["ocean-4-12-full"].file).ocean()
    name = noise_name(options.noise[0])
    done = NoiseDone(
        period_us=1000, length_us=14, cpu=0, seconds=3600, fifo=fifo, bursts=1000, overruns=2,
        busy_s=0.014, ran_s=1.0, length_mean_s=15e-6, length_p99_s=20e-6,
    )  # fmt: skip
    trials = [
        OceanTrial(variant=name, block=block, position=4, total_s=10.0, noise=done)
        for block in range(2)
    ]
    four = ocean(4)
    series = four.model_copy(
        update={"variants": (*four.variants, name), "trials": (*four.trials, *trials)}
    )
    table = sailed(tmp_path, FULL_PLANS["ocean-4-12-full"], series)
    (note,) = (note for note in table.notes if "bursts" in note)
    assert note.startswith(f"N{name[1:]}: with 4 processes 2,000 bursts of 15 µs on average in 2 ")
    assert ", 4 left out" in note
    assert note.endswith(ending)


def test_all_published_numbers_of_processes_are_asked() -> None:
    plans = [plan for name, plan in FULL_PLANS.items() if name.startswith("ocean-")]
    options = [clockrun.load(STUDY.folder / plan.file).ocean() for plan in plans]
    ranks = [str(number) for option in options for number in option.ranks]
    assert ranks == [row["mpi_processes"] for row in STUDY.published("clock2015_pop")]
    assert {option.runs for option in options} == {10}
    assert clockrun.load(STUDY.folder / OCEAN.file).ocean().ranks == (4, 8)


def test_chrony_s_clock_and_ours_in_one_table(tmp_path: Path) -> None:
    """The same guest, time to learn, and seconds; in units that are said."""
    sizes = {"count": 12, "mean_ns": 1e3, "sd_ns": None, "p50_ns": 2e3, "p90_ns": 3e3,
             "p99_ns": 4e3, "max_ns": 5e3}  # fmt: skip
    held = {
        "learned": 6, "from_ns": 34 * 10**9, "until_ns": 89 * 10**9,
        "errors": [
            {"clock": "chrony", "off": sizes, "judge_ns": 8e4},
            {"clock": "learned", "off": sizes, "judge_ns": 8e4, "bound_ns": 9e4},
        ],
    }  # fmt: skip
    interval: dict[str, object] = {
        "asked_s": 0.0, "poll": -7, "used_s": 0.01, "observed_s": 90.0, "error_ppb": -5e4,
        "error_bound_ppb": 10.0, "delay_ns": 1000, "settled_ns": 31 * 10**9, "decided": None,
        "applied": None, "decided_learning": None, "applied_learning": None, "rate_max_ppb": None,
        "unexplained_ns": 10.0, "updates": [], "corrections": [], "beside": held,
    }  # fmt: skip
    interval["tracking"] = {name: "s" if name == "server" else 1 for name in Tracking.model_fields}
    measured = {"options": {}, "counter_khz": 2e6, "server": "s", "versions": {},
                "intervals": [interval]}  # fmt: skip
    report = {"measured": measured, "published": {"source": "s", "corrections": []}}
    folder = recorded(tmp_path, NTP, ntp=report)
    table = fresh(STUDY, (NTP, folder))["clock-beside-0-fresh"]
    chrony, ours = (row.label for row in table.rows)
    assert "chrony" in chrony and "ours" in ours
    for row in (chrony, ours):
        assert figure(table, row, "learned for").value == 31
        assert figure(table, row, "then watched for").value == 55
        assert figure(table, row, "median").value == 2
    assert figure(table, ours, "its own bound").value == 90
    assert figure(table, ours, "the judge's bound").value == 80
    assert figure(table, chrony, "its own bound").why
    interval["beside"] = None
    (tmp_path / "early").mkdir()
    folder = recorded(tmp_path / "early", NTP, ntp=report)
    assert "clock-beside-0-fresh" not in fresh(STUDY, (NTP, folder))
    interval["beside_why"] = "chrony had not settled"
    (tmp_path / "why").mkdir()
    folder = recorded(tmp_path / "why", NTP, ntp=report)
    table = fresh(STUDY, (NTP, folder))["clock-beside-0-fresh"]
    assert {cell.why for _, _, cell in table.figures()} == {"chrony had not settled"}


def test_what_a_plan_for_the_clock_lacks_is_said_before_it_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for plan, lacking in ((OCEAN, errors.PROGRAM_MISSING), (NTP, errors.HOST_MISSING)):
        monkeypatch.setattr(binaries, "DIRECTORY", tmp_path)
        monkeypatch.setattr(guest, "needed", missing)
        with pytest.raises(UllageError) as raised:
            clockrun.check(STUDY.folder / plan.file)
        assert raised.value.kind is lacking


def missing(program: str, package: str) -> str:
    raise UllageError(errors.HOST_MISSING, what=program, command=package)


def test_our_movie(tmp_path: Path) -> None:
    path = movie(
        tmp_path,
        {
            "lxc": SyntheticEnvironment(tar_s=0.2),
            "lxc-as-openstack-kvm": SyntheticEnvironment(tar_s=1.5),
        },
    )
    tables = fresh(STUDY, (MOVIE_FULL, path))
    table = tables["movie-fresh"]
    slow = next(row.label for row in table.rows if "lxc-as-openstack-kvm" in row.label)
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
    tables = fresh(STUDY, (MOVIE, path))
    assert set(tables) == {"movie-fresh", "predicted-fresh", "hosts-fresh"}


def test_held_out_repetitions_are_predicted_and_the_replay_is_called_a_check(
    tmp_path: Path,
) -> None:
    """By seed and by delay in one run; by load from another of the study."""
    nodes = {"lxc": SyntheticEnvironment(tar_s=0.5),
             "lxc-as-openstack-kvm": SyntheticEnvironment(tar_s=2.0, boot_delay_s=1.5)}  # fmt: skip
    cells = MOVIES[:2]
    runs = [(cell, movie(tmp_path, nodes, cell)) for cell in cells]
    tables = fresh(STUDY, *runs)
    first = next(table for key, table in tables.items() if key.startswith("predicted-"))
    ways = {row.label.rpartition(", ")[2] for row in first.rows}
    assert ways == {"seed", "delay", "load"}
    assert all(cell.value is not None for _, of, cell in first.figures() if of.title == "error")
    assert "consistency check" in first.notes[1]


def test_hosts_that_are_on_are_counted_with_their_boot(tmp_path: Path) -> None:
    """123.375 W each, from a node's request to its removal, in the viewers' time."""
    path = elastic_made.make(tmp_path, SyntheticRun(name=MOVIE.name))
    tables = fresh(STUDY, (MOVIE, path))
    hosts, metrics = tables["hosts-fresh"], tables["movie-fresh"]
    for row in hosts.rows:
        seconds = metrics.value(row.label, "allocated")
        assert seconds is not None
        assert hosts.value(row.label, "hosts on") == pytest.approx(60 * seconds / 3600)
        assert hosts.value(row.label, "idle energy") == pytest.approx(0.123375 * 60 * seconds)


def test_the_room_of_step_1_stands_with_where_it_comes_from(tmp_path: Path) -> None:
    """And the published figures stand beside where an environment's own room is theirs."""
    lxc, openstack = SyntheticEnvironment(), "lxc-as-openstack-kvm"
    run = movie(tmp_path, {"lxc": lxc, openstack: SyntheticEnvironment()})
    assert "rooms-fresh" not in fresh(STUDY, (MOVIE_FULL, run)), "the plan said it"
    resolved = json.loads((run / "resolved.json").read_text())
    resolved.pop("sum", None)
    capacity = {"run": "step-1", "environment": "lxc", "trials": 6, "lowest": 98, "highest": 103}
    resolved["settings"][openstack] |= {"room": 101, "capacity": {**capacity, "viewers": 101}}
    (run / "resolved.json").write_text(json.dumps(resolved))
    tables = fresh(STUDY, (MOVIE_FULL, run))
    (row,) = tables["rooms-fresh"].rows
    assert figure(tables["rooms-fresh"], row.label, "viewers").value == 101
    assert row.cells[2] == "lxc of step-1"
    there = [f for _, of, f in tables["movie-fresh"].figures() if of.title == "PcBl there"]
    assert [f.value for f in there] == [None, None], "100 were taken there"


def test_the_limit_of_a_room_is_named(tmp_path: Path) -> None:
    run = make(tmp_path, STUDY, ROOM, blocks=3)
    journal = run / "journal.jsonl"
    events = [json.loads(line) for line in journal.read_text().splitlines()]
    for event in events:
        if "environment" in event and "block" in event:
            event["facts"] = {"limit": "the link: 93% used"}
    journal.write_text("".join(json.dumps(event) + "\n" for event in events))
    tables = fresh(STUDY, (ROOM, run))
    assert list(tables) == ["room-limits-fresh"]
    assert {row.cells for row in tables["room-limits-fresh"].rows} == {("the link (3)",)}


def test_all_quick_runs_together(tmp_path: Path) -> None:
    clock = tmp_path / "clock"
    clock.mkdir()
    measured = Path(__file__).parent / "clock-measured.json"
    (clock / clockfile.FILE).write_bytes(measured.read_bytes())
    host = make(tmp_path, STUDY, HOST, blocks=2)
    path = elastic_made.make(tmp_path, SyntheticRun(name=MOVIE.name, repetitions=2))
    tables = fresh(STUDY, (TIME, clock), (HOST, host), (MOVIE, path))
    keys = list(tables)
    assert len(keys) == len(set(keys)) == 13
    assert keys[0] == "streams-fresh", "steps come in their order, the clock last"
