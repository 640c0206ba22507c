"""The flash study's tables.

Mean watts and correlations were reckoned apart from the code (NumPy); the other digits are what the
code gave when it was written, so that they cannot change unseen.
"""

from __future__ import annotations

import csv
import itertools
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from testing.synthetic import make_run
from tests.analysis.energykit import metered
from ullage.analysis.comparison.energy_model import Energy, EnergyFigure
from ullage.analysis.comparison.estimates import Absolute, Budget, Interval
from ullage.experiments.studies import get, measured, page, plantexts, showing
from ullage.experiments.studies.base import DerivedTable, StudyFigure
from ullage.experiments.studies.flash_energy import derived
from ullage.host.storage import HostDisk
from ullage.plan import matrix, schema
from ullage.runs.reader import RunFolder
from ullage.runs.records import EnvironmentRecord, Metric, WorkloadRecord

STUDY = get("flash-energy")
TABLES = {table.key: table for table in STUDY.tables()}
POINTS = ("hard disk, swap on hard disk", "hard disk, swap on SSD", "SSD, swap on SSD")


def values(table: DerivedTable, column: str) -> list[float | None]:
    return [figure.value for _, of, figure in table.figures() if of.title == column]


def rounded(table: DerivedTable, column: str, places: int) -> list[float | None]:
    return [None if value is None else round(value, places) for value in values(table, column)]


def figures(table: DerivedTable, column: str) -> list[StudyFigure]:
    return [figure for _, of, figure in table.figures() if of.title == column]


def test_mean_power_is_energy_over_metered_seconds() -> None:
    assert rounded(TABLES["power"], "mean power", 2) == [
        165.70, 174.33, 173.70, 172.84,
        177.28, 156.39, 172.50, 169.76,
        169.49, 164.74, 162.38, 148.94,
    ]  # fmt: skip


def test_the_two_printed_powers_come_out_as_printed() -> None:
    printed = {f.printed: f.agrees for f in figures(TABLES["power"], "mean power") if f.printed}
    assert printed == {"165.7": True, "172.8": True}


def test_the_meters_window_was_not_the_tests() -> None:
    power = TABLES["power"]
    assert rounded(power, "tested", 3) == [
        560.076, 560.071, 560.090, 560.075,
        263.806, 251.826, 246.685, 250.422,
        None, None, None, None,
    ]  # fmt: skip
    assert rounded(power, "metered beside the test", 1) == [
        17.3, 1.8, 2.6, 4.5, 2.1, 39.7, 6.0, 5.9, None, None, None, None,
    ]  # fmt: skip


def test_the_webs_energy_is_the_length_of_its_window() -> None:
    windows = TABLES["windows"]
    assert rounded(windows, "energy", 4) == [0.9134, 0.9175, 0.9295]
    assert rounded(windows, "= window", 4) == [0.8682, 0.8752, 0.8911]
    assert rounded(windows, "× mean power", 4) == [1.0521, 1.0483, 1.0431]
    assert rounded(windows, "the test itself", 4) == [1.0, 1.0, 1.0]
    for row in windows.rows:
        energy, window, power, _ = (f.value for f in row.cells if isinstance(f, StudyFigure))
        assert energy is not None and window is not None and power is not None
        assert energy == pytest.approx(window * power, rel=1e-12)


def test_energy_goes_with_the_window_but_for_mpi_io() -> None:
    table = TABLES["correlations"]
    assert rounded(table, "energy and window", 4) == [0.9999, 0.9779, -0.7402]
    assert rounded(table, "energy and mean power", 4) == [-0.9994, -0.8168, 0.9977]


def test_power_of_the_test_alone_has_bounds_only() -> None:
    power = figures(TABLES["bounds"], "power in the test")
    assert [(round(f.low or 0, 1), round(f.high or 0, 1)) for f in power] == [
        (163.2, 197.2), (171.7, 180.2), (171.1, 181.0), (170.2, 183.3),
        (174.6, 183.6), (154.0, 221.7), (169.9, 185.6), (167.2, 182.5),
    ]  # fmt: skip
    assert {f.value for f in power} == {None}


