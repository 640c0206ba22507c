"""What the web workloads share: the real server in the instance, and what it used meanwhile.

Both servers get a configuration of our own in the workspace: the image is read-only, and Debian's
defaults differ between the two. They listen on all addresses, write no access log, keep
connections, use `sendfile`, and have one process for each CPU of the instance. `ullage-load serve`
starts the server in the foreground, says when it hands out a document of the right length, and at
the end what its processes used in between (`clock_getcpuclockid` of each, so to the nanosecond).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import Field

from ullage.host import binaries
from ullage.runs.records import Metric
from ullage.workloads import nginx
from ullage.workloads.base import (
    OTHER_NODE,
    Context,
    Figures,
    InvalidTrialError,
    Outputs,
    Parameters,
    Role,
    Task,
    Workload,
)
from ullage.workloads.output import LONGEST, ReportPart, output_of, quoted, read

LOAD = "./ullage-load"
"""Our own program, as it lies in every workspace."""

WORKER_CONNECTIONS = 4096
"""Of one process of a server: all that the clients here may open could come to the same one."""

THREADS = 64
"""Of one process of Apache; they only work on requests, a listener keeps idle connections."""

SLACK_S = 0.02
"""Two accounts of the same CPU time may differ by so much, and by 1 %: ticks and roundings."""

SERVER_CPU = Metric(
    name="server_cpu_per_reply",
    unit="s",
    better="lower",
    description="CPU time of the server's processes, theirs and the kernel's for them, from when "
    "it first answered until it was told to end, over the replies. As the instance's kernel counts "
    "it: not that of a hypervisor or of interrupts.",
    part=True,
)

PLACES = {"host": "the host", "second": "a second instance", "away": f"an instance on {OTHER_NODE}"}


HttpServer = Literal["nginx", "apache2"]


class WebParameters(Parameters):
    """Which server, and where its clients are."""

    server: HttpServer = Field(
        "nginx", description="the server in the instance: NGINX, or Apache with `mpm_event`"
    )
    client: Literal["host", "second", "away"] = Field(
        "host",
        description="where the clients are: a native place on the same bridge, a second instance, "
        "or one on the other node",
    )
    port: int = Field(8080, ge=1, le=65_535, strict=True, description="TCP port of the server")


class _Listening(ReportPart):
    listening: Literal[True]
    server: str | None


class _Used(ReportPart):
    serving_cpu_s: float = Field(gt=0, lt=1e9)
    total_cpu_s: float = Field(gt=0, lt=1e9)
    processes: int = Field(ge=1, lt=1 << 22)


@dataclass(frozen=True)
class Served:
    """What a server's minder told of it."""

    name: str
    """What the server calls itself."""
    cpu_s: float
    """CPU time of its processes while it served."""
    processes: int
    """The one that minds the others too."""


W = TypeVar("W", bound=WebParameters)


class Web(Workload[W]):
    """A server in the instance, and one client program somewhere."""

    resource = "network"

    @abstractmethod
    def documents(self, parameters: W) -> Sequence[int]:
        """Lengths in bytes of the documents that are asked for: `/1024` has 1,024 random bytes."""

    @abstractmethod
    def client(self, parameters: W, context: Context) -> Task:
        """What makes the requests."""

    @abstractmethod
    def replies(self, parameters: W, outputs: Outputs) -> int:
        """How many good replies the client's checked output tells of."""

    @abstractmethod
    def check_client(self, parameters: W, outputs: Outputs) -> None:
        """Raise InvalidTrialError unless the client did what it was asked for."""

    @abstractmethod
    def figures(self, parameters: W, outputs: Outputs) -> Figures:
        """The client's figures."""

    def programs(self, parameters: W) -> Mapping[str, str]:
        return {parameters.server: parameters.server}

    def roles(self, parameters: W) -> Sequence[Role]:
        """The server in the instance, the client where it was asked for."""
        return Role("server"), Role("client", parameters.client)

    def files(self, parameters: W) -> Mapping[str, Path]:
        return {"ullage-load": binaries.program("ullage-load")}

    def prepare(self, parameters: W, context: Context) -> Sequence[Task]:
        argv = [LOAD, "place", "--text", f"server.conf={_configuration(parameters, context)}"]
        for length in sorted(set(self.documents(parameters))):
            argv += ["--document", f"www/{length}={length}"]
        return (Task("server", tuple(argv)),)

    def tasks(self, parameters: W, context: Context) -> Sequence[Task]:
        """The server, which is ready when it answers, and the client."""
        client = self.client(parameters, context)
        length = self.documents(parameters)[0]
        address = f"{context.addresses['server']}:{parameters.port}"
        argv = _argv(parameters, context)
        return server_task("server", address, length, argv, 60.0 + client.timeout_s), client

    def check(self, parameters: W, outputs: Outputs) -> None:
        """The client did as asked, and the server served until it was told to end."""
        self.check_client(parameters, outputs)
        read_served(parameters.server, outputs)

    def parse(self, parameters: W, outputs: Outputs) -> Figures:
        cpu_s = read_served(parameters.server, outputs).cpu_s
        replies = self.replies(parameters, outputs)
        return {
            **self.figures(parameters, outputs),
            SERVER_CPU.name: cpu_s / replies,
        }

    def facts(self, parameters: W, outputs: Outputs) -> dict[str, str]:
        return {"server": read_served(parameters.server, outputs).name}


