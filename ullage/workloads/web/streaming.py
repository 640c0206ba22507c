"""Workload `streaming`."""

from __future__ import annotations

import asyncio
import json
import math
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import Field, model_validator

from ullage.common.quantities import many
from ullage.host import binaries
from ullage.runs.records import Metric
from ullage.workloads import nginx, sources
from ullage.workloads.base import (
    Context,
    Figures,
    InvalidTrialError,
    Outputs,
    Parameters,
    Role,
    Task,
    Workload,
)
from ullage.workloads.output import output_of, quoted
from ullage.workloads.web import clip
from ullage.workloads.web import streaming_report as report
from ullage.workloads.web.streaming_report import Search, ViewersRequest, ViewersRun
from ullage.workloads.web.web_server import LOAD, PLACES, Served, read_served, server_task, www

# What kept a number of streams from being larger, as far as what was measured tells.
#
# Looked at is the step that was not sustained, for there the limit is: of a search the smallest, of
# a number that was given this one. What was used of a resource in it, over what there is of it,
# makes it the limit from these shares on:
#
# * the viewers' own CPU: 80 % of the CPU that they use most. From 90 % on a search has no figure.
# * the servers' CPUs: 80 % of those that they have, which is one for each process of NGINX, and no
#   more than this host has. A step has no CPU time of its own: it is that of all steps for each
#   byte, times the bytes that all viewers of this step want.
# * this host's CPUs: 80 % of all, by servers and viewers together.
# * the link: 85 % of what the plan says that it carries, by the video alone. Headers of Ethernet,
#   IP and TCP are 6 %, requests are not counted.
#
# Whatever is first in this list is said, as who is starved of it cannot use what comes after it.
# Otherwise none is found: a quota on a part of a CPU, a hypervisor, interrupts, other work on this
# host, a disk or a link of which the plan says nothing may have been it. Where a given number was
# sustained there was none.

FULL_CPU: Final = 0.8
FULL_LINK: Final = 0.85


def host_cpus() -> int:
    """CPUs of this host that we may use: servers and viewers are on it."""
    return len(os.sched_getaffinity(0))


def limit(
    result: Search | ViewersRun, servers: Sequence[Served], pace: int, link_bps: int | None
) -> str:
    """What was the limit, with its share, or `none found` with what was looked at.

    pace: bit/s that a viewer reads.
    """
    run, video_bytes = _unsustained(result)
    if run is None:
        return "none: all of the given number were sustained"
    moved_bps = min(run.bytes_per_s * 8, run.due * pace)
    used = sum(server.cpu_s for server in servers) / (video_bytes * 8) * moved_bps
    has = min(sum(max(1, server.processes - 1) for server in servers), host_cpus())
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


def _unsustained(result: Search | ViewersRun) -> tuple[ViewersRun | None, int]:
    """The step at the limit, if there was one, and the bytes of all steps."""
    if isinstance(result, ViewersRun):
        return (None if result.sustained else result), result.bytes
    above = result.above
    return (above.run if above else None), sum(step.run.bytes for step in result.steps)


FILM: Final = "film.mp4"
CONFIG: Final = "viewers.json"
PROBE: Final = 64
"""Bytes of the document by which a server shows that it is up."""

WATCHING: Final = "run-ended"
"""What the viewers say of one who was still watching at the end of a step, as all should."""

SPARE: Final = 64
"""Connections of a server beyond one for each viewer."""