def overlap(first: StudyFigure, second: StudyFigure) -> bool:
    assert None not in (first.low, first.high, second.low, second.high)
    return max(first.low or 0, second.low or 0) <= min(first.high or 0, second.high or 0)


def test_no_order_of_the_disks_can_be_recovered_in_power() -> None:
    power = figures(TABLES["bounds"], "power in the test")
    for test in (power[:4], power[4:]):
        assert all(overlap(*pair) for pair in itertools.combinations(test, 2))


def test_in_energy_only_the_longest_database_stands_out() -> None:
    energy = figures(TABLES["bounds"], "energy of the test")
    apart = {
        (i, k)
        for test in (range(4), range(4, 8))
        for i, k in itertools.combinations(test, 2)
        if not overlap(energy[i], energy[k])
    }
    assert apart == {(4, 6), (4, 7)}, "two hard disks against SSD, and against flash"


def test_the_bounds_hold_whatever_was_drawn_beside_the_test() -> None:
    """Any power in the test that is no less than beside it, and that adds up, is within them."""
    rng = np.random.default_rng(5)
    readings = [m for m in derived.metered(STUDY.published) if m.tested_s is not None]
    bounds = figures(TABLES["bounds"], "power in the test")
    for m, bound in zip(readings, bounds, strict=True):
        assert m.tested_s is not None
        beside_w = rng.uniform(0, m.mean_w, 200)
        within_w = (m.energy_j - beside_w * (m.metered_s - m.tested_s)) / m.tested_s
        assert np.all(within_w >= beside_w - 1e-9)
        assert bound.low is not None and bound.high is not None
        assert np.all((within_w >= bound.low) & (within_w <= bound.high))


def test_the_web_test_is_pauses_and_a_generator_that_polls() -> None:
    web = TABLES["web"]
    assert rounded(web, "without the pauses", 3) == [0.054, 0.048, 0.074, 0.061]
    assert rounded(web, "CPU of httperf, share of the length", 3) == [0.992, 0.992, 0.992, 0.991]


def test_the_database_mostly_waits_for_itself() -> None:
    table = TABLES["database"]
    assert rounded(table, "transactions", 3) == [3.791, 3.971, 4.054, 3.993]
    assert rounded(table, "deadlocks for each", 3) == [18.145, 17.452, 18.319, 18.808]
    assert rounded(table, "time against the first row", 4) == [1.0, 0.9546, 0.9351, 0.9493]


def test_the_single_figure_of_mpi_io_implies_scatters_first_write() -> None:
    table = TABLES["mpi-io"]
    assert rounded(table, "b_eff_io", 3)[:4] == [4.057, 4.08, 3.994, 3.951]
    assert rounded(table, "scatter's first write, implied", 3) == [
        0.343, 0.144, 0.208, 0.007, 1.991, 1.832, 3.838, 6.2, 3.838, 2.787, 6.519, 5.906,
    ]  # fmt: skip
    assert rounded(table, "of the write mean, ×", 3) == [
        0.229, 0.092, 0.126, 0.005, 0.815, 0.681, 0.88, 1.06, 0.769, 0.68, 1.104, 1.008,
    ]  # fmt: skip
    (edge,) = [f for f in figures(table, "scatter's first write, implied") if (f.value or 0) < 0.1]
    assert edge.low is not None and edge.high is not None
    assert (round(edge.low, 3), round(edge.high, 4)) == (0.0, 0.0147)


def test_what_is_implied_gives_the_printed_figures_by_release_2_1() -> None:
    """Five types, of which scatter is known now and the others' sum follows from the mean."""
    rows = STUDY.published("flash2012_beffio")
    for row, scatter in zip(
        rows, figures(TABLES["mpi-io"], "scatter's first write, implied"), strict=True
    ):
        write, rewrite, read = (float(row[f"{m}_MBps"]) for m in ("write", "rewrite", "read"))
        assert scatter.value is not None and scatter.low is not None and scatter.high is not None
        assert scatter.low < scatter.value < scatter.high
        others = 6 * write - 2 * scatter.value
        assert others > 0 and scatter.value > 0, "consistent: no rate is below nothing"
        six = scatter.value + others + rewrite
        assert f"{np.sqrt(six / 6 * read):.3f}" == row["b_eff_io_MBps"]


