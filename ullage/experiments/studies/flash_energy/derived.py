"""The derived tables of the flash study, recomputed from the published raw figures."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from ullage.experiments.studies.base import (
    Column,
    CsvRows,
    DerivedRow,
    DerivedTable,
    Read,
    StudyFigure,
)

METER: Final = 0.015
"""The Watts up? PRO is right to ± 1.5 %."""
SESSIONS, CALLS, THINK_S = 4, 15, 10.0
"""`httperf --wsess=4,15,10`: one session after another, a pause between two calls."""
TESTS: Final = {"httperf": "web", "sysbench_oltp": "database", "b_eff_io": "MPI-IO"}
STATEMENTS: Final = ("reads", "writes", "other")
"""Kinds that sysbench counts. Other is not the same everywhere: BEGIN and COMMIT alone in what was
published, by 0.4.12; since 1.0 what changed no row too."""
_DISKS: Final = {"hdd": "hard disk", "ssd": "SSD", "iodrive": "flash"}
_PRINTED_W: Final = {("httperf", "hdd", "hdd"): "165.7", ("httperf", "iodrive", "ssd"): "172.8"}


@dataclass(frozen=True)
class MeterReading:
    """What the meter said of one test on one pair of disks, and how long the test itself took."""

    test: str
    image: str
    swap: str
    energy_j: float
    metered_s: float
    tested_s: float | None
    """None: it was not published."""

    @property
    def label(self) -> str:
        """`web, hard disk, swap on SSD`"""
        return f"{TESTS[self.test]}, {disks(self.image, self.swap)}"

    @property
    def mean_w(self) -> float:
        """Over the meter's window."""
        return self.energy_j / self.metered_s

    @property
    def most_w(self) -> float | None:
        """In the test, if the machine had drawn nothing in the rest of the window."""
        return None if self.tested_s is None else self.energy_j / self.tested_s


def disks(image: str, swap: str) -> str:
    """The two disks of a case in words."""
    return f"{_DISKS[image]}, swap on {_DISKS[swap]}"


def metered(read: Read) -> tuple[MeterReading, ...]:
    """All twelve readings, each with the length of its test where that was published.

    Of four web servers at once the test lasts as long as the longest.
    """
    longest: dict[tuple[str, str, str], float] = {}
    for row in read("flash2012_httperf"):
        case = ("httperf", row["image_disk"], row["swap_disk"])
        longest[case] = max(longest.get(case, 0.0), float(row["test_duration_s"]))
    for row in read("flash2012_oltp"):
        case = ("sysbench_oltp", row["image_disk"], row["swap_disk"])
        longest[case] = float(row["total_time_s"])
    return tuple(
        MeterReading(
            test=row["test"],
            image=row["image_disk"],
            swap=row["swap_disk"],
            energy_j=float(row["energy_J"]),
            metered_s=float(row["metered_s"]),
            tested_s=longest.get((row["test"], row["image_disk"], row["swap_disk"])),
        )
        for row in read("flash2012_energy")
    )


def tables(read: Read) -> tuple[DerivedTable, ...]:
    readings = metered(read)
    return (
        _power(readings),
        _windows(readings),
        _correlations(readings),
        _bounds(readings),
        _web(read("flash2012_httperf")),
        _oltp(read("flash2012_oltp")),
        _statements(read("flash2012_statements"), read("flash2012_oltp")),
        _beffio(read("flash2012_beffio")),
    )


