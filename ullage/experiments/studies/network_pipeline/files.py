"""TestDFSIO (S5.8): how much longer several copies at once take than one, over a shared link."""

from __future__ import annotations

from typing import Final

from ullage.analysis.comparison.rounding import share
from ullage.experiments.studies import measured
from ullage.experiments.studies.base import (
    Column,
    DerivedCell,
    DerivedRow,
    DerivedTable,
    StudyFigure,
)
from ullage.experiments.studies.measured import StudiedRun
from ullage.experiments.studies.within import Term, environments, label, product, workloads
from ullage.runs.records import EnvironmentRecord

LINK_BPS: Final = 1_000_000_000
SECONDS: Final = "seconds"
_LXC: Final = "lxc"


def tables(
    run: StudiedRun, part: str, single_link_s: dict[int, float]
) -> list[DerivedTable | None]:
    """By number of copies, then each against the baseline; part: of the keys.

    single_link_s: copies → seconds, published for two LXC instances over one link.
    """
    comparisons = [c for c in run.analysis.primary() if run.kind(c) == "testdfsio"]
    ratios = measured.ratios(
        run, comparisons, f"files{part}-fresh", "TestDFSIO against the baseline"
    )
    return [_together(run, f"files-together{part}-fresh", single_link_s), ratios]


def _together(run: StudiedRun, key: str, single_link_s: dict[int, float]) -> DerivedTable | None:
    """t(n) / t(1) of each environment, block by block."""
    keys = {int(w.parameters["jobs"]): w.key for w in workloads(run.folder, "testdfsio")}
    counts = sorted(keys)
    if 1 not in keys or len(counts) < 2:
        return None
    several = [count for count in counts if count > 1]
    by_key = {e.key: e for e in run.folder.resolved.environments}

    def cells(environment: str) -> tuple[DerivedCell, ...]:
        ours = (
            product(
                run,
                (
                    Term(1, environment, keys[count], SECONDS),
                    Term(-1, environment, keys[1], SECONDS),
                ),
            )
            for count in several
        )
        there = (_published(run, by_key[environment], single_link_s, count) for count in several)
        return (*ours, *there)

    return DerivedTable(
        key=key,
        caption="TestDFSIO: time of several copies at once, over that of one",
        of="environment",
        columns=(
            *(Column(title=f"{count} copies", decimals=3) for count in several),
            *(Column(title=f"{count} copies there", decimals=3) for count in several),
        ),
        rows=tuple(
            DerivedRow(label=label(run.folder, environment), cells=cells(environment))
            for environment in environments(run.folder)
        ),
        notes=(
            f"Block by block, with {share(run.analysis.confidence)} intervals, not corrected for "
            "their number. A link that is full from one copy on takes as many times as long.",
            "There: two LXC instances over one link of 1 Gbit/s, whose file sizes were not "
            "published. Its bonded times were of 802.3ad, which no bridge of a run speaks, and "
            "stand in their own table alone.",
        ),
    )


def _published(
    run: StudiedRun,
    environment: EnvironmentRecord,
    single_link_s: dict[int, float],
    count: int,
) -> StudyFigure:
    network = run.folder.resolved.network or {}
    alike = environment.provider == _LXC and network.get("rate") == LINK_BPS
    if not alike or count not in single_link_s:
        return StudyFigure(value=None, why="nothing was published for this setting")
    return StudyFigure(value=single_link_s[count] / single_link_s[1])