def test_the_weights_of_release_1_do_not_give_the_printed_figures() -> None:
    above = [
        (float(r["write_MBps"]) + float(r["rewrite_MBps"]) + 2 * float(r["read_MBps"]))
        / (4 * float(r["b_eff_io_MBps"]))
        for r in STUDY.published("flash2012_beffio")
    ]
    assert (round(min(above), 2), round(max(above), 2)) == (1.09, 1.31)


def test_the_methods_against_the_hard_disk() -> None:
    assert rounded(TABLES["mpi-io"], "write, ×", 3) == [
        1.0, 1.0, 1.0, 0.931, 1.56, 1.635, 2.913, 3.736, 3.033, 2.738, 3.772, 3.56,
    ]  # fmt: skip


def environment(
    key: str, turning: str = "", disk_format: str = "qcow2", provider: str = "qemu"
) -> EnvironmentRecord:
    """turning: `rotational`, as the run saw the disk."""
    disk = HostDisk("8:1", "ext4", "/dev/sdb1", {"rotational": True, "not": False}.get(turning))
    return EnvironmentRecord(
        key=key,
        label=f"VM, {key}",
        provider=provider,
        options={"disk": {"format": disk_format}},
        treatments={"data on": f"/mnt/{key}: {disk}"} if turning else {},
    )