class StreamingParameters(Parameters):
    """What is watched, from where, and by how many."""

    client: Literal["host", "second", "away"] = Field(
        "host",
        description="where the viewers are: a native place on the same bridge, a second instance, "
        "or one on the other node",
    )
    servers: Literal["one", "each"] = Field(
        "one",
        description="`each`: a server in every instance of the environment, among which the "
        "viewers are spread evenly",
    )
    port: int = Field(8080, ge=1, le=65_535, strict=True, description="TCP port of the servers")
    clip: Literal["bytes", "h264"] = Field(
        "bytes",
        description="`h264`: a moving test picture, made by the host's ffmpeg; `bytes`: as many "
        "bytes as it would have, the same in every run",
    )
    bitrate: int = Field(
        2_800_000, ge=100_000, le=10**9, strict=True, description="bit/s of the video"
    )
    sent: int | None = Field(
        None,
        ge=100_000,
        le=10**9,
        strict=True,
        exclude_if=lambda given: given is None,
        description="bit/s at which viewers read it, `bitrate` or more; absent: as it plays",
    )
    chunk: int = Field(
        131_072, ge=1024, le=1 << 26, strict=True, description="bytes of a viewer's request"
    )
    buffer_s: float = Field(
        1.0, ge=0, le=60, description="seconds of video that a viewer keeps ahead"
    )
    viewers: int | None = Field(
        None,
        ge=1,
        le=1_000_000,
        strict=True,
        description="only so many, and how they fare; absent: the largest number is looked for",
    )
    start: int = Field(
        16, ge=1, le=1_000_000, strict=True, description="viewers of the search's first step"
    )
    cap: int = Field(
        8192, ge=1, le=1_000_000, strict=True, description="no step of the search has more"
    )
    step_s: float = Field(
        10.0, ge=1, le=3600, description="seconds for which all of a step's viewers watch"
    )
    ramp_s: float = Field(1.0, ge=0.1, le=3600, description="seconds within which they come")
    resolution: float = Field(
        0.02, ge=0, le=0.5, description="the search ends when its bracket is so narrow a part"
    )
    tries: int = Field(
        2,
        ge=1,
        le=10,
        strict=True,
        description="a number of viewers is given up when it was not sustained so often in a row: "
        "a moment in which the machine stood still is not the servers' limit",
    )
    late_limit_s: float = Field(
        0.01,
        gt=0,
        le=60,
        description="the viewers may themselves be so late, in seconds, with one request in a "
        "hundred; beyond it there is no figure",
    )

    link: int | None = Field(
        None,
        ge=100_000,
        le=10**12,
        strict=True,
        description="bit/s that the network between servers and viewers carries, where it is known",
    )

    @model_validator(mode="after")
    def _possible(self) -> StreamingParameters:
        if self.start > self.cap:
            raise ValueError(f"start is {self.start}, and cap only {self.cap}")
        if self.pace < self.bitrate:
            raise ValueError(
                f"sent is {self.sent}, and the video plays {self.bitrate} bit/s: who watched it "
                "would have to wait"
            )
        if self.step_s <= self.first_s:
            raise ValueError(
                f"step_s must be longer than the {self.first_s:g} s of video that come before the "
                "picture starts"
            )
        return self

    @property
    def pace(self) -> int:
        """Bit/s that a viewer reads."""
        return self.sent or self.bitrate

    @property
    def first_s(self) -> float:
        """Seconds of video that a viewer has before the picture starts: whole requests."""
        chunk_s = self.chunk * 8 / self.bitrate
        return max(1, math.ceil(self.buffer_s / chunk_s)) * chunk_s

    @property
    def length_s(self) -> float:
        """Seconds of video: nobody has read all of it within a step."""
        return (self.ramp_s + self.step_s) * self.pace / self.bitrate + self.first_s + 1

    @property
    def request(self) -> ViewersRequest:
        """What the viewers are told."""
        video_bytes = math.ceil(self.length_s * self.bitrate / 8)
        fixed = (self.start, self.cap, self.step_s, self.ramp_s, self.resolution, self.tries)
        return ViewersRequest(*fixed, self.bitrate, video_bytes)