def server_task(
    role: str, address: str, length: int, argv: Sequence[str], timeout_s: float
) -> Task:
    """The server of that argv, ready when it hands out `/LENGTH`, which has so many bytes."""
    minder = [LOAD, "serve", "--address", address]
    minder += ["--path", f"/{length}", "--bytes", str(length), "--"]
    return Task(
        role, (*minder, *argv), service=True, ready='{"listening":true', timeout_s=timeout_s
    )


def read_served(server: HttpServer, outputs: Outputs, role: str = "server") -> Served:
    """What the server's minder said, which must be of that server and agree with the agent."""
    output = output_of(outputs, role)
    lines = output.stdout[: LONGEST + 1].split("\n")
    if len(lines) != 3 or lines[2]:
        raise InvalidTrialError(f"{role}: two lines were expected, found {quoted(output.stdout)}")
    name = read(_Listening, lines[0], role).server or ""
    used = read(_Used, lines[1], role)
    if not name.startswith({"nginx": "nginx/", "apache2": "Apache/"}[server]):
        raise InvalidTrialError(f"{role}: it calls itself {quoted(name)}")
    most = used.total_cpu_s if output.cpu_s is None else min(used.total_cpu_s, output.cpu_s)
    if used.serving_cpu_s > most * 1.01 + SLACK_S:
        raise InvalidTrialError(
            f"{role}: {used.serving_cpu_s} s of CPU time while it served, {most} s in all"
        )
    return Served(name[:80], used.serving_cpu_s, used.processes)


def _argv(parameters: WebParameters, context: Context) -> tuple[str, ...]:
    """The server in the foreground."""
    if parameters.server == "nginx":
        return nginx.ARGV
    # Apache hands nothing out as root, and what lies here may be root's alone: it starts as
    # another user, who may pass over that, and may have port 80.
    may = "-all,+dac_override,+net_bind_service"
    user = ["setpriv", "--reuid=www-data", "--regid=www-data", "--clear-groups"]
    user += [f"--inh-caps={may}", f"--ambient-caps={may}"]
    root = context.workspace
    return (*user, "apache2", "-DFOREGROUND", "-d", root, "-f", f"{root}/server.conf")


def _configuration(parameters: WebParameters, context: Context) -> str:
    make = www if parameters.server == "nginx" else _apache
    return make(parameters.port, context.cpus)


def www(port: int, processes: int, connections: int = WORKER_CONNECTIONS) -> str:
    """NGINX's configuration that serves `www`, for so many connections of one process."""
    return nginx.configuration(port, ("root www;",), processes=processes, connections=connections)


def _apache(port: int, processes: int) -> str:
    """https://httpd.apache.org/docs/2.4/mod/event.html; paths are relative to `-d`."""
    threads = processes * THREADS
    modules = "/usr/lib/apache2/modules"
    return f"""\
ServerName ullage
LoadModule mpm_event_module {modules}/mod_mpm_event.so
LoadModule authz_core_module {modules}/mod_authz_core.so
PidFile server.pid
ErrorLog /proc/self/fd/2
LogLevel crit
Listen 0.0.0.0:{port}
ListenBacklog {WORKER_CONNECTIONS}
StartServers {processes}
ServerLimit {processes}
ThreadsPerChild {THREADS}
MaxRequestWorkers {threads}
MinSpareThreads 1
MaxSpareThreads {threads}
MaxConnectionsPerChild 0
AsyncRequestWorkerFactor {WORKER_CONNECTIONS // THREADS}
KeepAlive On
MaxKeepAliveRequests 0
KeepAliveTimeout 3600
EnableSendfile On
DocumentRoot www
<Directory />
  Require all granted
</Directory>
"""