def workload(
    key: str, kind: str, *metrics: tuple[str, str, bool], **parameters: object
) -> WorkloadRecord:
    return WorkloadRecord(
        key=key,
        workload=kind,
        resource="disk",
        title=key,
        parameters=parameters,
        metrics=tuple(
            Metric(
                name=n,
                unit=unit,
                better="lower" if n in ("deadlocks", "reply_time") else "higher",
                description=n,
                primary=primary,
            )
            for n, unit, primary in metrics
        ),
        duration_s=1.0,
    )


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of the quick plan, with a known truth."""
    again = environment("raw~again").model_copy(update={"again_of": "raw"})
    return make_run(
        tmp_path / "20260101T000000-flash-energy-quick",
        environments=(environment("raw"), again, environment("qcow2"), environment("cached")),
        workloads=(
            workload("mpi-io", "b-eff-io", ("b_eff_io", "B/s", True), ("write", "B/s", False)),
            workload("database", "oltp", ("transactions_per_second", "1/s", True)),
        ),
        truth={("qcow2", "mpi-io"): 1.5},
        noise_sd=0.02,
        failures=(),
        raw=False,
        name="flash-energy-quick",
    )


THERE = "SSD for hard disk there"
MPI_IO = {
    "peer": "each", "file_system": "nfs", "shared_pointers": False, "memory": 1 << 30,
    "time_s": 200,
}  # fmt: skip
OLTP = {
    "database": "mariadb", "test": "read_write", "client": "host", "servers": "each",
    "threads": 400, "events": 1000, "tables": 1, "table_size": 10_000, "index_updates": 25,
    "distinct_ranges": 25, "sum_ranges": 25,
}  # fmt: skip


WEB = {"mode": "sessions", "document": 177, "sessions": 4, "calls": 15, "think_s": 10.0}


def disks_run(path: Path, *environments: EnvironmentRecord) -> Path:
    """A run with the published tests and others; the first environment is the baseline."""
    first = environments[0]
    again = first.model_copy(update={"key": f"{first.key}~again", "again_of": first.key})
    rates = (("b_eff_io", "B/s", True), ("write", "B/s", False))
    done = (
        ("transactions_per_second", "1/s", True),
        # Not counts, of which few are made up: about 1000 of each.
        *((f"{m}_per_transaction", "1/s", False) for m in ("reads", "writes", "other")),
        ("deadlocks", "1", False),
    )
    return make_run(
        path / "20260101T000000-flash-energy-disks-full",
        environments=(first, again, *environments[1:]),
        workloads=(
            *(workload(f"mpi-{n}", "b-eff-io", *rates, **MPI_IO, ranks=n) for n in (2, 3, 4)),
            workload("mpi-local", "b-eff-io", *rates, **MPI_IO | {"file_system": "local"}, ranks=2),
            workload("mpi-short", "b-eff-io", *rates, **MPI_IO | {"time_s": 1}, ranks=2),
            workload("database", "oltp", *done, **OLTP),
            workload("database-8", "oltp", *done, **OLTP | {"threads": 8}),
            workload("web", "httperf", ("reply_time", "s", False), **WEB),
            workload("web-short", "httperf", ("reply_time", "s", False), **WEB | {"think_s": 0.04}),
        ),
        noise_sd=0.02,
        failures=(),
        raw=False,
        name="flash-energy-disks-full",
    )


def beside(path: Path) -> dict[str, float]:
    """Row → the published figure beside it, where there is one."""
    table = STUDY.fresh({"flash-energy-disks-full": path})[0]
    rows = [(row.label, cell) for row, of, cell in table.figures() if of.title == THERE]
    assert rows
    return {label: round(cell.value, 4) for label, cell in rows if cell.value is not None}


def test_two_disks_stand_beside_the_published_two(tmp_path: Path) -> None:
    """For as many processes as there, over NFS; for 400 threads; the swap the same in both."""
    run = disks_run(tmp_path, environment("hdd", "rotational"), environment("ssd", "not"))
    assert beside(run) == {
        "VM, ssd, mpi-2": round(3.951 / 5.854, 4),
        "VM, ssd, mpi-2 (write)": round(1.394 / 4.361, 4),
        "VM, ssd, mpi-3": round(5.057 / 7.030, 4),
        "VM, ssd, mpi-3 (write)": round(2.442 / 5.847, 4),
        "VM, ssd, mpi-4": round(4.978 / 6.460, 4),
        "VM, ssd, mpi-4 (write)": round(2.692 / 4.992, 4),
        "VM, ssd, database": round(246.6852 / 251.8258, 4),
        "VM, ssd, database (deadlocks)": round(18319 / 17452, 4),
        "VM, ssd, web (reply_time)": round((1.7 + 1.6 + 1.4 + 1.1) / (0.9 + 1.3 + 0.7 + 1.2), 4),
    }


def swapping(machine: EnvironmentRecord) -> EnvironmentRecord:
    """Of which the host is made to swap a part: there it was free to, and nothing says it did."""
    swap = {"on": "zram", "size": 1 << 30, "resident": 256 << 20}
    return machine.model_copy(update={"options": machine.options | {"swap": swap}})


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (environment("raw", "rotational", "raw"), environment("qcow2", "rotational")),
        (environment("ssd", "not"), environment("hdd", "rotational")),
        (environment("hdd", "rotational"), environment("other", "rotational")),
        (environment("here"), environment("there")),
        (environment("hdd", "rotational"), environment("ssd", "not", "qcow2", "native")),
        (
            environment("hdd", "rotational"),
            environment("ssd", "not").model_copy(update={"emulated": True}),
        ),
        (environment("hdd", "rotational"), swapping(environment("ssd", "not"))),
    ],
    ids=["formats", "turned about", "one kind", "not known", "no VM", "emulated", "swapped"],
)
def test_other_disks_stand_beside_nothing(
    tmp_path: Path, first: EnvironmentRecord, second: EnvironmentRecord
) -> None:
    assert beside(disks_run(tmp_path, first, second)) == {}


def test_deadlocks_stand_beside_the_throughput(tmp_path: Path) -> None:
    run = disks_run(tmp_path, environment("hdd", "rotational"), environment("ssd", "not"))
    table = STUDY.fresh({"flash-energy-disks-full": run})[1]
    assert [row.label for row in table.rows] == [
        "VM, hdd, database", "VM, ssd, database", "VM, hdd, database-8", "VM, ssd, database-8",
        *(f"{disks} there" for disks in (*POINTS, "flash, swap on SSD")),
    ]  # fmt: skip
    assert [column.title for column in table.columns] == ["transactions", "deadlocks for each"]
    assert table.value("SSD, swap on SSD there", "deadlocks for each") == pytest.approx(18.319)
    assert table.value("SSD, swap on SSD there", "transactions") == pytest.approx(4.054, abs=1e-3)
    assert table.value("VM, ssd, database", "deadlocks for each") is not None


def test_statements_stand_beside_the_published_ones(tmp_path: Path) -> None:
    """For each of a thousand transactions; and reads with writes are the requests printed."""
    run = disks_run(tmp_path, environment("hdd", "rotational"), environment("ssd", "not"))
    tables = {table.key: table for table in STUDY.fresh({"flash-energy-disks-full": run})}
    table = tables["statements-fresh"]
    assert [row.label for row in table.rows][:2] == ["VM, hdd, database", "VM, ssd, database"]
    assert table.value("SSD, swap on SSD there", "reads") == pytest.approx(1197.778)
    assert table.value("hard disk, swap on hard disk there", "writes") == pytest.approx(121.389)
    ours = [table.value("VM, ssd, database", kind) for kind in ("reads", "writes", "other")]
    assert ours == pytest.approx([1000] * 3, rel=0.1)
    for _, of, cell in table.figures():
        assert of.title == "other" or cell.value is not None
    there = [row for row in table.rows if row.label.endswith(" there")]
    assert len(there) == 4
    for row in there:
        other = row.cells[2]
        assert isinstance(other, StudyFigure)
        assert other.value is None
        assert "BEGIN and COMMIT alone" in other.why
    published = {table.key: table for table in STUDY.tables()}["statements"]
    requests = [f for _, of, f in published.figures() if of.title == "reads and writes, all"]
    assert [f.agrees for f in requests] == [True] * 4


def test_other_statements_there_are_each_begin_and_each_commit() -> None:
    """So they stand beside none of ours, which has those that changed no row among them."""
    rows = zip(
        STUDY.published("flash2012_statements"), STUDY.published("flash2012_oltp"), strict=True
    )
    for statements, times in rows:
        done, vain = int(times["transactions"]), int(times["deadlocks"])
        assert int(statements["other"]) == (done + vain) + done
    (kind,) = (kind for kind in STUDY.coverage() if kind.file == "flash2012_statements")
    assert kind.fresh == 4


def test_the_full_plans_have_the_published_settings(tmp_path: Path) -> None:
    """Four VMs; N processes on N VMs; else nothing published could stand beside them."""
    settings: dict[str, list[tuple[str, int]]] = {}
    for plan in (plan for plan in STUDY.plans(quick=False) if plan.disks):
        text = (STUDY.folder / plan.file).read_text(encoding="utf-8")
        file = tmp_path / plan.file
        file.write_text(plantexts.with_disks(text, [Path("/"), Path("/")]))
        cells = matrix.resolve(*schema.load(file))
        for environment in cells.environments:
            options = environment.provider.options.model_dump()
            assert options["disk"]["root"] == "own", "its system is on the disk that is tested"
            assert options["image_format"] == options["disk"]["format"] == "qcow2"
        for case in cells.cases:
            parameters = case.parameters.model_dump()
            name = case.workload.name
            wanted = {"b-eff-io": MPI_IO, "oltp": OLTP}.get(name)
            if wanted and wanted.items() <= parameters.items():
                settings.setdefault(name, []).append(
                    (str(parameters.get("ranks", "")), cells.environments[0].instances)
                )
            if case.key == "web":
                assert parameters.items() >= WEB.items()
    assert settings == {"oltp": [("", 4)], "b-eff-io": [("4", 4), ("2", 2), ("3", 3)]}


def test_formats_and_caches_stand_beside_nothing(run: Path) -> None:
    """The quick plan: qcow2 against raw on one disk is no SSD against a hard disk."""
    tables = STUDY.fresh({"flash-energy-quick": run})
    table = tables[0]
    labels = [row.label for row in table.rows]
    assert labels == [
        f"VM, {disk}, {work}"
        for disk in ("qcow2", "cached")
        for work in ("mpi-io", "mpi-io (write)", "database")
    ]
    ours, verdict = table.rows[1].cells[:2]
    assert isinstance(ours, StudyFigure) and ours.low is not None and ours.high is not None
    assert ours.low < 1.5 < ours.high
    assert verdict == "no verdict", "it is no primary metric"
    assert all(cell.value is None for _, of, cell in table.figures() if "there" in of.title)


def test_the_page_draws_the_energies_as_the_report_does(run: Path, tmp_path: Path) -> None:
    metered(RunFolder.open(run), lambda trial: 150.0 if trial.environment == "qcow2" else 100.0)
    report = showing.recompute(STUDY, {"flash-energy-quick": run})
    out = page.write(report, tmp_path / "study.html")
    text = out.read_text().replace("\u00a0", " ")
    title = "flash-energy-quick: Times the energy of VM, raw, with 95 % intervals"
    assert text.count(f"<h3>{title}</h3>") == 1
    drawn = text.partition(f"<h3>{title}</h3>")[2].partition("</table>")[0]
    assert "<svg" in drawn
    assert "measured at the wall" in drawn
    assert "VM, qcow2" in drawn
    assert "<script" not in text


def test_the_page_of_a_run_without_meters_has_no_plot(run: Path, tmp_path: Path) -> None:
    report = showing.recompute(STUDY, {"flash-energy-quick": run})
    assert "Times the energy" not in page.render(report, tmp_path)


def test_published_rows_are_read_as_they_stand() -> None:
    file = STUDY.folder / "published" / "flash2012_energy.csv"
    with file.open(encoding="utf-8", newline="") as stream:
        assert STUDY.published("flash2012_energy") == list(csv.DictReader(stream))


def absolute(median: float) -> Absolute:
    return Absolute(
        n=6,
        mean=median,
        mean_kind="arithmetic",
        least=median,
        q1=median,
        median=median,
        median_low=None,
        median_high=None,
        q3=median,
        most=median,
        p95=None,
    )


def energy(environment: str, ratio: float | None) -> Energy:
    """An estimate of 300 J a trial at 50 W; of the work `ratio` times the baseline's."""
    compared = None if ratio is None else Interval(
        estimate=ratio, low=ratio - 0.1, high=ratio + 0.1, confidence=0.95, n=6, method="t"
    )  # fmt: skip
    budget = None if ratio is None else Budget(
        type_a=0.02, type_b=0.03, components=(), expanded=0.1, low=ratio - 0.2, high=ratio + 0.2,
        precision="repeatability",
    )  # fmt: skip

    def figure(unit: Literal["J", "W"], median: float) -> EnergyFigure:
        return EnergyFigure(
            unit=unit, values=absolute(median), low=median - 5, high=median + 5,
            ratio=compared, budget=budget,
        )  # fmt: skip

    return Energy(
        environment=environment,
        environment_label=f"VM, {environment}",
        workload="database",
        workload_title="database",
        label="estimate",
        meter="model",
        method="estimated",
        scope="wall",
        trials=6,
        having=6,
        energy=figure("J", 300.0),
        mean_power=figure("W", 50.0),
        above_idle=None,
        metric="transactions_per_second",
        work="1",
        per_unit=figure("J", 0.3),
        energy_delay=None,
        relative_u_sampling=0.0,
        relative_u_resolution=0.0,
        relative_u_accuracy=None,
    )


