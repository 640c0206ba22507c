"""Where the figures of an elastic run come from."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from ullage.common.quantities import format_bytes
from ullage.common.text import clean
from ullage.experiments.elastic import folder
from ullage.experiments.elastic.analysis import reading
from ullage.experiments.elastic.analysis.reading import ElasticRun
from ullage.experiments.elastic.folder import Setting
from ullage.experiments.elastic.plan import words
from ullage.report.charts.text import duration
from ullage.report.views import Table, cells, heads


def again(run: ElasticRun) -> str:
    """Commands that do it again."""
    return f"ullage elastic run plan.yaml    # the plan below; seed {run.resolved.seed}"


def pairs(run: ElasticRun) -> list[tuple[str, str]]:
    """Facts about the run."""
    r, end = run.resolved, run.finished
    started = run.started_epoch_ns
    facts = [
        ("run", r.run),
        ("started", _instant(started) if started is not None else "never"),
        ("ended because", _ended(run) if end else "it has no end: interrupted or running"),
        ("baseline", run.label(r.baseline) if r.baseline else "none"),
        ("confidence", f"{100 * r.confidence:g} %"),
        ("seed", str(r.seed)),
        ("time scale", _time_scale(r)),
        ("arrivals", words.arrivals(r)),
        ("viewers come from", words.generators(r.generators)),
        ("patience", _patience(r)),
        ("video", _video(r)),
        ("room", f"{words.rooms(r)} viewers to a node{words.capacities(r)}"),
        ("resources of a node", words.resources(r.resources)),
        *([("machines", words.machines(r))] if r.machines else []),
        ("budgets", _plain(r.budgets)),
        ("energy", reading.in_words(meter) if (meter := reading.meter(r)) else "no meter"),
        ("image", f"{r.image.kind}, {r.image.digest}" if r.image else "none"),
        ("host", _plain(r.host)),
        ("ullage", r.ullage),
        ("tag", r.tag),
    ]
    return [(name, clean(value, 600)) for name, value in facts]


def _ended(run: ElasticRun) -> str:
    end = run.finished
    assert end is not None
    reasons = {
        "repetitions": "all repetitions were done",
        "interrupted": "it was interrupted",
        "failed": "it failed",
    }
    return reasons[end.reason] + (f": {end.message}" if end.message else "")


def _time_scale(r: folder.ElasticResolved) -> str:
    if r.time_scale == 1:
        return "none: a second is a second"
    return f"×{r.time_scale:g}: arrivals, patience and length of the video are in the users' time"


def _patience(r: folder.ElasticResolved) -> str:
    return words.patience(r) + _real(r, r.patience_s)


def _real(r: folder.ElasticResolved, seconds: float) -> str:
    """What a time of the users' took."""
    scaled = r.time_scale != 1 and seconds > 0
    return f" ({words.duration(seconds)} of real time)" if scaled else ""


def _video(r: folder.ElasticResolved) -> str:
    v, film = r.video, words.video(r.video, r.time_scale)
    sent = "" if v.sent_bps is None else f", sent at {film['sent']}"
    return (
        f"{film['length']}{_real(r, v.length_s)}, {format_bytes(v.bytes)} at {film['bitrate']}"
        f"{sent}, {film['kind']}, by {v.made_by}"
    )


def environments(run: ElasticRun) -> Table:
    """What each environment is, and what decides in it."""
    rows = []
    for e in run.resolved.environments:
        own = run.resolved.settings[e.key]
        rows.append(
            cells(
                clean(e.label, 60),
                clean(e.provider, 40),
                clean(_plain(e.options), 300),
                clean(words.policy(own.policy), 300),
                clean(_plain(words.nodes(own.machine)), 300),
                _held_back(own),
                clean(_plain(e.treatments), 300),
            )
        )
    names = ("environment", "provider", "options", "policy", "nodes", "held back", "treatment")
    return Table("Environments of this run", heads(*names), tuple(rows))


def _held_back(own: Setting) -> str:
    if own.allocation is not None:
        mean, deviation = duration(own.allocation.mean_s), duration(own.allocation.deviation_s)
        return f"until {mean} ± {deviation} from its request"
    return duration(own.boot_delay_s) if own.boot_delay_s else "–"


def _plain(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in words.fields(values).items()) or "–"


def _instant(epoch_ns: int) -> str:
    try:
        return datetime.fromtimestamp(epoch_ns // 1_000_000_000, UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (OverflowError, ValueError, OSError):
        return "at no time that there is"
