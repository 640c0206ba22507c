"""Workload `httperf`."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from itertools import cycle, islice
from typing import Annotated, Literal

from pydantic import BaseModel, ByteSize, ConfigDict, Field, model_validator

from ullage.runs.records import Metric
from ullage.workloads import sources
from ullage.workloads.base import Context, Figures, InvalidTrialError, Outputs, Task
from ullage.workloads.output import ReportLine, line, output_of, read_lines
from ullage.workloads.web.web_server import LOAD, PLACES, SERVER_CPU, Web, WebParameters

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


class HttperfReport(dict[str, float]):
    """Figures by name: times in ms or s as the name ends."""

    @property
    def kinds(self) -> str:
        """The errors by kind: `client-timo 3`."""
        counts = ((kind, self[kind.replace("-", "_")]) for kind in ERRORS)
        return ", ".join(f"{kind} {count:.0f}" for kind, count in counts if count)


def report(text: str, *, sessions: bool) -> HttperfReport:
    """The figures of a run; InvalidTrialError when a line is not as httperf prints it.

    sessions: of `--wsess` or `--wsesslog`, which say a little more.
    """
    figures = HttperfReport(read_lines(text, (*_HEAD, *_BODY, *(_SESSIONS if sessions else ()))))
    if figures["errors"] != sum(figures[kind.replace("-", "_")] for kind in ERRORS):
        raise InvalidTrialError("its errors by kind are not their sum")
    statuses = sum(figures[f"status_{n}xx"] for n in range(1, 6))
    if figures["replies"] > figures["requests"] or statuses < figures["replies"]:
        raise InvalidTrialError(
            f"{figures['requests']:.0f} requests, {figures['replies']:.0f} replies and "
            f"{statuses:.0f} statuses contradict each other"
        )
    return figures


def _line(like: str) -> ReportLine:
    """`line` of a text in which `{name:places}` is a figure."""
    parts: list[str | tuple[str, int]] = []
    for literal, name, places in re.findall(r"([^{]*)(?:\{(\w+):(\d)\})?", like):
        parts += [literal] if literal else []
        parts += [(name, int(places))] if name else []
    return line(*parts)


def _any(begins: str) -> ReportLine:
    """A line that begins so; the rest is not looked at."""
    return ReportLine(f"{begins}…", re.compile(re.escape(begins) + r"[\x20-\x7e]{0,200}"))


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


MOST_OPEN = 1000
"""Connections: httperf has 1,024 descriptors (`FD_SETSIZE`), some of them for other things."""

MOST_PORTS = 14_000
"""Linux has 28,232 ports for connections (`net.ipv4.ip_local_port_range`), each taken for a minute.
It gives away one half first; then it searches through thousands for each connection: 0.7 ms of
CPU time on the average of 5,000, as seen, which would be what is measured."""

SESSION_CONNECTIONS = 4
"""Of one scripted session at once: httperf's default, and a browser's of its days."""

LONGEST_SCRIPT = 64 << 10
"""Characters: the system lets an argument have twice as many."""

Size = Annotated[ByteSize, Field(ge=1, le=1 << 30)]


class Page(BaseModel):
    """One page of a scripted session."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    document: Size = Field(description="bytes of the page itself")
    objects: tuple[Size, ...] = Field((), max_length=100, description="bytes of what is in it")
    think_s: float = Field(0.0, ge=0, le=3600, description="seconds before the next page")


Visit = Annotated[tuple[Page, ...], Field(min_length=1, max_length=1000)]

OF_MODE: dict[str, frozenset[str]] = {
    "sessions": frozenset({"document", "sessions", "calls", "think_s", "rate"}),
    "rate": frozenset({"document", "connections", "calls", "rate"}),
    "script": frozenset({"sessions", "script", "rate"}),
}
"""Which fields a mode has; those that all have aside."""


