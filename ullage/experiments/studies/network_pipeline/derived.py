"""The derived tables of the network study, recomputed from the published raw figures."""

from __future__ import annotations

from typing import Final

from ullage.experiments.studies.base import (
    Column,
    CsvRows,
    DerivedRow,
    DerivedTable,
    Read,
    StudyFigure,
)

SINGLE, BONDED = "single_link", "bonded_802.3ad"
_ONE_RUN: Final = (
    "No number of runs and no deviation is published, so no ratio here has an interval."
)


def tables(read: Read) -> tuple[DerivedTable, ...]:
    testdfsio = times(read)
    return (_create(read("network2017_create")), _bonding(testdfsio), _together(testdfsio))


def times(read: Read) -> dict[str, dict[int, float]]:
    """TestDFSIO: network → instances at once → seconds."""
    seconds: dict[str, dict[int, float]] = {}
    for row in read("network2017_testdfsio"):
        of = seconds.setdefault(row["network"], {})
        of[int(row["concurrent_instances"])] = float(row["time_s"])
    return seconds


def _create(rows: CsvRows) -> DerivedTable:
    """S5.4: time from the request until the last one is there."""
    quickest = min(float(row["create_s"]) for row in rows)

    def cells(row: dict[str, str]) -> tuple[StudyFigure, ...]:
        seconds = float(row["create_s"])
        return (
            StudyFigure(value=seconds),
            StudyFigure(value=seconds / quickest),
            StudyFigure(value=seconds / float(row["instances"])),
        )

    return DerivedTable(
        key="create",
        caption="Making two instances at once",
        of="platform, instances",
        columns=(
            Column(title="time", unit="s", decimals=2),
            Column(title="over the quickest", decimals=3),
            Column(title="for each", unit="s", decimals=3),
        ),
        rows=tuple(
            DerivedRow(label=f"{row['platform']}, {row['instances']}", cells=cells(row))
            for row in rows
        ),
        notes=(
            _ONE_RUN,
            "Times for 4, 8 and 16 are not among the published figures that we have. The time for "
            "each is no time that any instance took: it divides by what was made at once.",
        ),
    )


def _bonding(of: dict[str, dict[int, float]]) -> DerivedTable:
    """S5.8: the bonded network over the single link."""
    rows = []
    for count, single in of[SINGLE].items():
        bonded = of[BONDED][count]
        rows.append(
            DerivedRow(
                label=str(count),
                cells=(
                    StudyFigure(value=bonded / single),
                    StudyFigure(value=single / bonded),
                    StudyFigure(value=bonded - single),
                ),
            )
        )
    return DerivedTable(
        key="bonding",
        caption="TestDFSIO: two bonded links against one",
        of="instances at once",
        columns=(
            Column(title="bonded ÷ single", decimals=4),
            Column(title="times as fast", decimals=3),
            Column(title="longer by", unit="s", decimals=0),
        ),
        rows=tuple(rows),
        notes=(
            _ONE_RUN,
            "With one instance the bonded network is the slower one, 338 s against 315: 802.3ad "
            "sends all packets of one connection over one link, so a second link cannot help a "
            "single stream, and something else costs 7 %. With two and three it is quicker, and "
            "never twice as quick, which is all that two links can give.",
        ),
    )


def _together(of: dict[str, dict[int, float]]) -> DerivedTable:
    """How much more is done by several at once than by one, in the same time."""

    def gained(network: str, count: int) -> StudyFigure:
        return StudyFigure(value=count * of[network][1] / of[network][count])

    return DerivedTable(
        key="together",
        caption="TestDFSIO: work done by several instances at once, over that of one",
        of="instances at once",
        columns=(Column(title="single link", decimals=3), Column(title="bonded", decimals=3)),
        rows=tuple(
            DerivedRow(label=str(count), cells=(gained(SINGLE, count), gained(BONDED, count)))
            for count in of[SINGLE]
        ),
        notes=(
            "n instances do n times the work of one in their time: n · t(1) / t(n). Over a single "
            "link it stays at 1.25 from two on: that link is full. Bonded it goes to 2.02 with "
            "three.",
        ),
    )
