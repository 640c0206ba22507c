"""Whose work it was on the host's CPUs: what the charts and tables call the groups, and colours."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import altair as alt

from ullage.symbolsfile import OTHER_END

Kind = tuple[str, str]
"""What it is called, and its colour."""

_KINDS: Final[dict[str, Kind]] = {
    "programs": ("programs", "c2"),
    "vcpu": ("vCPUs", "c1"),
    "hypervisor": ("QEMU", "c5"),
    "vhost": ("vhost", "c6"),
    "ksoftirqd": ("kernel threads", "c4"),
    "kworker": ("kernel threads", "c4"),
    "kernel_threads": ("kernel threads", "c4"),
    OTHER_END: ("the other end", "c0"),
    "agent": ("ullage", "c7"),
    "controller": ("ullage", "c7"),
    "others": ("others", "wood"),
}
"""In the order in which they are stacked."""
_UNKNOWN: Final = ("not told whose", "c3")
ORDER: Final = tuple(dict.fromkeys([*_KINDS.values(), _UNKNOWN]))


def kind(group: str) -> Kind:
    """Of a group."""
    return _KINDS.get(group, _UNKNOWN)


def kinds(groups: Iterable[str]) -> list[Kind]:
    """Of these groups, each once and in their order."""
    seen = {kind(group) for group in groups}
    return [each for each in ORDER if each in seen]


def colours(used: Sequence[Kind]) -> alt.Color:
    """Of the field `g`, with a legend of these."""
    scale = alt.Scale(
        domain=[name for name, _ in used], range=[f"var(--{colour})" for _, colour in used]
    )
    legend = alt.Legend(title=None, orient="top", columns=4, symbolType="square")
    return alt.Color("g:N", scale=scale, legend=legend)
