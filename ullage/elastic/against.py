"""Two elastic runs beside each other: which environments are partners, and what differs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ullage.analysis.words import listed
from ullage.elastic.contrasts import contrasts
from ullage.elastic.folder import Resolved
from ullage.elastic.reading import ElasticRun
from ullage.elastic.sides import Side
from ullage.elastic.summary import Against
from ullage.printable import clean

Pairs = list[tuple[Side, Side]]


def compare(
    run: ElasticRun, mine: Sequence[Side], other: ElasticRun, theirs: Sequence[Side]
) -> Against:
    """Each environment against the one of the same name in the other run.

    Where both have a single environment these two are partners, whatever their names.
    """
    pairs = _partners(mine, theirs)
    return Against(
        other=other.path.resolve().name,
        contrasts=contrasts(pairs, run.resolved.confidence),
        notes=tuple(_notes(run, mine, other, theirs, pairs)),
    )


def _partners(mine: Sequence[Side], theirs: Sequence[Side]) -> Pairs:
    mine, theirs = ([side for side in of if side.again_of is None] for of in (mine, theirs))
    if len(mine) == len(theirs) == 1:
        return [(mine[0], theirs[0])]
    named = {side.key: side for side in theirs}
    return [(side, named[side.key]) for side in mine if side.key in named]


def _notes(
    run: ElasticRun,
    mine: Sequence[Side],
    other: ElasticRun,
    theirs: Sequence[Side],
    pairs: Pairs,
) -> Iterator[str]:
    if run.resolved.run == other.resolved.run:
        yield "Both are the same run: there is nothing between them to be found."
    if not pairs:
        here, there = (clean(listed(s.label for s in of), 200) for of in (mine, theirs))
        yield (
            "The two runs have no environment of the same name, so nothing is compared: this one "
            f"has {here}, the other {there}."
        )
        return
    with_figures = [(a, b) for a, b in pairs if a.figures and b.figures]
    if not with_figures:
        yield "No environment has figures in both runs, so nothing is compared."
    known = {side.key for pair in pairs for side in pair}
    left = [s.label for s in mine if s.key not in known and s.again_of is None]
    left += [
        f"{s.label} (the other's)" for s in theirs if s.key not in known and s.again_of is None
    ]
    if left:
        yield f"Without a partner: {clean(listed(left), 400)}."
    differ = list(_differences(run.resolved, other.resolved, pairs))
    if differ:
        yield f"What differs between the two, and so is in every difference: {'; '.join(differ)}."
    yield (
        "The runs were made one after the other and not in turn: what else changed on the host "
        "between them is in every difference too."
    )


def _differences(one: Resolved, two: Resolved, pairs: Pairs) -> Iterator[str]:
    """Settings that are not the same."""
    names = ("time_scale", "room", "patience_s", "buffer_s", "arrivals", "resources", "ullage")
    for name in names:
        yield from _differs(name.removesuffix("_s"), getattr(one, name), getattr(two, name))
    yield from _differs("viewers' origin", _origin(one), _origin(two))
    video = ("length_s", "bitrate_bps", "kind")
    yield from _differs(
        "video",
        [getattr(one.video, name) for name in video],
        [getattr(two.video, name) for name in video],
    )
    for a, b in pairs:
        mine, theirs = one.settings[a.key], two.settings[b.key]
        for name in ("policy", "machine", "boot_delay_s"):
            what = f"{name.removesuffix('_s').replace('_', ' ')} of {clean(a.label, 60)}"
            yield from _differs(what, getattr(mine, name), getattr(theirs, name))
    for name in ("cpu_model", "kernel"):
        yield from _differs(name.replace("_", " "), one.host.get(name), two.host.get(name))


def _origin(resolved: Resolved) -> str:
    if (machines := resolved.generators) is None:
        return "this host"
    made_of = ", ".join(f"{key} {machines.get(key)}" for key in ("options", "resources"))
    return f"{machines.get('number')} × {machines.get('label')} ({made_of})"


def _differs(name: str, one: Any, two: Any) -> Iterator[str]:
    if one != two:
        yield f"{name} {clean(str(one), 200)}, there {clean(str(two), 200)}"
