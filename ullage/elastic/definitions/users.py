"""What the viewers felt."""

from __future__ import annotations

from typing import Final

from ullage.elastic.definitions.base import HERE, STUDY, Definition

BRIEF_WAIT_S: Final = 1.0
"""Seconds of the users' time: who waits longer has waited for a node, and not for the front."""

USERS: Final[tuple[Definition, ...]] = (
    Definition(
        name="requests",
        title="requests received",
        symbol="QtRvS",
        unit="count",
        better=None,
        scale="ratio",
        group="users",
        description="Viewers who asked the front for a video.",
        source=STUDY,
    ),
    Definition(
        name="blocked",
        title="blocked viewers",
        symbol="PcBl",
        unit="1",
        better="lower",
        scale="difference",
        group="users",
        description="Share of the requests that were not given a node within the viewer's "
        "patience; without any, that found no room when they came.",
        source=STUDY,
        primary=True,
        percent=True,
        bounded=True,
    ),
    Definition(
        name="affected",
        title="viewers with a violation",
        symbol="PcAf",
        unit="1",
        better="lower",
        scale="difference",
        group="users",
        description="Share of the viewers who were served, which is who got a first byte, in whose "
        "player the video stood still at least once, or whose stream broke or was cut.",
        source=STUDY,
        primary=True,
        percent=True,
        bounded=True,
    ),
    Definition(
        name="turned_away",
        title="refused or failed",
        unit="1",
        better="lower",
        scale="difference",
        group="users",
        description="Share of the requests that the front turned away or that broke, before the "
        "first byte or after it, which is not blocking by patience.",
        source=HERE,
        percent=True,
        bounded=True,
    ),
    Definition(
        name="bandwidth",
        title="aggregate bandwidth",
        symbol="AggBand",
        unit="bit/s",
        better="higher",
        scale="ratio",
        group="users",
        description="Bits of video that all viewers got, over the time from the first instant at "
        "which one may come until the last is gone.",
        source=STUDY,
    ),
    Definition(
        name="waited",
        title="viewers who waited",
        unit="1",
        better="lower",
        scale="difference",
        group="users",
        description="Share of the requests whose answer took longer than a second of the users' "
        "time, or never came. Without patience nobody waits, and there is no such figure.",
        source=HERE,
        percent=True,
        bounded=True,
    ),
    Definition(
        name="wait_mean",
        title="waiting time, mean",
        unit="s",
        better="lower",
        scale="ratio",
        group="users",
        description="From the instant at which a viewer was due until the front sent him to a "
        "node, over those who were served. It counts from the due instant, so a generator or a "
        "front that is late cannot hide it.",
        source=HERE,
    ),
    Definition(
        name="wait_p95",
        title="waiting time, 95th percentile",
        unit="s",
        better="lower",
        scale="ratio",
        group="users",
        description="The waiting time that one in twenty of the served viewers exceeded.",
        source=HERE,
    ),
    Definition(
        name="stalled",
        title="standstill per viewer",
        unit="s",
        better="lower",
        scale="difference",
        group="users",
        description="How long the video stood still, over all viewers who were served.",
        source=HERE,
    ),
)
