"""Steps 1 and 2 from a run of our own: streams of a host, and the parts of an allocation."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ullage.analysis.comparison.model import Comparison
from ullage.analysis.comparison.rounding import share
from ullage.experiments.studies import measured
from ullage.experiments.studies.base import (
    Column,
    DerivedCell,
    DerivedRow,
    DerivedTable,
    Read,
    StudyFigure,
)
from ullage.experiments.studies.within import environments, label, workloads
from ullage.runs.records import WorkloadRecord

STREAMS: Final = ("viewers", "rate", "server_cpu_per_stream")
PARTS: Final = (
    ("allocation_time", "TaR"),
    ("choose_time", "TeF"),
    ("copy_time", "TcI"),
    ("boot_time", "TiI"),
    ("release_time", "TlR"),
)
"""Metric of `provisioning` → what the study calls it."""
LIMIT: Final = "limit"
"""Fact of a trial of `streaming`: `the link: 97% used`."""
_THERE: Final = {"native": "native", "lxc": "lxc", "qemu": "kvm"}
"""Provider → technique of the published streams."""


def tables(path: Path, read: Read) -> list[DerivedTable | None]:
    """Of a run of `quick-host.yaml` or `full-host.yaml`."""
    run = measured.opened(path)
    of = {
        kind: [c for c in run.analysis.comparisons if run.kind(c) == kind]
        for kind in ("streaming", "provisioning")
    }
    telling = [c for c in of["streaming"] if c.metric in _telling_metrics(run, c)]
    streams = measured.ratios(
        run,
        telling,
        "streams-fresh",
        "Streams of one host, and the servers' CPU time for each",
        _published_columns(run, read) if any(c.metric == "viewers" for c in telling) else None,
    )
    return [
        streams,
        _limits_of_streams(run, "limits-fresh"),
        *_allocations(run, of["provisioning"], _allocation_key(run), _OF_A_HOST),
    ]


def cloud_tables(path: Path, read: Read) -> list[DerivedTable | None]:
    """Of a run of `quick-cloud.yaml` or `full-cloud.yaml`: step 2 in clouds of the user's."""
    run = measured.opened(path)
    comparisons = list(run.analysis.comparisons)
    return [
        _means(run),
        *_allocations(run, comparisons, "cloud-allocation", _of_clouds(read)),
    ]


def _means(run: measured.StudiedRun) -> DerivedTable:
    """As it was published: mean and deviation of what each took, trial by trial."""

    def taken(environment: str, workload: str, metric: str) -> list[float]:
        return [
            value
            for trial in run.folder.trials
            if (trial.environment, trial.workload) == (environment, workload)
            and trial.status == "ok"
            and isinstance(value := trial.metrics.get(metric), float)
        ]

    rows = tuple(
        DerivedRow(
            label=f"{label(run.folder, environment)}, {_request(workload.parameters)}",
            cells=tuple(
                cell
                for metric in ("allocation_time", "release_time")
                for cell in _mean_and_deviation(taken(environment, workload.key, metric))
            ),
        )
        for workload in workloads(run.folder, "provisioning")
        for environment in environments(run.folder)
    )
    columns = [
        Column(title=f"{symbol}, {what}", unit="s", decimals=3)
        for symbol in ("TaR", "TlR")
        for what in ("mean", "deviation")
    ]
    return DerivedTable(
        key="cloud-allocation-means-fresh",
        caption="An allocation and a release, as they were published: mean and deviation",
        of="environment",
        columns=tuple(columns),
        rows=rows,
        notes=("Of the trials with a figure. They are skewed: the medians below say more.",),
    )


def _mean_and_deviation(values: Sequence[float]) -> tuple[StudyFigure, StudyFigure]:
    if not values:
        return (StudyFigure(value=None, why="no trial gave a figure"),) * 2
    if len(values) == 1:
        one = StudyFigure(value=None, why="one trial has no spread")
        return StudyFigure(value=values[0]), one
    return StudyFigure(value=statistics.fmean(values)), StudyFigure(value=statistics.stdev(values))


def _allocations(
    run: measured.StudiedRun, comparisons: list[Comparison], key: str, beside: str
) -> list[DerivedTable | None]:
    """The parts, and how the whole compares; `beside`: what was published, or why not here."""
    return [
        _parts(run, comparisons, f"{key}-fresh", beside),
        measured.ratios(
            run,
            [c for c in comparisons if c.metric in ("allocation_time", "release_time")],
            f"{key}-ratios-fresh",
            "Making an instance, and taking it away",
        ),
    ]


_OF_A_HOST: Final = (
    "Nothing stands beside: there the image was a disk of 2.8 GB behind a cloud's own "
    "storage, here it is a directory or a disk on the same host. The published times have "
    "their own table."
)


def _of_clouds(read: Read) -> str:
    """The published times, which are of other hosts and another image."""
    times = ", ".join(
        f"{row['platform']} on {row['hypervisor']} {row['mean_s']} ± {row['stddev_s']} s"
        for row in read("elastic2015_allocation")
    )
    return (
        f"There TaR was, one at a time, mean and deviation of 20: {times}. That was an image of "
        "2.8 GB on hosts of 2015, without OpenStack's 30 s of contextualisation; here TiI ends "
        "when our agent in the instance has answered. So no ratio is made of the two."
    )


def room_limits(path: Path) -> DerivedTable | None:
    """Of a run that says the room of step 3, which has a table of the rooms themselves."""
    return _limits_of_streams(measured.opened(path), "room-limits-fresh")