def _power(readings: Iterable[MeterReading]) -> DerivedTable:
    return DerivedTable(
        key="power",
        caption="Mean power: energy over the time that was metered",
        of="test and disks",
        columns=(
            Column(title="energy", unit="J", decimals=1),
            Column(title="metered", unit="s", decimals=1),
            Column(title="mean power", unit="W", decimals=1),
            Column(title="tested", unit="s", decimals=1),
            Column(title="metered beside the test", unit="%", decimals=1),
        ),
        rows=tuple(
            DerivedRow(
                label=m.label,
                cells=(
                    StudyFigure(value=m.energy_j),
                    StudyFigure(value=m.metered_s),
                    StudyFigure(value=m.mean_w, printed=_PRINTED_W.get((m.test, m.image, m.swap))),
                    _tested(m.tested_s),
                    _tested(m.tested_s and 100 * (m.metered_s / m.tested_s - 1)),
                ),
            )
            for m in readings
        ),
        notes=(
            "The meter ran longer than the test, by 2 to 40 %, and nothing says what the machine "
            "did in between: these watts are means over both.",
        ),
    )


def _tested(value: float | None) -> StudyFigure:
    return StudyFigure(value=value, why="" if value is not None else "not published")


def _windows(readings: Iterable[MeterReading]) -> DerivedTable:
    web = [m for m in readings if m.test == "httperf"]
    first = web[0]
    return DerivedTable(
        key="windows",
        caption=f"The web test's energy, against {disks(first.image, first.swap)}",
        of="disks",
        columns=(
            Column(title="energy"),
            Column(title="= window"),
            Column(title="× mean power"),
            Column(title="the test itself"),
        ),
        rows=tuple(
            DerivedRow(
                label=disks(m.image, m.swap),
                cells=(
                    StudyFigure(value=m.energy_j / first.energy_j),
                    StudyFigure(value=m.metered_s / first.metered_s),
                    StudyFigure(value=m.mean_w / first.mean_w),
                    StudyFigure(value=(m.tested_s or 0) / (first.tested_s or 1)),
                ),
            )
            for m in web[1:]
        ),
        notes=(
            "The energy falls because the window does. Mean power goes the other way, and the test "
            "is equally long on all disks: it is 4 × 14 pauses of 10 s.",
        ),
    )


def _correlations(readings: Iterable[MeterReading]) -> DerivedTable:
    rows = []
    for test, name in TESTS.items():
        of_test = [m for m in readings if m.test == test]
        energy = [m.energy_j for m in of_test]
        window = [m.metered_s for m in of_test]
        power = [m.mean_w for m in of_test]
        cells = (_correlation(energy, window), _correlation(energy, power))
        rows.append(
            DerivedRow(label=name, cells=tuple(StudyFigure(value=value) for value in cells))
        )
    return DerivedTable(
        key="correlations",
        caption="What the energy goes with: Pearson's correlation over the four pairs of disks",
        of="test",
        columns=(Column(title="energy and window"), Column(title="energy and mean power")),
        rows=tuple(rows),
        notes=(
            "Energy goes with the window in the web test and the database; with MPI-IO the windows "
            "differ by 1 % only, and there alone the energy goes with the power. Four points each: "
            "they describe these tables and nothing beyond.",
        ),
    )


def _correlation(energies: list[float], values: list[float]) -> float:
    return float(np.corrcoef(energies, values)[0, 1])


def _bounds(readings: Iterable[MeterReading]) -> DerivedTable:
    return DerivedTable(
        key="bounds",
        caption="Power and energy of the test alone: what can be recovered",
        of="test and disks",
        columns=(
            Column(title="power in the test", unit="W", decimals=1),
            Column(title="energy of the test", unit="kJ", decimals=1),
            Column(title="energy of a transaction", unit="J", decimals=1),
        ),
        rows=tuple(
            DerivedRow(label=m.label, cells=_bound(m)) for m in readings if m.tested_s is not None
        ),
        notes=(
            "Only bounds: at least the mean over the window, if the machine drew no more beside "
            "the test than in it; at most as if it had drawn nothing there. The meter's ± 1.5 % is "
            "in them.",
            "In power the bounds of all disks overlap, in each test: no order can be recovered. "
            "165.7 W and 172.8 W say how long the meter ran on, as much as what the disks drew. In "
            "energy two things can: the database took more on two hard disks than on SSD or flash, "
            "as it took longer.",
        ),
    )