class HttperfParameters(WebParameters):
    """What is asked for, how often, and by how many."""

    mode: Literal["sessions", "rate", "script"] = Field(
        "sessions",
        description="users that ask, think and ask again (`--wsess`); connections at a rate "
        "(`--rate`); or sessions as written in `script` (`--wsesslog`)",
    )
    document: ByteSize = Field(
        ByteSize(1024), ge=1, le=1 << 30, description="bytes of the document that is asked for"
    )
    sessions: int = Field(10, ge=1, le=1_000_000, strict=True, description="sessions in all")
    calls: int = Field(
        5, ge=1, le=1_000_000, strict=True, description="requests of a session or connection"
    )
    think_s: float = Field(0.04, ge=0, le=3600, description="seconds from a reply to the next call")
    rate: float | None = Field(
        None,
        gt=0,
        le=100_000,
        description="sessions or connections begun in a second; absent: one session after another",
    )
    connections: int | None = Field(
        None, ge=1, le=MOST_PORTS, strict=True, description="connections in all, in mode `rate`"
    )
    script: Annotated[tuple[Visit, ...], Field(min_length=1, max_length=1000)] | None = Field(
        None,
        description="sessions, each a list of pages `{document: 4KiB, objects: [1KiB, 1KiB], "
        "think_s: 0.1}`: the page, then its objects over up to 4 connections, then the think time; "
        "they are gone through again until there were as many as `sessions`",
    )
    timeout_s: float = Field(
        5.0, gt=0, le=3600, description="seconds without a sign of the server that are an error"
    )
    errors_allowed: float = Field(
        0.0, ge=0, lt=0.5, description="errors that are allowed, as a share of the calls"
    )

    @model_validator(mode="after")
    def _possible(self) -> HttperfParameters:
        defaults = type(self).model_fields
        for name in sorted(frozenset().union(*OF_MODE.values()) - OF_MODE[self.mode]):
            if getattr(self, name) != defaults[name].default:
                raise ValueError(f"mode {self.mode} has no {name}")
        if self.mode == "rate" and (self.rate is None or self.connections is None):
            raise ValueError("mode rate needs rate and connections")
        if (self.mode == "script") != (self.script is not None):
            raise ValueError("mode script needs script")
        if self.mode == "script" and len(self.session_log()) > LONGEST_SCRIPT:
            raise ValueError(f"script must have less than {LONGEST_SCRIPT} characters as a file")
        if (count := self.open_at_once()) > MOST_OPEN:
            raise ValueError(
                f"up to {count} connections could be open at once, httperf can have {MOST_OPEN}: "
                "lower rate, timeout_s, or how many are begun in all"
            )
        if (count := self.begun * self.connections_of_each) > MOST_PORTS:
            raise ValueError(f"{count} connections need more than {MOST_PORTS} ports")
        return self

    @property
    def begun(self) -> int:
        """Sessions or connections in all."""
        return self.connections or self.sessions

    @property
    def connections_of_each(self) -> int:
        """Connections of a session."""
        objects = (page.objects for session in self.script or () for page in session)
        return (
            SESSION_CONNECTIONS
            if any(len(objects_of_page) > 1 for objects_of_page in objects)
            else 1
        )

    @property
    def played(self) -> list[Sequence[Page]]:
        """Every scripted session, in the order in which they begin."""
        return list(islice(cycle(self.script or ()), self.sessions))

    @property
    def requests(self) -> int:
        if self.mode != "script":
            return self.begun * self.calls
        return sum(1 + len(page.objects) for session in self.played for page in session)

    @property
    def bytes(self) -> int:
        """Of all documents that come."""
        if self.mode != "script":
            return self.requests * int(self.document)
        pages = [page for session in self.played for page in session]
        return sum(int(size) for page in pages for size in (page.document, *page.objects))

    def thinks_s(self) -> list[float]:
        """Seconds that each session, or each session of the script, thinks."""
        if self.mode == "rate":
            return [0.0]
        if self.script is None:
            return [(self.calls - 1) * self.think_s]
        return [sum(page.think_s for page in session[:-1]) for session in self.script]

    def nominal_s(self) -> float:
        """Seconds of the whole, of a server that takes none."""
        one_after_another = sum(islice(cycle(self.thinks_s()), self.begun))
        if self.rate is None:
            return one_after_another
        return self.begun / self.rate + max(self.thinks_s())

    def open_at_once(self) -> int:
        """Connections, of a server that answers each call only just in time."""
        if self.rate is None:
            return self.connections_of_each
        calls = self.calls
        if self.script is not None:
            calls = max(sum(1 + len(page.objects) for page in session) for session in self.script)
        longest_s = (calls + 1) * self.timeout_s + max(self.thinks_s())
        return min(self.begun, math.ceil(self.rate * longest_s)) * self.connections_of_each

    def session_log(self) -> str:
        """The script as httperf reads it: a blank line ends a session, a blank begins an object."""
        lines = []
        for session in self.script or ():
            for page in session:
                lines.append(f"/{int(page.document)} think={page.think_s:.6f}")
                lines += [f" /{int(size)}" for size in page.objects]
            lines.append("")
        return "\n".join(lines)


