"""The two database servers of the workload `oltp`: how each is run, and what it says of itself."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from ullage.workloads.base import Context, InvalidTrialError

Database = Literal["mariadb", "postgresql"]
Commits = Literal["durable", "deferred"]

MIB: Final = 1 << 20
DIRECTORY: Final = "database"
"""Of the server's data, in its workspace."""

_MARIADB_SOCKET: Final = "mariadb.sock"
SPARE_CONNECTIONS: Final = 10
"""Beyond one for each thread: what a server keeps for its administrator, and some to spare."""

STATEMENTS_PER_TABLE: Final = 9
"""Kinds of statements that sysbench prepares for each table and thread (`oltp_common.lua`)."""

POSTGRESQL: Final = "/usr/lib/postgresql/15/bin/postgres"
AS_NOBODY: Final = ("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "--")
"""Both servers refuse root, or should; `nobody` is a user of every Debian system."""


_DISK_PATH: Final = re.compile(r"\bInnoDB: Using (io_uring|Linux native AIO)$", re.MULTILINE)


_FULL: Final = re.compile(
    r"No space left on device|failed with error 28\b|Errno: 28\b"
    r"|[Tt]he table '[^'\n]{1,64}' is full"
    r"|could not write init file"  # PostgreSQL, of each connection that it cannot take for it
)


@dataclass(frozen=True)
class DatabaseServer:
    """One kind of server, as the workload sees it."""

    title: str
    driver: Literal["mysql", "pgsql"]
    """What sysbench calls its driver, and what its options begin with."""
    ready: str
    """It logs this once it accepts connections."""
    stop_signal: int
    """It ends in order: no new connections, then its data written."""
    deadlock: str
    """SQLSTATE of a deadlock."""
    version: re.Pattern[str]
    """Of the line of the log that tells it."""
    programs: Mapping[str, str]
    """What it needs → the Debian package that holds it."""


SERVERS: Final[dict[Database, DatabaseServer]] = {
    "mariadb": DatabaseServer(
        "MariaDB",
        "mysql",
        "mariadbd: ready for connections.",
        15,
        "40001",
        re.compile(r"^[^\n]{0,60}Starting MariaDB ([0-9][\w.+~-]{0,60}) ", re.ASCII | re.MULTILINE),
        {
            "mariadbd": "mariadb-server-core",
            "mariadb-install-db": "mariadb-server-core",
            "my_print_defaults": "mariadb-client-core",
        },
    ),
    "postgresql": DatabaseServer(
        "PostgreSQL",
        "pgsql",
        "database system is ready to accept connections",
        2,
        "40P01",
        re.compile(
            r"^[^\n]{0,60}starting PostgreSQL ([0-9][\w.+~-]{0,60}) ", re.ASCII | re.MULTILINE
        ),
        {POSTGRESQL: "postgresql-15"},
    ),
}


@dataclass(frozen=True)
class ServerSettings:
    """What a server is told, beside its own defaults."""

    database: Database
    address: str | None
    """Where it listens; None: at its socket alone, in its directory."""
    port: int
    directory: str
    """Its data, in the workspace."""
    connections: int
    statements: int
    """That all threads prepare."""
    memory_bytes: int
    """Of its cache of pages: InnoDB's buffer pool, PostgreSQL's shared buffers."""
    commits: Commits
    deadlock_timeout_ms: int


def command(settings: ServerSettings) -> tuple[str, ...]:
    """The server's argv: no option file is read, so all that differs from defaults stands here."""
    make = _mariadb if settings.database == "mariadb" else _postgresql
    return (*AS_NOBODY, *make(settings))


def _mariadb(settings: ServerSettings) -> tuple[str, ...]:
    """https://mariadb.com/kb/en/server-system-variables/, …/innodb-system-variables/."""
    return (
        "mariadbd",
        "--no-defaults",
        f"--datadir={settings.directory}",
        f"--socket={_MARIADB_SOCKET}",
        *([f"--bind-address={settings.address}"] if settings.address else ["--skip-networking"]),
        f"--port={settings.port}",
        "--skip-name-resolve",
        f"--max-connections={settings.connections}",
        f"--max-prepared-stmt-count={settings.statements}",
        f"--innodb-buffer-pool-size={settings.memory_bytes}",
        # 1: written and flushed to the disk at each commit; 0: about once a second.
        f"--innodb-flush-log-at-trx-commit={int(settings.commits == 'durable')}",
    )


def _postgresql(settings: ServerSettings) -> tuple[str, ...]:
    """https://www.postgresql.org/docs/15/runtime-config.html."""
    options = {
        "listen_addresses": settings.address or "",
        "port": str(settings.port),
        "unix_socket_directories": ".",
        "max_connections": str(settings.connections),
        "shared_buffers": f"{settings.memory_bytes // 1024}kB",
        "fsync": "on",
        # off: commits are on the disk at most three times wal_writer_delay (200 ms) later.
        "synchronous_commit": "on" if settings.commits == "durable" else "off",
        "deadlock_timeout": f"{settings.deadlock_timeout_ms}ms",
        "logging_collector": "off",
        # A statement that fails is not for the log: it may hold a password.
        "log_min_error_statement": "panic",
    }
    words = (word for name, value in options.items() for word in ("-c", f"{name}={value}"))
    return POSTGRESQL, "-D", settings.directory, *words


def socket_option(database: Database) -> str:
    """sysbench's option for the server of its own workspace, which is its working directory.

    A path from there: the whole one may be longer than the 107 bytes of a socket's address.
    libpq takes only what begins with `/` for a path.
    """
    if database == "mariadb":
        return f"--mysql-socket={DIRECTORY}/{_MARIADB_SOCKET}"
    return f"--pgsql-host=/proc/self/cwd/{DIRECTORY}"


def cache_bytes(context: Context, share: float) -> int:
    """A share of the instance's memory in whole MiB, at least 16."""
    return max(16, int(context.memory_bytes * share) // MIB) * MIB


def subnet(database: Database, address: str) -> str:
    """Who may connect, as the database writes it: the run's network is a /24 (`network.py`)."""
    network = ipaddress.IPv4Network(f"{address}/24", strict=False)
    return network.with_netmask if database == "mariadb" else network.with_prefixlen


def disk_path(log: str) -> str | None:
    """How MariaDB's InnoDB reads and writes its files: `io_uring`, `Linux native AIO`; or None."""
    match = _DISK_PATH.search(log[: 1 << 16])
    return match[1] if match else None


def disk_full(log: str) -> str | None:
    """The first line of the server's log that says its disk is full; or None."""
    if (match := _FULL.search(log)) is None:
        return None
    end = log.find("\n", match.end())
    return log[log.rfind("\n", 0, match.start()) + 1 : end if end >= 0 else None].strip()


def version(database: Database, log: str) -> str:
    """The version that the server says it is. InvalidTrialError where it says none."""
    match = SERVERS[database].version.search(log[: 1 << 16])
    if match is None:
        raise InvalidTrialError(f"the server does not say that it is {SERVERS[database].title}")
    return f"{SERVERS[database].title} {match[1]}"