class Streaming(Workload[StreamingParameters]):
    """Viewers of a video that NGINX sustains before a picture stands still (`ullage-viewers`).

    NGINX hands out one clip over HTTP. Viewers read it at its rate with Range requests, open loop,
    and keep `buffer_s` ahead, or read it faster than it plays (`sent`) and have more and more; a
    chunk that is not there when playing comes to it is a violation.
    Each step is so many viewers, who come within `ramp_s` and all watch for `step_s`; it is
    sustained when all played and nobody had a violation. The number is doubled from `start` until a
    step is not, then the bracket is halved; a number is given up after `tries` steps in a row, as
    the fact `steps` tells. A server that is only a little too slow empties a buffer slowly: steps
    should be several times as long as `buffer_s`. A step in which no picture stood still, as they
    began too late for that, is not sustained either, and makes a trial with `viewers` invalid. How
    viewers work, and how exactly: docs/guide/elastic-viewers.md.

    A search whose end says nothing of the servers has no figure, and its trial says what was the
    limit: `cap`, or the viewers' own lateness or CPU. With `viewers` one step of so many is made,
    and a violation is a result.

    The fact `limit` says what kept the number from being larger, by what was used in the smallest
    step that was not sustained: the viewers' own CPU (80 % of the one that they use most), the
    servers' CPUs (80 % of those that they have), all CPUs of this host (80 %, by servers and
    viewers together), or the link (85 % of `link`, by the video alone). The first of these that was
    full is named. `none found`, with the shares, is no proof that there was none: it may have been
    a quota, a hypervisor, interrupts, other work on this host, or a link of which the plan says
    nothing.

    The clip is made once on this host, and all environments get the same file. Nobody decodes it:
    NGINX does the same for `bytes` as for `h264`. Each instance has one process of NGINX for each
    of its CPUs, and room for `cap` connections in every process.
    """

    name = "streaming"
    resource = "network"
    packages = ("nginx",)
    source = (
        sources.ELASTIC_CLOCK,
        "NGINX 1.22: <https://nginx.org/en/docs/>",
    )
    parameters_model = StreamingParameters
    metrics = (
        Metric(
            name="viewers",
            unit="1",
            better="higher",
            primary=True,
            description="The largest number of viewers of whom all played and none had a "
            "violation. Where `viewers` is given: how many of these played without one.",
        ),
        Metric(
            name="rate",
            unit="bit/s",
            better="higher",
            description="Video that came to all of them together in a second of that step, from "
            "its start: while they come, fewer read, but they fill their buffers.",
        ),
        Metric(
            name="server_cpu_per_stream",
            unit="1",
            better="lower",
            description="CPUs that the servers' processes, theirs and the kernel's for them, used "
            "for each viewer: CPU time of all steps over the seconds for which what came in them "
            "is sent, at `sent` or as it plays. "
            "As the instances' kernels count it: not that of a hypervisor or of interrupts.",
        ),
        Metric(
            name="server_cpus",
            unit="1",
            better="lower",
            description="The same for all viewers of the figure's step who played; see the fact "
            "`limit` for what was the limit.",
        ),
        Metric(
            name="affected",
            unit="1",
            better="lower",
            description="Share of the viewers that had a violation. Only where `viewers` is given.",
        ),
        Metric(
            name="violation_max",
            unit="s",
            better="lower",
            description="The longest that a picture stood still. Only where `viewers` is given and "
            "there was a violation.",
        ),
    )

    def programs(self, parameters: StreamingParameters) -> Mapping[str, str]:
        return {"nginx": "nginx"}

    def roles(self, parameters: StreamingParameters) -> Sequence[Role]:
        """The server in the instance or in each, the viewers where they were asked for."""
        server = Role("server", "instance" if parameters.servers == "one" else "each")
        return server, Role("client", parameters.client)

    def files(self, parameters: StreamingParameters) -> Mapping[str, Path]:
        programs = {name: binaries.program(name) for name in ("ullage-load", "ullage-viewers")}
        return {**programs, FILM: _film(parameters)}

    def title(self, parameters: StreamingParameters) -> str:
        """`streaming of each: most viewers, the host`."""
        viewers = parameters.viewers
        audience = "most viewers" if viewers is None else many(viewers, "viewer")
        servers = " of each" if parameters.servers == "each" else ""
        return f"streaming{servers}: {audience}, {PLACES[parameters.client]}"

    def duration_s(self, parameters: StreamingParameters) -> float:
        """A step, or as many as a search makes that ends half way to the cap."""
        step_s = parameters.ramp_s + parameters.step_s + 0.5
        if parameters.viewers is not None:
            return 1.0 + step_s
        doublings = 1 + math.log2(parameters.cap / parameters.start) / 2
        halvings = math.log2(1 / max(parameters.resolution, 1 / parameters.cap))
        # Each second halving is not sustained, and the last doubling.
        return 1.0 + step_s * (doublings + halvings + (parameters.tries - 1) * (1 + halvings / 2))

    def prepare(self, parameters: StreamingParameters, context: Context) -> Sequence[Task]:
        tasks: list[Task] = []
        most = parameters.viewers or parameters.cap
        text = www(parameters.port, context.cpus, most + SPARE)
        place = (LOAD, "place", "--text", f"server.conf={text}", "--document")
        for role in context.members("server"):
            tasks.append(Task(role, (*place, f"www/{PROBE}={PROBE}")))
            tasks.append(Task(role, ("ln", "-f", FILM, f"www/{FILM}")))
        return tasks

    def tasks(self, parameters: StreamingParameters, context: Context) -> Sequence[Task]:
        """The servers, which are ready when they answer, and the viewers."""
        timeout_s = 120.0 + 4 * self.duration_s(parameters)
        servers = [
            server_task(role, f"{address}:{parameters.port}", PROBE, nginx.ARGV, 60.0 + timeout_s)
            for role, address in _servers(context)
        ]
        mode = "search" if parameters.viewers is None else "run"
        config = json.dumps(_config(parameters, context))
        argv = (LOAD, "place", "--text", f"{CONFIG}={config}", "--")
        viewers = ("./ullage-viewers", mode, "--config", CONFIG)
        return (*servers, Task("client", (*argv, *viewers), timeout_s=timeout_s))

    def check(self, parameters: StreamingParameters, outputs: Outputs) -> None:
        """The servers served to the end, and the viewers did as asked and have a figure."""
        _served(outputs)
        _read(parameters, outputs)

    def parse(self, parameters: StreamingParameters, outputs: Outputs) -> Figures:
        result = _read(parameters, outputs)
        figures: Figures = {}
        if isinstance(result, Search):
            run, all_bytes = result.at_figure, sum(step.run.bytes for step in result.steps)
            figures["viewers"] = float(result.lower)
        else:
            run, all_bytes = result, result.bytes
            figures["viewers"] = float(run.clean)
            figures["affected"] = run.violations.viewers / run.due
            if "max" in run.violations.length_s and run.violations.count:
                figures["violation_max"] = run.violations.length_s["max"]
        cpu_s = sum(server.cpu_s for server in _served(outputs))
        per_stream = cpu_s / (all_bytes * 8 / parameters.pace)
        figures["rate"] = run.bytes_per_s * 8
        figures["server_cpu_per_stream"] = per_stream
        figures["server_cpus"] = per_stream * run.most_playing
        return figures

    def facts(self, parameters: StreamingParameters, outputs: Outputs) -> dict[str, str]:
        result = _read(parameters, outputs)
        servers = _served(outputs)
        facts = {
            "server": servers[0].name,
            "clip": parameters.clip,
            "limit": limit(result, servers, parameters.pace, parameters.link),
        }
        if isinstance(result, ViewersRun):
            return {**facts, **_losses(result)}
        verdicts = (f"{step.viewers} {step.verdict.kind}" for step in result.steps)
        facts["steps"] = ", ".join(verdicts)[:400]
        if result.above is not None:
            facts["not_sustained"] = quoted(result.above.verdict.because, 200)
            facts |= _losses(result.above.run)
        return facts