def _bound(m: MeterReading) -> tuple[StudyFigure, ...]:
    assert m.tested_s is not None
    assert m.most_w is not None
    low, high = m.mean_w * (1 - METER), m.most_w * (1 + METER)
    of_test = [watts * m.tested_s for watts in (low, high)]
    per_transaction = StudyFigure(value=None, why="the test has none")
    if m.test == "sysbench_oltp":
        per_transaction = _between(*(joules / 1000 for joules in of_test))
    return (_between(low, high), _between(*(joules / 1e3 for joules in of_test)), per_transaction)


def _between(low: float, high: float) -> StudyFigure:
    return StudyFigure(value=None, low=low, high=high, why="only its bounds are known")


def _web(rows: CsvRows) -> DerivedTable:
    table_rows = []
    pauses = SESSIONS * (CALLS - 1) * THINK_S
    for (image, swap), of_disks in _grouped(rows).items():
        length = _mean(of_disks, "test_duration_s")
        busy = _mean(of_disks, "cpu_user_s") + _mean(of_disks, "cpu_system_s")
        values = (length, length - pauses, busy / length, _mean(of_disks, "reply_response_ms"))
        figures = tuple(StudyFigure(value=value) for value in values)
        table_rows.append(DerivedRow(label=disks(image, swap), cells=figures))
    return DerivedTable(
        key="web",
        caption="Web: what the length of the test consists of, means of four VMs",
        of="disks",
        columns=(
            Column(title="length", unit="s", decimals=3),
            Column(title="without the pauses", unit="s", decimals=3),
            Column(title="CPU of httperf, share of the length", decimals=3),
            Column(title="reply", unit="ms", decimals=2),
        ),
        rows=tuple(table_rows),
        notes=(
            "All but 0.05 to 0.07 s of 560 s are pauses, so no disk can show. The CPU time is the "
            "generator's own, which polls: 99 % of a CPU whatever the server does.",
        ),
    )


def _grouped(rows: CsvRows) -> dict[tuple[str, str], CsvRows]:
    groups: dict[tuple[str, str], CsvRows] = {}
    for row in rows:
        groups.setdefault((row["image_disk"], row["swap_disk"]), []).append(row)
    return groups


def _mean(rows: CsvRows, name: str) -> float:
    return sum(float(row[name]) for row in rows) / len(rows)


def _oltp(rows: CsvRows) -> DerivedTable:
    first_s = float(rows[0]["total_time_s"])
    table_rows = []
    for row in rows:
        done, length = float(row["transactions"]), float(row["total_time_s"])
        again = float(row["deadlocks"])
        values = (done / length, again / done, done / (done + again), length / first_s)
        figures = tuple(StudyFigure(value=value) for value in values)
        table_rows.append(
            DerivedRow(label=disks(row["image_disk"], row["swap_disk"]), cells=figures)
        )
    return DerivedTable(
        key="database",
        caption="Database: transactions, and those begun in vain",
        of="disks",
        columns=(
            Column(title="transactions", unit="1/s", decimals=3),
            Column(title="deadlocks for each", decimals=2),
            Column(title="share of attempts that commit"),
            Column(title="time against the first row"),
        ),
        rows=tuple(table_rows),
        notes=(
            "18 of 19 attempts end in a deadlock: 400 threads wait for the same rows. What is "
            "measured is contention for locks; in it the disks differ by 6.5 % at most, once each.",
        ),
    )


def per_transaction(row: dict[str, str], done: float) -> tuple[float, ...]:
    """Statements of each kind for a transaction that was done."""
    return tuple(float(row[kind]) / done for kind in STATEMENTS)