class Httperf(Web[HttperfParameters]):
    """Sessions of users on a web server, or connections at a rate (`httperf`).

    The setting of `flash-energy` (2012, of [the studies](../../guide/studies.md)) is `mode:
    sessions, sessions: 4, calls: 15, think_s: 10` (`httperf --wsess=4,15,10`): sessions run one
    after another, so that a trial takes 4 x 14 x 10 s, almost all of it thinking. What it published
    as CPU time per operation is httperf's own: it polls instead of sleeping, so that its CPU time
    is that of the run's length and of its own kernel, not the server's. It is given here as
    `client_cpu_per_reply`, and the server's as `server_cpu_per_reply`, which is the figure to
    compare. httperf tells times to 0.1 ms, so a fast server's are coarse: for latency use
    `web-latency`.

    httperf is limited to 1,024 descriptors: a plan that could need more is refused. Connections are
    kept (HTTP/1.1), without pipelining; a scripted session has up to 4. Documents are checked by
    their mean length, and httperf's exit status says nothing: it is 0 after errors too. Of D.
    Mosberger and T. Jin, httperf: a tool for measuring web server performance, 1998;
    https://github.com/httperf/httperf.
    """

    name = "httperf"
    packages = ("nginx", "apache2", "httperf")
    source = (
        "D. Mosberger, T. Jin: httperf, a tool for measuring web server performance, ACM "
        "SIGMETRICS Performance Evaluation Review 26(3), 1998, <https://doi.org/10.1145/306225.306235>",
        "httperf 0.9.0: its manual, <https://github.com/httperf/httperf>",
        sources.FLASH_ENERGY,
    )
    parameters_model = HttperfParameters
    metrics = (
        SERVER_CPU.model_copy(update={"primary": True}),
        Metric(
            name="client_cpu_per_reply",
            unit="s",
            better="lower",
            description="CPU time of httperf over the replies. It polls: where it waits, this "
            "grows with the waiting.",
        ),
        Metric(
            name="replies",
            unit="1",
            better="higher",
            description="Replies in all, each with a status of 200 to 299.",
        ),
        Metric(
            name="reply_rate",
            unit="1/s",
            better="higher",
            description="Replies over the length of the run.",
        ),
        Metric(
            name="reply_time",
            unit="s",
            better="lower",
            description="Mean time from sending a request to the last byte of its reply. Absent "
            "below httperf's resolution of 0.1 ms.",
            resolution=1e-4,
        ),
        Metric(
            name="connect_time",
            unit="s",
            better="lower",
            description="Mean time to establish a connection. Absent below 0.1 ms.",
            resolution=1e-4,
        ),
        Metric(
            name="connection_time",
            unit="s",
            better="lower",
            description="Mean time from establishing a connection to its end, think times "
            "included. Absent below 0.1 ms.",
            resolution=1e-4,
        ),
        Metric(
            name="errors",
            unit="1",
            better="lower",
            description="Errors of all kinds; above 0 only where `errors_allowed` is. The kinds "
            "are among the facts of the trial.",
        ),
    )

    def programs(self, parameters: HttperfParameters) -> Mapping[str, str]:
        return {**super().programs(parameters), "httperf": "httperf"}

    def title(self, parameters: HttperfParameters) -> str:
        """`nginx, 10 sessions from the host`."""
        noun = "connections" if parameters.mode == "rate" else "sessions"
        many = f"{parameters.begun} {noun}"
        if parameters.rate is not None:
            many += f" at {parameters.rate:g}/s"
        return f"{parameters.server}, {many} from {PLACES[parameters.client]}"

    def duration_s(self, parameters: HttperfParameters) -> float:
        """The think times, or the number over the rate."""
        return max(0.1, parameters.nominal_s())

    def documents(self, parameters: HttperfParameters) -> Sequence[int]:
        """The one, or all of the script."""
        if parameters.script is None:
            return (int(parameters.document),)
        pages = [page for session in parameters.script for page in session]
        return [int(size) for page in pages for size in (page.document, *page.objects)]

    def client(self, parameters: HttperfParameters, context: Context) -> Task:
        """httperf; the script is written first, where it runs."""
        # Without --hog: with it httperf takes ports itself, from the first on, whatever server they
        # go to. A client lives as long as the run and meets every environment, and ports of trials
        # before are taken for a minute: when all are, it looks for one without end and says
        # nothing. The kernel counts them for each server, and what it lacks is an error.
        argv = ["httperf", "--server", context.addresses["server"]]
        argv += ["--port", str(parameters.port), "--timeout", f"{parameters.timeout_s:.6f}"]
        if parameters.mode != "script":
            argv += ["--uri", f"/{int(parameters.document)}"]
        if parameters.rate is not None:
            argv += ["--rate", f"{parameters.rate:.6f}"]
        if parameters.mode == "rate":
            argv += [f"--num-conns={parameters.connections}", f"--num-calls={parameters.calls}"]
        elif parameters.mode == "sessions":
            counts = f"{parameters.sessions},{parameters.calls}"
            argv += [f"--wsess={counts},{parameters.think_s:.6f}"]
        else:
            argv += [f"--wsesslog={parameters.sessions},0,sessions.log", "--max-piped-calls=1"]
            argv += [f"--max-connections={SESSION_CONNECTIONS}"]
            place = (LOAD, "place", "--text", f"sessions.log={parameters.session_log()}", "--")
            argv = [*place, *argv]
        longest_s = 2 * parameters.nominal_s() + 10 * parameters.timeout_s
        return Task("client", tuple(argv), timeout_s=60.0 + longest_s)

    def check_client(self, parameters: HttperfParameters, outputs: Outputs) -> None:
        """Everything was asked and answered, with the right length, and without an error."""
        figures = _report(parameters, outputs)
        begun = figures["sessions_begun"] if parameters.mode != "rate" else figures["connections"]
        errors = figures["errors"]
        bad = figures["requests"] - figures["status_2xx"]
        if errors + bad > parameters.errors_allowed * parameters.requests:
            raise InvalidTrialError(
                f"{bad:.0f} bad or no replies; errors: {figures.kinds or 'none'}"
            )
        if not figures["replies"] or not figures["status_2xx"]:
            raise InvalidTrialError("there was no good reply")
        if errors == bad == 0:
            if (begun, figures["requests"]) != (parameters.begun, parameters.requests):
                raise InvalidTrialError(
                    f"asked for {parameters.begun} with {parameters.requests} requests, "
                    f"found {begun:.0f} with {figures['requests']:.0f}"
                )
            mean = parameters.bytes // parameters.requests  # as httperf divides
            if figures["content"] != mean:
                raise InvalidTrialError(
                    f"documents of {mean} bytes in the mean were asked for, "
                    f"{figures['content']} came"
                )
        if figures["duration"] <= 0 or figures["duration"] < 0.9 * parameters.nominal_s() - 0.5:
            raise InvalidTrialError(f"it took {figures['duration']} s")

    def replies(self, parameters: HttperfParameters, outputs: Outputs) -> int:
        """Those with a good status."""
        return int(_report(parameters, outputs)["status_2xx"])

    def figures(self, parameters: HttperfParameters, outputs: Outputs) -> Figures:
        """Figures below httperf's resolution are left out."""
        printed = _report(parameters, outputs)
        good = printed["status_2xx"]
        figures: Figures = {
            "replies": good,
            "reply_rate": good / printed["duration"],
            "errors": printed["errors"],
        }
        times = {
            "client_cpu_per_reply": (printed["user_s"] + printed["system_s"]) / good,
            "reply_time": (printed["response_ms"] + printed["transfer_ms"]) / 1e3,
            "connect_time": printed["connect_ms"] / 1e3,
            "connection_time": printed["lifetime_ms"] / 1e3,
        }
        return figures | {name: time for name, time in times.items() if time > 0}

    def facts(self, parameters: HttperfParameters, outputs: Outputs) -> dict[str, str]:
        kinds = _report(parameters, outputs).kinds
        return super().facts(parameters, outputs) | ({"errors": kinds} if kinds else {})


def _report(parameters: HttperfParameters, outputs: Outputs) -> HttperfReport:
    return report(output_of(outputs, "client").stdout, sessions=parameters.mode != "rate")