def _losses(run: ViewersRun) -> dict[str, str]:
    """How busy the viewers' machine was, and why viewers were lost."""
    facts = {"viewers_cpu": f"{run.cpu_share:.2f} of one CPU"}
    lost = {why: count for why, count in run.whys.items() if why != WATCHING}
    if lost:
        causes = (f"{quoted(why, 40)} {count}" for why, count in sorted(lost.items()))
        facts["lost"] = ", ".join(causes)[:200]
    return facts


def _film(parameters: StreamingParameters) -> Path:
    """The clip, from the cache; a little longer than what is watched of it."""

    async def make() -> clip.Clip:
        length_s, bitrate = 1.1 * parameters.length_s + 2, float(parameters.bitrate)
        return await clip.make(length_s, bitrate, parameters.clip, lambda _: None)

    # The caller may be in an event loop of its own, which this has to stop meanwhile.
    with ThreadPoolExecutor(1) as another:
        return another.submit(asyncio.run, make()).result().file


def _servers(context: Context) -> list[tuple[str, str]]:
    return [(role, context.addresses[role]) for role in context.members("server")]


def _config(parameters: StreamingParameters, context: Context) -> dict[str, Any]:
    request = parameters.request
    config: dict[str, Any] = {
        "nodes": [f"http://{at}:{parameters.port}/{FILM}" for _, at in _servers(context)],
        "video": {
            "bytes": request.video_bytes,
            "bitrate_bps": parameters.bitrate,
            **({} if parameters.sent is None else {"sent_bps": parameters.sent}),
            "chunk_bytes": parameters.chunk,
        },
        "playback": {"buffer_s": parameters.buffer_s},
        "lateness_limit_ms": parameters.late_limit_s * 1000,
    }
    if parameters.viewers is None:
        fields = ("start", "cap", "step_s", "ramp_s", "resolution", "tries")
        return {**config, "search": {name: getattr(request, name) for name in fields}}
    rate_hz = parameters.viewers / request.ramp_s
    config["arrivals"] = {"kind": "uniform", "rate_hz": rate_hz, "count": parameters.viewers}
    return {**config, "limits": {"run_s": request.ramp_s + request.step_s}}


def _served(outputs: Outputs) -> list[Served]:
    roles = [role for role in outputs if role != "client"]
    if not roles:
        raise InvalidTrialError("there is no output of server")
    return [read_served("nginx", outputs, role) for role in roles]


def _read(parameters: StreamingParameters, outputs: Outputs) -> Search | ViewersRun:
    """The viewers' report: 1 is their status when they have no figure, and they say why."""
    output = outputs.get("client")
    without = output is not None and output.status == 1 and output.stdout.startswith("{")
    text = output_of(outputs, "client", 1 if without else 0).stdout
    if parameters.viewers is not None:
        run = report.read_run(parameters.request, parameters.viewers, text)
        if run.bytes == 0:
            raise InvalidTrialError("not a byte of video came")
        return run
    return report.read_search(parameters.request, text)