def test_energy_is_shown_by_how_it_is_known(run: Path) -> None:
    plain = measured.opened(run)
    assert measured.energies(plain, "energy", "Energy") is None
    energies = (energy("raw", None), energy("qcow2", 1.5))
    metered = replace(plain, analysis=plain.analysis.model_copy(update={"energy": energies}))
    table = measured.energies(metered, "energy", "Energy")
    assert table is not None
    words = [showing.text(cell, column) for row in table.rows for cell, column in
             zip(row.cells, table.columns, strict=True)]  # fmt: skip
    per_row = len(table.columns)
    assert words[0] == "estimated at the wall"
    assert words[1:4] == ["300.0 (295.0 to 305.0)", "0.3000 (-4.7000 to 5.3000)",
                          "50.0 (45.0 to 55.0)"]  # fmt: skip
    assert words[4:7] == ["–", "–", "no verdict"], "no idle power; the baseline itself"
    assert words[per_row + 5 :] == ["–", "no verdict"], "an estimate says nothing about disks"
    assert "a meter can" in " ".join(showing.notes(table))
    measured_at_the_wall = tuple(e.model_copy(update={"method": "measured"}) for e in energies)
    analysis = plain.analysis.model_copy(update={"energy": measured_at_the_wall})
    table = measured.energies(replace(plain, analysis=analysis), "energy", "Energy")
    assert table is not None
    times = table.rows[1].cells[5]
    assert showing.text(times, table.columns[5]) == "1.50 (1.30 to 1.70)", "with its uncertainty"
