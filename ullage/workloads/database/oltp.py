"""Workload `oltp`."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from ullage.runs.records import Metric
from ullage.workloads import sources
from ullage.workloads.base import (
    OTHER_NODE,
    Context,
    Figures,
    InvalidTrialError,
    Outputs,
    Role,
    Task,
    Workload,
    counted,
)
from ullage.workloads.database import oltp_report, oltp_servers
from ullage.workloads.database.oltp_parameters import OltpParameters
from ullage.workloads.database.oltp_report import OltpResult
from ullage.workloads.database.oltp_servers import SERVERS
from ullage.workloads.output import QUANTILE, output_of, quoted

FILES: Final = {name: Path(__file__).resolve().with_name(name) for name in ("oltp.lua", "oltp.sh")}

PASSWORD: Final = secrets.token_hex(16)
"""Of the database's user, new each time that ullage starts, as all instances are: a seed stands in
the run folder, and what follows from it would not be secret."""

_FATAL: Final = re.compile(r"^FATAL: ([^\n]+)", re.MULTILINE)


STATEMENTS: Final = {
    "reads": "read",
    "writes": "changed rows",
    "other": "did neither (BEGIN, COMMIT, an update of nothing)",
}
"""As sysbench counts them: kind → what they do."""


class Oltp(Workload[OltpParameters]):
    """Transactions on MariaDB or PostgreSQL (`sysbench oltp_*`).

    Each trial starts the server on the tables that were made once, lets sysbench's threads do
    transactions one after another, first for `warmup_s`, then measured for `time_s` or for a number
    of `events`, and ends the server in order. The tests and their mix are sysbench's own, see
    `/usr/share/sysbench/oltp_*.lua`. The mix of `flash-energy` (2012, of [the
    studies](../../guide/studies.md)), 400 clients and 1,000 requests, is `{threads: 400, events:
    1000, index_updates: 25, distinct_ranges: 25, sum_ranges: 25}`, there with about 18 deadlocks to
    a commit.

    MariaDB takes `io_uring` to the disk where the environment lets it, else `libaio`: containers
    filter that system call, so that it is a part of what they cost, and the facts name it. Commits
    are flushed to the disk unless `commits` says otherwise; all other settings are the servers'
    defaults but for addresses, the number of connections and the cache of pages. Those stand in the
    argv of each trial. The isolation is each server's default (MariaDB: repeatable read,
    PostgreSQL: read committed), so that the two are not to be compared by it. MariaDB finds a
    deadlock at once; PostgreSQL after `deadlock_timeout_ms`, and those who wait for its rows wait
    as long: in trials of a few seconds a single one shows in every figure. The server runs as
    `nobody`, listens on one address of the run's network, with `client: same` and one server at a
    local socket alone, and lets one user in, from there only, with a password that is new in each
    run.

    MariaDB keeps about 20 KiB for each prepared statement, of which sysbench makes up to 9 for each
    thread and table: 400 threads on 10 tables need 0.7 GiB beside the cache of pages.

    With `servers: each`, sysbench gives its connections to the servers in turn (`--mysql-host=a,b`:
    in the order of connecting, one for each thread), so that their numbers differ by one at most; a
    transaction stays on one server; with `client: same` sysbench stands in the first instance and
    reaches all of them by TCP, its own too. Rows change from trial to trial, equally in all
    environments. A trial in which a server said that its disk was full has no figures, whatever
    sysbench did.
    """

    name = "oltp"
    resource = "other"
    packages = ("mariadb-client-core", "mariadb-server-core", "postgresql-15", "sysbench")
    source = (
        sources.SYSBENCH,
        "MariaDB 10.11: <https://mariadb.com/kb/en/documentation/>",
        "PostgreSQL 15: <https://www.postgresql.org/docs/15/>",
        sources.FLASH_ENERGY,
    )
    parameters_model = OltpParameters
    scaling = ("threads",)
    metrics = (
        Metric(
            name="transactions_per_second",
            unit="1/s",
            better="higher",
            primary=True,
            description="Transactions done in a second, by all threads.",
        ),
        Metric(
            name="queries_per_second",
            unit="1/s",
            better="higher",
            description="Statements done in a second, BEGIN, COMMIT and those of transactions that "
            "were begun anew included.",
        ),
        Metric(
            name="latency",
            unit="s",
            better="lower",
            description="Time of a transaction, from its first try to its commit, by the share of "
            "transactions that took no longer: of sysbench's histogram, in steps of 1.8 %, and "
            "from 100 s on of single times.",
            coordinate=QUANTILE,
        ),
        Metric(
            name="latency_min_s",
            unit="s",
            better="lower",
            description="Time of the shortest transaction.",
        ),
        Metric(
            name="latency_avg_s",
            unit="s",
            better="lower",
            description="Mean time of a transaction.",
        ),
        Metric(
            name="latency_p95_s",
            unit="s",
            better="lower",
            description="95 % of the transactions took at most this long. From 100 s on, where "
            "sysbench's histogram ends, of the times that its script tells one by one.",
        ),
        Metric(
            name="latency_max_s",
            unit="s",
            better="lower",
            description="Time of the longest transaction.",
        ),
        Metric(
            name="deadlocks",
            unit="1",
            better="lower",
            description="Deadlocks for each transaction done, in the warm-up too: the server ended "
            "one of those that waited for each other, and sysbench began it anew.",
        ),
        Metric(
            name="restarts",
            unit="1",
            better="lower",
            description="Transactions begun anew for each that was done: for a deadlock, a lock "
            "that was waited for too long (MariaDB: 50 s) or, with PostgreSQL, a row that another "
            "had just inserted. The facts tell them apart by SQLSTATE.",
        ),
        *(
            Metric(
                name=f"{kind}_per_transaction",
                unit="1",
                better="lower",
                description=f"Statements that {do} for each transaction done, those of "
                "transactions that were begun anew included.",
            )
            for kind, do in STATEMENTS.items()
        ),
        Metric(
            name="server_cpu_per_transaction",
            unit="s",
            better="lower",
            description="CPU time of the servers from start to end, for each transaction done, in "
            "the warm-up too. In trials of a few seconds, starting and ending are a part of it.",
        ),
        Metric(
            name="total_time_s",
            unit="s",
            better="lower",
            description="Time that all events took. Absent when the length was set by `time_s`.",
        ),
    )

    def programs(self, parameters: OltpParameters) -> Mapping[str, str]:
        servers = SERVERS[parameters.database].programs
        return {**servers, "setpriv": "util-linux", "sysbench": "sysbench"}

    def roles(self, parameters: OltpParameters) -> Sequence[Role]:
        """The server in the instance or in each, the client where it was asked for."""
        server = Role("server", "instance" if parameters.servers == "one" else "each")
        if parameters.client == "same":
            return server, Role("client")
        return server, Role("client", parameters.client)

    def files(self, parameters: OltpParameters) -> Mapping[str, Path]:
        return FILES

    def title(self, parameters: OltpParameters) -> str:
        """`MariaDB read_write, 4 threads on the host`."""
        places = {
            "host": "on the host",
            "second": "in a second instance",
            "away": f"on {OTHER_NODE}",
            "same": "beside it" if _at_socket(parameters) else "in the first",
        }
        servers = " in each" if parameters.servers == "each" else ""
        return (
            f"{SERVERS[parameters.database].title}{servers} {parameters.test}, "
            f"{counted(parameters.threads, 'thread')} {places[parameters.client]}"
        )

    def duration_s(self, parameters: OltpParameters) -> float:
        """The times given and the server's start and end; events at 200 a second."""
        if parameters.events is not None:
            return 2.0 + parameters.events / 200
        return 2.0 + parameters.warmup_s + (parameters.time_s or 0)

    def prepare(self, parameters: OltpParameters, context: Context) -> Sequence[Task]:
        """A database of its own for each server, and sysbench's tables in it."""
        tasks: list[Task] = []
        for role in context.members("server"):
            settings = _settings(parameters, context, role)
            server = SERVERS[parameters.database]
            subnet = _subnet(settings)
            make = ["./oltp.sh", "make", parameters.database, settings.directory, subnet]
            fill = ["./oltp.sh", "fill", server.driver, str(settings.port)]
            fill += [oltp_servers.socket_option(parameters.database), str(parameters.tables)]
            fill += [str(parameters.table_size), _seed(context)]
            fill += [str(server.stop_signal), server.ready, *oltp_servers.command(settings)]
            env = _environment(parameters)
            tasks += [Task(role, tuple(argv), env=env, timeout_s=86_400) for argv in (make, fill)]
        return tasks

    def tasks(self, parameters: OltpParameters, context: Context) -> Sequence[Task]:
        server = SERVERS[parameters.database]
        timeout_s = 600.0 + 20 * self.duration_s(parameters)
        services = [
            Task(
                role,
                oltp_servers.command(_settings(parameters, context, role)),
                service=True,
                ready=server.ready,
                ready_s=300,
                stop_signal=server.stop_signal,
                stop_s=300,
                timeout_s=timeout_s,
            )
            for role in context.members("server")
        ]
        return (
            *services,
            Task(
                "client",
                self._client(parameters, context),
                env=_environment(parameters),
                timeout_s=timeout_s,
            ),
        )

    def _client(self, parameters: OltpParameters, context: Context) -> tuple[str, ...]:
        driver = SERVERS[parameters.database].driver
        hosts = ",".join(context.addresses[role] for role in context.members("server"))
        argv = ["./oltp.sh", "run", driver, f"--{driver}-port={parameters.port}"]
        if _at_socket(parameters):
            argv += [oltp_servers.socket_option(parameters.database)]
        else:
            argv += [f"--{driver}-host={hosts}"]
        argv += [f"--threads={parameters.threads}", f"--rand-seed={_seed(context)}"]
        argv += [f"--rand-type={parameters.distribution}", "--percentile=95", "--histogram=on"]
        argv += [
            f"--{name.replace('_', '-')}={value}" for name, value in oltp_report.options(parameters)
        ]
        if parameters.events is not None:
            return (*argv, f"--events={parameters.events}", "--time=0", "run")
        if parameters.warmup_s:
            argv += [f"--report-checkpoints={parameters.warmup_s}"]
        time_s = parameters.warmup_s + (parameters.time_s or 0)
        return (*argv, "--events=0", f"--time={time_s}", "run")

    def check(self, parameters: OltpParameters, outputs: Outputs) -> None:
        """All ended well, and sysbench did the transactions that were asked for, whole.

        Transactions that are begun anew are part of the work; any other error has ended sysbench.
        """
        servers = _servers(outputs)
        for role in servers:  # first: the client only complains that it is gone
            if role in outputs and (full := oltp_servers.disk_full(outputs[role].stderr)):
                raise InvalidTrialError(f"the disk of {role} is full: {quoted(full, 300)}")
            oltp_servers.version(parameters.database, output_of(outputs, role).stderr)
        if "client" in outputs and (fatal := _FATAL.findall(outputs["client"].stdout)):
            # The first is what failed, the second mostly why.
            raise InvalidTrialError(f"sysbench: {quoted('; '.join(fatal[:2]), 300)}")
        output = output_of(outputs, "client")
        if output.stderr.strip():
            raise InvalidTrialError(f"sysbench complained: {quoted(output.stderr.strip())}")
        if len(servers) > parameters.threads:
            raise InvalidTrialError(
                f"{counted(parameters.threads, 'thread')} for {len(servers)} servers: "
                "some had nothing to do"
            )
        result = _read(parameters, outputs)
        oltp_report.check_histogram(result, parameters.threads)
        cut = result.warmup is not None
        if result.warmup is not None:
            oltp_report.check_echoed(parameters, result.warmup)
            oltp_report.check_counts(parameters, result.warmup, cut=cut)
        oltp_report.check_echoed(parameters, result.report)
        if result.report.counts.events == 0:
            raise InvalidTrialError("no transaction was done")
        oltp_report.check_counts(parameters, result.report, cut=cut)
        oltp_report.check_times(result.report, parameters.threads, cut=cut)
        oltp_report.check_work(parameters, result)

    def parse(self, parameters: OltpParameters, outputs: Outputs) -> Figures:
        result = _read(parameters, outputs)
        counts, seconds = result.report.counts, result.report.seconds
        deadlocks = result.restarts.get(SERVERS[parameters.database].deadlock, 0)
        figures: Figures = {
            "transactions_per_second": counts.events / seconds.time_interval,
            "queries_per_second": counts.queries / seconds.time_interval,
            "latency_min_s": seconds.latency_min,
            "latency_avg_s": seconds.latency_avg,
            "latency_max_s": seconds.latency_max,
            "deadlocks": deadlocks / result.transactions,
            "restarts": counts.errors / counts.events,
            "reads_per_transaction": counts.reads / counts.events,
            "writes_per_transaction": counts.writes / counts.events,
            "other_per_transaction": counts.other / counts.events,
        }
        if latency := oltp_report.curve(result):
            figures["latency"] = latency
        if oltp_report.within_histogram(seconds.latency_pct):
            figures["latency_p95_s"] = seconds.latency_pct
        elif (longer := oltp_report.beyond(result, 0.95)) is not None:
            figures["latency_p95_s"] = longer
        used = [outputs[role].cpu_s for role in _servers(outputs)]
        if None not in used:
            figures["server_cpu_per_transaction"] = sum(filter(None, used)) / result.transactions
        if parameters.events is not None:
            figures["total_time_s"] = seconds.time_interval
        return figures

    def facts(self, parameters: OltpParameters, outputs: Outputs) -> dict[str, str]:
        result = _read(parameters, outputs)
        first = outputs[_servers(outputs)[0]]
        facts = {
            "version": result.version,
            "server": oltp_servers.version(parameters.database, first.stderr),
        }
        if path := oltp_servers.disk_path(first.stderr):
            facts["disk_by"] = path
        if result.restarts:
            counts = (f"{state}: {count}" for state, count in sorted(result.restarts.items()))
            facts["restarts_by_sqlstate"] = ", ".join(counts)[:200]
        return facts