def _telling_metrics(run: measured.StudiedRun, c: Comparison) -> tuple[str, ...]:
    """What of a streaming workload says something: a number of viewers that was given does not."""
    return STREAMS if run.parameters(c)["viewers"] is None else ("server_cpu_per_stream",)


def _published_columns(run: measured.StudiedRun, read: Read) -> measured.PublishedColumns:
    """Published clients of the same technique and number of instances, over the native ones.

    Only of streams of that rate over a link of that rate: there all of them went over one of
    1 Gbit/s.
    """
    clients = {
        (row["technique"], int(row["vms"])): float(row["clients_total"])
        for row in read("elastic2015_streaming")
    }
    environments = {e.key: e for e in run.folder.resolved.environments}
    network = run.folder.resolved.network or {}

    def cells(c: Comparison) -> tuple[DerivedCell, ...]:
        of = environments[c.environment]
        technique = "" if of.emulated else _THERE.get(of.provider, "")
        instances = int(of.nuisances.get("instances", "1"))
        stream = run.parameters(c)
        of_one_rate = stream["bitrate"] == STREAM_BPS and stream.get("sent") is None
        alike = network.get("rate") == LINK_BPS and of_one_rate
        if c.metric == "viewers" and alike and (technique, instances) in clients:
            return (StudyFigure(value=clients["native", 1] / clients[technique, instances]),)
        return (StudyFigure(value=None, why="nothing was published for this setting"),)

    return measured.PublishedColumns((Column(title="there", decimals=3),), cells)


LINK_BPS: Final = 1_000_000_000
STREAM_BPS: Final = 2_800_000


def _parts(
    run: measured.StudiedRun, comparisons: list[Comparison], key: str, beside: str
) -> DerivedTable | None:
    """S4.2 with its parts, which were defined there and never reported: medians, in seconds."""
    if not comparisons:
        return None
    rows: list[DerivedRow] = []
    for workload in dict.fromkeys(c.workload for c in comparisons):
        of = {(c.environment, c.metric): c for c in comparisons if c.workload == workload}
        first = next(iter(of.values()))
        request = _request(run.parameters(first))
        rows.append(_row(f"{first.baseline_label}, {request}", of, first.environment, True))
        for environment in dict.fromkeys(key for key, _ in of):
            label = measured.name(of[environment, "allocation_time"])
            rows.append(_row(f"{label}, {request}", of, environment, False))
    return DerivedTable(
        key=key,
        caption="The parts of an allocation, TaR = TeF + TcI + TiI, and the release TlR",
        of="environment",
        columns=tuple(Column(title=symbol, unit="s", decimals=4) for _, symbol in PARTS),
        rows=tuple(rows),
        notes=(
            "TeF: choosing a host; TcI: copying the image; TiI: booting; of several at once TaR is "
            "until the last is up, and the parts are means over them. Medians, with intervals of "
            f"{share(run.analysis.confidence)} from six blocks on. The parts were "
            "not reported there.",
            beside,
        ),
    )


def _allocation_key(run: measured.StudiedRun) -> str:
    """Images of given sizes have tables of their own."""
    sized = any("image_size" in w.parameters for w in workloads(run.folder, "provisioning"))
    return "images" if sized else "allocation"


def _request(parameters: Mapping[str, Any]) -> str:
    """`4 at once, image copied, image cold`."""
    size = parameters.get("image_size")
    of_size = "" if size is None else f" of {size / 1e9:g} GB"
    copied = f", image{of_size} copied" if parameters["copy"] == "real" else ""
    cold = ", image cold" if parameters.get("cold") else ""
    return f"{parameters['count']} at once{copied}{cold}"


def _row(
    label: str, of: dict[tuple[str, str], Comparison], environment: str, baseline: bool
) -> DerivedRow:
    take = measured.baseline if baseline else measured.environment
    cells = (
        take(of[environment, metric])
        if (environment, metric) in of
        else StudyFigure(value=None, why="not told by this run")
        for metric, _ in PARTS
    )
    return DerivedRow(label=label, cells=tuple(cells))


def _limits_of_streams(run: measured.StudiedRun, key: str) -> DerivedTable | None:
    """A row an environment and number: its limits, with the trials that had each; None of none."""
    rows = [
        DerivedRow(label=_label(run, environment, record), cells=(_limits(limits),))
        for record in workloads(run.folder, "streaming")
        for environment in environments(run.folder)
        if (limits := _counted(run, environment, record))
    ]
    if not rows:
        return None
    return DerivedTable(
        key=key,
        caption="What was the limit of the streams",
        of="environment and work",
        columns=(Column(title="limit, and trials that had it"),),
        rows=tuple(rows),
        notes=(
            "Of the step that was no longer sustained: whatever was used up first of the viewers' "
            "own CPU, the servers', this host's, and the link. Where it is the link, equal numbers "
            "of streams say nothing of who could serve more.",
        ),
    )


def _label(run: measured.StudiedRun, environment: str, record: WorkloadRecord) -> str:
    return f"{label(run.folder, environment)}, {record.title}"


def _counted(run: measured.StudiedRun, environment: str, record: WorkloadRecord) -> Counter[str]:
    """Limit, without its share → trials with a figure."""
    return Counter(
        trial.facts[LIMIT].partition(":")[0]
        for trial in run.folder.trials
        if (trial.environment, trial.workload) == (environment, record.key)
        and trial.status == "ok"
        and LIMIT in trial.facts
    )


def _limits(limits: Counter[str]) -> str:
    return "; ".join(f"{limit} ({number})" for limit, number in limits.most_common())
