"""The exact reading of what httperf 0.9 prints."""

from __future__ import annotations

import re

from ullage.workloads.base import InvalidTrialError
from ullage.workloads.outputs import Line, line, read_lines

ERRORS = (
    "client-timo",
    "socket-timo",
    "connrefused",
    "connreset",
    "fd-unavail",
    "addrunavail",
    "ftab-full",
    "other",
)
"""The kinds, as httperf calls them."""


class Report(dict[str, float]):
    """Figures by name: times in ms or s as the name ends."""

    @property
    def kinds(self) -> str:
        """The errors by kind: `client-timo 3`."""
        found = ((kind, self[kind.replace("-", "_")]) for kind in ERRORS)
        return ", ".join(f"{kind} {count:.0f}" for kind, count in found if count)


def report(text: str, *, sessions: bool) -> Report:
    """The figures of a run; InvalidTrialError when a line is not as httperf prints it.

    sessions: of `--wsess` or `--wsesslog`, which say a little more.
    """
    found = Report(read_lines(text, (*_HEAD, *_BODY, *(_SESSIONS if sessions else ()))))
    if found["errors"] != sum(found[kind.replace("-", "_")] for kind in ERRORS):
        raise InvalidTrialError("its errors by kind are not their sum")
    statuses = sum(found[f"status_{n}xx"] for n in range(1, 6))
    if found["replies"] > found["requests"] or statuses < found["replies"]:
        raise InvalidTrialError(
            f"{found['requests']:.0f} requests, {found['replies']:.0f} replies and "
            f"{statuses:.0f} statuses contradict each other"
        )
    return found


def _line(like: str) -> Line:
    """`line` of a text in which `{name:places}` is a figure."""
    parts: list[str | tuple[str, int]] = []
    for literal, name, places in re.findall(r"([^{]*)(?:\{(\w+):(\d)\})?", like):
        parts += [literal] if literal else []
        parts += [(name, int(places))] if name else []
    return line(*parts)


def _any(begins: str) -> Line:
    """A line that begins so; the rest is not looked at."""
    return Line(f"{begins}…", re.compile(re.escape(begins) + r"[\x20-\x7e]{0,200}"))


_HEAD = (
    _any("httperf --"),
    _line("Maximum connect burst length: {burst:0}"),
)
_BODY = (
    _line(
        "Total: connections {connections:0} requests {requests:0} replies {replies:0} "
        "test-duration {duration:3} s"
    ),
    _any("Connection rate: "),
    _line(
        "Connection time [ms]: min {min_ms:1} avg {lifetime_ms:1} max {max_ms:1} "
        "median {median_ms:1} stddev {deviation_ms:1}"
    ),
    _line("Connection time [ms]: connect {connect_ms:1}"),
    _any("Connection length [replies/conn]: "),
    _any("Request rate: "),
    _any("Request size [B]: "),
    _any("Reply rate [replies/s]: "),
    _line("Reply time [ms]: response {response_ms:1} transfer {transfer_ms:1}"),
    _line("Reply size [B]: header {head:1} content {content:1} footer {foot:1} (total {total:1})"),
    _line(
        "Reply status: 1xx={status_1xx:0} 2xx={status_2xx:0} 3xx={status_3xx:0} "
        "4xx={status_4xx:0} 5xx={status_5xx:0}"
    ),
    _line(
        "CPU time [s]: user {user_s:2} system {system_s:2} (user {user_share:1}% "
        "system {system_share:1}% total {cpu_share:1}%)"
    ),
    _any("Net I/O: "),
    _line(
        "Errors: total {errors:0} client-timo {client_timo:0} socket-timo {socket_timo:0} "
        "connrefused {connrefused:0} connreset {connreset:0}"
    ),
    _line(
        "Errors: fd-unavail {fd_unavail:0} addrunavail {addrunavail:0} ftab-full {ftab_full:0} "
        "other {other:0}"
    ),
)
_SESSIONS = (
    _line(
        "Session rate [sess/s]: min {rate_min:2} avg {rate_avg:2} max {rate_max:2} "
        "stddev {rate_deviation:2} ({sessions_whole:0}/{sessions_begun:0})"
    ),
    _any("Session: avg "),
    _any("Session lifetime [s]: "),
    _any("Session failtime [s]: "),
    _any("Session length histogram: "),
)