def _settings(
    parameters: OltpParameters, context: Context, role: str
) -> oltp_servers.ServerSettings:
    statements = oltp_servers.STATEMENTS_PER_TABLE * parameters.tables + 2
    connections = parameters.threads + oltp_servers.SPARE_CONNECTIONS
    return oltp_servers.ServerSettings(
        database=parameters.database,
        address=None if _at_socket(parameters) else context.addresses[role],
        port=parameters.port,
        directory=f"{context.workspaces.get(role, context.workspace)}/{oltp_servers.DIRECTORY}",
        connections=connections,
        statements=connections * statements,
        memory_bytes=oltp_servers.cache_bytes(context, parameters.cache),
        commits=parameters.commits,
        deadlock_timeout_ms=parameters.deadlock_timeout_ms,
    )


def _at_socket(parameters: OltpParameters) -> bool:
    """The client reaches its one server without a network."""
    return parameters.client == "same" and parameters.servers == "one"


def _subnet(settings: oltp_servers.ServerSettings) -> str:
    address = settings.address
    return oltp_servers.subnet(settings.database, address) if address else ""


def _environment(parameters: OltpParameters) -> dict[str, str]:
    return {"OLTP_PASSWORD": PASSWORD, "OLTP_TEST": parameters.test}


def _seed(context: Context) -> str:
    return str(1 + context.seed % (2**31 - 2))


def _servers(outputs: Outputs) -> list[str]:
    return [role for role in outputs if role != "client"] or ["server"]


def _read(parameters: OltpParameters, outputs: Outputs) -> OltpResult:
    return oltp_report.read(outputs["client"].stdout, parameters.threads, parameters.warmup_s)
