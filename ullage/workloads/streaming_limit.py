"""What kept a number of streams from being larger, as far as what was measured tells.

Looked at is the step that was not sustained, for there the limit is: of a search the smallest, of
a number that was given this one. What was used of a resource in it, over what there is of it, makes
it the limit from these shares on:

* the viewers' own CPU: 80 % of the CPU that they use most. From 90 % on a search has no figure.
* the servers' CPUs: 80 % of those that they have, which is one for each process of NGINX, and no
  more than this host has. A step has no CPU time of its own: it is that of all steps for each byte,
  times the bytes that all viewers of this step want.
* this host's CPUs: 80 % of all, by servers and viewers together.
* the link: 85 % of what the plan says that it carries, by the video alone. Headers of Ethernet, IP
  and TCP are 6 %, requests are not counted.

Whatever is first in this list is said, as who is starved of it cannot use what comes after it.
Otherwise none is found: a quota on a part of a CPU, a hypervisor, interrupts, other work on this
host, a disk or a link of which the plan says nothing may have been it. Where a given number was
sustained there was none.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

from ullage.workloads.streaming_report import Found, Run
from ullage.workloads.web_server import Served

FULL_CPU: Final = 0.8
FULL_LINK: Final = 0.85


def host_cpus() -> int:
    """CPUs of this host that we may use: servers and viewers are on it."""
    return len(os.sched_getaffinity(0))


def limit(
    result: Found | Run, servers: Sequence[Served], bitrate: int, link_bps: int | None
) -> str:
    """What was the limit, with its share, or `none found` with what was looked at."""
    run, video_bytes = _unsustained(result)
    if run is None:
        return "none: all of the given number were sustained"
    moved_bps = min(run.bytes_per_s * 8, run.due * bitrate)
    used = sum(each.cpu_s for each in servers) / (video_bytes * 8) * moved_bps
    has = min(sum(max(1, each.processes - 1) for each in servers), host_cpus())
    looked: list[tuple[str, float, float]] = [
        ("the viewers' own CPU", run.cpu_share, FULL_CPU),
        (f"the servers' CPUs, {has}", used / has, FULL_CPU),
        (f"this host's CPUs, {host_cpus()}", (used + run.cpus) / host_cpus(), FULL_CPU),
    ]
    if link_bps is not None:
        looked.append(("the link", moved_bps / link_bps, FULL_LINK))
    for name, share, full in looked:
        if share >= full:
            return f"{name}: {share:.0%} used"
    return "none found: " + ", ".join(f"{name} {share:.0%}" for name, share, _ in looked)


def _unsustained(result: Found | Run) -> tuple[Run | None, int]:
    """The step at the limit, if there was one, and the bytes of all steps."""
    if isinstance(result, Run):
        return (None if result.sustained else result), result.bytes
    above = result.above
    return (above.run if above else None), sum(step.run.bytes for step in result.steps)
