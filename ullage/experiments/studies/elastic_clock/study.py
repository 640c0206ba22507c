"""The study `elastic-clock`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ullage.experiments.studies import measured
from ullage.experiments.studies.base import (
    Coverage,
    DerivedTable,
    Study,
    StudyChart,
    StudyPlan,
)
from ullage.experiments.studies.elastic_clock import (
    derived_clock,
    derived_elastic,
    fresh_clock,
    fresh_elastic,
    fresh_host,
)

QUICK: Final = (
    StudyPlan(name="elastic-clock-time-quick", file="quick-clock.yaml", minutes=0.2, clock=True),
    StudyPlan(name="elastic-clock-ocean-quick", file="quick-ocean.yaml", minutes=3, clock=True),
    StudyPlan(name="elastic-clock-ntp-quick", file="quick-ntp.yaml", minutes=3, clock=True),
    StudyPlan(name="elastic-clock-host-quick", file="quick-host.yaml", minutes=3.5),
    StudyPlan(name="elastic-clock-cloud-quick", file="quick-cloud.yaml", minutes=6, cloud=True),
    StudyPlan(name="elastic-clock-room-quick", file="quick-room.yaml", minutes=2),
    StudyPlan(
        name="elastic-clock-quick",
        file="quick.yaml",
        minutes=2.5,
        elastic=True,
        room_of="elastic-clock-room-quick",
    ),
    StudyPlan(
        name="elastic-clock-cloud-movie-quick",
        file="quick-cloud-movie.yaml",
        minutes=25,
        elastic=True,
        cloud=True,
    ),
)
FULL: Final = (
    StudyPlan(name="elastic-clock-time-full", file="full-clock.yaml", minutes=25, clock=True),
    StudyPlan(name="elastic-clock-ntp-full", file="full-ntp.yaml", minutes=242, clock=True),
    *(
        StudyPlan(
            name=f"elastic-clock-ocean-{ranks}-full",
            file=f"full-ocean-{ranks}.yaml",
            minutes=minutes,
            clock=True,
        )
        for ranks, minutes in (("4-12", 60), ("16-24", 90), ("36-48", 170))
    ),
    StudyPlan(name="elastic-clock-streams-full", file="full-streams.yaml", minutes=90),
    StudyPlan(name="elastic-clock-host-full", file="full-host.yaml", minutes=240),
    StudyPlan(name="elastic-clock-cloud-full", file="full-cloud.yaml", minutes=20, cloud=True),
    StudyPlan(name="elastic-clock-images-full", file="full-images.yaml", minutes=170, disk_gib=20),
    *(
        StudyPlan(
            name=f"elastic-clock-movie-{cell}-full",
            file=f"full-movie-{cell}.yaml",
            minutes=minutes,
            elastic=True,
        )
        for cell, minutes in (
            ("p60-v200-r100", 50),
            ("p60-v400-r100", 50),
            ("p120-v200-r100", 75),
            ("p120-v400-r100", 100),
            ("p120-v200-r40", 75),
            ("p120-v400-r40", 75),
        )
    ),
    StudyPlan(name="elastic-clock-room-full", file="full-room.yaml", minutes=40),
    StudyPlan(
        name="elastic-clock-own-room-full",
        file="full-own-room.yaml",
        minutes=100,
        elastic=True,
        room_of="elastic-clock-room-full",
    ),
    StudyPlan(name="elastic-clock-real-full", file="full-real.yaml", minutes=160, elastic=True),
    StudyPlan(
        name="elastic-clock-cloud-movie-full",
        file="full-cloud-movie.yaml",
        minutes=900,
        elastic=True,
        cloud=True,
    ),
)


_ELASTIC: Final = frozenset(plan.name for plan in (*QUICK, *FULL) if plan.elastic)
_OF_ROOM: Final = frozenset(plan.room_of for plan in (*QUICK, *FULL) if plan.room_of)


class ElasticClock(Study):
    """ElasticMovie and the clock under it."""

    name = "elastic-clock"
    title = "Elastic environments and a global clock"
    question = (
        "How many streams does a host sustain, how long does one more instance take, whom does "
        "that turn away, and what does a clock for all of it cost?"
    )
    source = "a study of elastic environments and global physical clocks, 2015"
    needs = (
        "root",
        "the image",
        "`make programs`",
        "ffmpeg",
        "Open MPI",
        "chrony",
        "2 CPUs and 2 GiB",
    )

    charts = (
        StudyChart(title="Streams of one host", published="bandwidth", columns=("clients",),
                   along="rows", fresh="streams", fresh_columns=("ratio",)),
        StudyChart(title="Viewers blocked", published="blocked", columns=("PcBl",),
                   fresh="movie", fresh_columns=("PcBl",)),
        StudyChart(title="A read of each clock", published="clock-cost", columns=("mean",),
                   fresh="clock-cost", fresh_columns=("a read",)),
    )  # fmt: skip

    def tables(self) -> tuple[DerivedTable, ...]:
        """Streams, allocation, blocked viewers, watts; then the clock's."""
        return (*derived_elastic.tables(self.published), *derived_clock.tables(self.published))

    def plans(self, quick: bool) -> tuple[StudyPlan, ...]:
        """The clock, the host's own two steps, the elastic run with the room that step 1 says."""
        return QUICK if quick else FULL

    def coverage(self) -> tuple[Coverage, ...]:
        """What one machine can ask again, with containers in place of clouds."""
        return (
            Coverage(
                of="streams of a host", file="elastic2015_streaming", columns=("clients_total",),
                fresh=9, missing="Xen (4 rows); memory for 320 containers",
            ),
            Coverage(
                of="times of an allocation", file="elastic2015_allocation", columns=("mean_s",),
                fresh=0, missing="a cloud, of those hypervisors: `--cloud` asks yours",
            ),
            Coverage(
                of="blocked viewers, with stand-ins for the clouds",
                file="elastic2015_blocking", columns=("blocked_pct",), fresh=10,
            ),
            Coverage(
                of="cost of a read", file="clock2015_cost", columns=("mean_ns",), fresh=2,
                missing="a kernel whose clock is HPET",
            ),
            Coverage(
                of="means of loops", file="clock2015_loops",
                columns=("tsc_mean_us", "gps_mean_us"), fresh=0,
                missing="what 10 K counts, which was not said; a GPS card on PCIe",
            ),
            Coverage(
                of="NTP's corrections", file="clock2015_ntp", columns=("mean_adjustment_us",),
                fresh=0, missing="clients started anew: 28 days at 600 s",
            ),
            Coverage(
                of="POP", file="clock2015_pop", columns=("rgap_s", "ntp_s", "difference_s"),
                fresh=0, missing="POP and four nodes; the ocean program here is alike",
            ),
        )  # fmt: skip

    def fresh(self, runs: Mapping[str, Path]) -> tuple[DerivedTable, ...]:
        """Steps 1 to 3, then the clock; of those that were run."""
        tables: list[DerivedTable | None] = []
        for plan in sorted((*QUICK, *FULL), key=lambda plan: plan.clock):
            path = runs.get(plan.name)
            if path is None:
                continue
            if plan.clock:
                tables += fresh_clock.tables(path, self.published)
            elif plan.elastic:
                of_its_kind = {name: runs[name] for name in runs if name in _ELASTIC}
                part = measured.part(self, of_its_kind, plan.name)
                others = [other for other in of_its_kind.values() if other != path]
                tables += fresh_elastic.tables(path, self.published, part, others)
            elif plan.cloud:
                tables += fresh_host.cloud_tables(path, self.published)
            elif plan.name in _OF_ROOM:
                tables.append(fresh_host.room_limits(path))
            else:
                tables += fresh_host.tables(path, self.published)
        return tuple(table for table in tables if table is not None)
