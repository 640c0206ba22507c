"""Two elastic runs beside each other: which environments are partners, and what differs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ullage.analysis.words import listed
from ullage.elastic import planwords
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
    """Settings that are not the same, as a plan has them."""
    told, there = _settings(one), _settings(two)
    for name in told:
        yield from _differs(name, told[name], there[name])
    for a, b in pairs:
        own, others = _own(one, a), _own(two, b)
        for name in dict.fromkeys((*own, *others)):
            what = f"{name} of {clean(a.label, 60)}"
            yield from _differs(what, own.get(name, "none"), others.get(name, "none"))
    for name in ("cpu_model", "kernel"):
        known = (str(host.get(name, "not known")) for host in (one.host, two.host))
        yield from _differs(name.replace("_", " "), *known)


def _settings(run: Resolved) -> dict[str, str]:
    """Of the whole run."""
    film = planwords.video(run.video, run.time_scale)
    return {
        "time scale": f"×{run.time_scale:g}",
        "room": str(run.room),
        "patience": planwords.patience(run),
        "buffer": planwords.duration(run.buffer_s),
        "arrivals": planwords.arrivals(run),
        "resources of a node": planwords.resources(run.resources),
        "ullage": run.ullage,
        "viewers' origin": planwords.generators(run.generators),
        **{f"{name} of the video": value for name, value in film.items()},
    }


def _own(run: Resolved, side: Side) -> dict[str, str]:
    """Of one environment."""
    setting = run.settings[side.key]
    return {
        "policy": planwords.policy(setting.policy),
        **{f"nodes: {name}": value for name, value in planwords.nodes(setting.machine).items()},
        "boot delay": planwords.duration(setting.boot_delay_s * run.time_scale),
    }


def _differs(name: str, one: str, two: str) -> Iterator[str]:
    if one != two:
        yield f"{name} {clean(one, 200)}, there {clean(two, 200)}"