def _statements(rows: CsvRows, times: CsvRows) -> DerivedTable:
    done = {(row["image_disk"], row["swap_disk"]): row for row in times}
    table_rows = []
    for row in rows:
        of = done[row["image_disk"], row["swap_disk"]]
        both = float(row["reads"]) + float(row["writes"])
        figures = (
            *(
                StudyFigure(value=value)
                for value in per_transaction(row, float(of["transactions"]))
            ),
            StudyFigure(value=both, printed=of["read_write_requests"]),
        )
        label = disks(row["image_disk"], row["swap_disk"])
        table_rows.append(DerivedRow(label=label, cells=figures))
    return DerivedTable(
        key="statements",
        caption="Database: statements for each transaction",
        of="disks",
        columns=(
            *(Column(title=kind, decimals=2) for kind in STATEMENTS),
            Column(title="reads and writes, all", decimals=0),
        ),
        rows=tuple(table_rows),
        notes=(
            "They go with the deadlocks: what was begun in vain has read and written too. Other "
            "is in all four rows the deadlocks and two for each transaction: a BEGIN for each "
            "attempt and a COMMIT for each that succeeds, and nothing else.",
        ),
    )


def _beffio(rows: CsvRows) -> DerivedTable:
    return DerivedTable(
        key="mpi-io",
        caption="MPI-IO: the single figure, what it implies, and the methods against the hard disk",
        of="disks, processes",
        columns=(
            Column(title="b_eff_io", unit="MB/s", decimals=3),
            Column(title="scatter's first write, implied", unit="MB/s", decimals=3),
            Column(title="of the write mean, ×", decimals=3),
            Column(title="write, ×", decimals=3),
            Column(title="rewrite, ×", decimals=3),
            Column(title="read, ×", decimals=3),
        ),
        rows=tuple(_bandwidths(row, _first(rows, row["processes"])) for row in rows),
        notes=(
            "The single figure b of release 2.1 is √(W · read). W is the mean of six: the first "
            "writing of the five pattern types, and the rewriting of type 0, scatter. So W is "
            "b²/read, and scatter's first write is rewrite - 6 (W - write); its interval is what "
            "the rounding of the printed figures leaves. That holds where scatter alone was "
            "rewritten, as is usual; with all types rewritten only a difference would follow.",
            "In the write mean scatter counts twice of six, so it can be 0 to 3 times that mean. "
            "It is in all twelve rows: the printed figures are consistent with release 2.1. There "
            "is one unknown in each row, so that is no proof; and with 0.005 the fourth stands at "
            "the edge. Release 1's weights (25 % write, 25 % rewrite, 50 % read) would give 9 to "
            "31 % more than was printed.",
            "× of the methods is rate over the hard disk's with as many processes: above 1 is "
            "faster. Each was run once, scheduled for 1.7 to 3.3 of the 30 minutes that the rules "
            "ask for.",
        ),
    )


_METHODS: Final = ("write_MBps", "rewrite_MBps", "read_MBps")
_ROUNDED: Final = 0.0005
"""MB/s: half a unit of the last printed place."""


def _first(rows: CsvRows, processes: str) -> dict[str, str]:
    return next(row for row in rows if row["processes"] == processes)


def _bandwidths(row: dict[str, str], first: dict[str, str]) -> DerivedRow:
    single, write = float(row["b_eff_io_MBps"]), float(row["write_MBps"])
    implied = _scattered(row, 0.0)
    scattered = StudyFigure(
        value=implied, low=_scattered(row, -_ROUNDED), high=_scattered(row, _ROUNDED)
    )
    against = (StudyFigure(value=float(row[name]) / float(first[name])) for name in _METHODS)
    label = f"{disks(row['image_disk'], row['swap_disk'])}, {row['processes']}"
    cells = (StudyFigure(value=single), scattered, StudyFigure(value=implied / write), *against)
    return DerivedRow(label=label, cells=cells)


def _scattered(row: dict[str, str], off: float) -> float:
    """Scatter's first write: least or most where each printed figure is `off` the way of it."""
    write, rewrite, read = (float(row[name]) + off for name in _METHODS)
    both = (float(row["b_eff_io_MBps"]) - off) ** 2 / read
    return rewrite - 6 * (both - write)
