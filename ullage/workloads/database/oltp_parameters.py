"""What a plan may ask of the workload `oltp`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from pydantic import Field, model_validator

from ullage.workloads.cpu.sysbench import LimitedParameters
from ullage.workloads.database import oltp_servers

RANGES: Final = ("simple_ranges", "sum_ranges", "order_ranges", "distinct_ranges")
WRITES: Final = ("index_updates", "non_index_updates", "delete_inserts")
MIX: Final[Mapping[str, tuple[str, ...]]] = {
    "read_write": ("point_selects", *RANGES, *WRITES),
    "read_only": ("point_selects", *RANGES),
    "write_only": WRITES,
    "point_select": (),
    "update_index": ("index_updates",),
    "update_non_index": ("non_index_updates",),
}
"""Test → the parameters that say what a transaction of it holds."""

OltpTest = Literal[
    "read_write", "read_only", "write_only", "point_select", "update_index", "update_non_index"
]


class OltpParameters(LimitedParameters):
    """Which database, which transactions, how many at once, and where the clients are."""

    database: oltp_servers.Database = Field("mariadb", description="the server: of Debian 12")
    test: OltpTest = Field("read_write", description="sysbench's test: `oltp_read_write` …")
    client: Literal["host", "second", "away", "same"] = Field(
        "host",
        description="where sysbench runs: a native endpoint on the same bridge, a second instance, "
        "one on the other node, or (`same`) in the server's own instance, over a local socket; "
        "with `servers: each` that is the first instance, and all servers are reached by TCP",
    )
    servers: Literal["one", "each"] = Field(
        "one",
        description="`each`: a server in every instance of the environment, and one client whose "
        "threads take them in turn (MariaDB only: sysbench's PostgreSQL driver has one host)",
    )
    threads: int = Field(
        4, ge=1, le=1000, strict=True, description="connections, each with one transaction at once"
    )
    time_s: int | None = Field(
        2, ge=1, le=86_400, strict=True, description="measured length in seconds"
    )
    warmup_s: int = Field(
        1, ge=0, le=3600, strict=True, description="seconds before it that do not count"
    )
    tables: int = Field(4, ge=1, le=1000, strict=True, description="tables")
    table_size: int = Field(10_000, ge=100, le=10**9, strict=True, description="rows of each")
    point_selects: int = Field(
        10, ge=0, le=1000, strict=True, description="SELECTs of one row in a transaction"
    )
    simple_ranges: int = Field(
        1, ge=0, le=1000, strict=True, description="SELECTs of a range of rows"
    )
    sum_ranges: int = Field(1, ge=0, le=1000, strict=True, description="SUMs over a range")
    order_ranges: int = Field(1, ge=0, le=1000, strict=True, description="ranges, sorted")
    distinct_ranges: int = Field(
        1, ge=0, le=1000, strict=True, description="ranges, sorted and without duplicates"
    )
    range_size: int = Field(100, ge=1, le=10**6, strict=True, description="rows of a range")
    index_updates: int = Field(
        1, ge=0, le=1000, strict=True, description="UPDATEs of a column with an index"
    )
    non_index_updates: int = Field(
        1, ge=0, le=1000, strict=True, description="UPDATEs of a column without"
    )
    delete_inserts: int = Field(
        1, ge=0, le=1000, strict=True, description="DELETEs of a row, and INSERTs of it again"
    )
    distribution: Literal["special", "uniform", "gaussian", "pareto"] = Field(
        "special",
        description="which rows: `special`, sysbench's own, has three of four in 1 % of them",
    )
    cache: float = Field(
        0.25,
        gt=0,
        le=0.8,
        description="the server's cache of pages, as a share of the instance's memory",
    )
    commits: oltp_servers.Commits = Field(
        "durable",
        description="`durable`: on the disk when the client hears of it; `deferred`: within about "
        "a second, so that a crash may lose them",
    )
    deadlock_timeout_ms: int = Field(
        1000,
        ge=1,
        le=60_000,
        strict=True,
        description="PostgreSQL looks for a deadlock when a lock was waited for so long; MariaDB "
        "does at once",
    )
    port: int = Field(13_306, ge=1024, le=65_535, strict=True, description="TCP port of the server")

    @model_validator(mode="before")
    @classmethod
    def _cold(cls, data: Any) -> Any:
        """A number of events is all that is done: there is no warm-up before it."""
        if isinstance(data, dict) and data.get("events") is not None:
            if data.get("warmup_s"):
                raise ValueError("give warmup_s or events, not both: each event counts")
            return {**data, "warmup_s": 0}
        return data

    @model_validator(mode="after")
    def _possible(self) -> OltpParameters:
        if self.database == "postgresql" and self.servers == "each":
            raise ValueError("servers: each needs database: mariadb (PostgreSQL takes one host)")
        defaults = type(self).model_fields
        for name in ("point_selects", *RANGES, *WRITES):
            if name not in MIX[self.test] and getattr(self, name) != defaults[name].default:
                raise ValueError(f"test: {self.test} has no {name}")
        if self.database == "mariadb" and self.deadlock_timeout_ms != 1000:
            raise ValueError("MariaDB has no deadlock_timeout_ms: it finds a deadlock at once")
        if self.statements == 0:
            raise ValueError("a transaction without statements: give one of the counts")
        if self.events is not None and self.events < self.threads:
            raise ValueError("events must be at least one for each thread")
        return self

    @property
    def reads(self) -> int:
        """SELECTs of one transaction."""
        if self.test == "point_select":
            return 1
        return self._sum(("point_selects", *RANGES))

    @property
    def statements(self) -> int:
        """SELECTs and changes of one transaction, without BEGIN and COMMIT."""
        # A row deleted and inserted again takes two.
        return self.reads + self._sum(WRITES) + self._sum(("delete_inserts",))

    @property
    def queries(self) -> int:
        """All that is sent in one transaction; only the mixed tests say BEGIN and COMMIT."""
        return self.statements + (2 if len(MIX[self.test]) > 1 else 0)

    def _sum(self, names: Sequence[str]) -> int:
        counts: dict[str, int] = self.model_dump(include=set(names) & set(MIX[self.test]))
        return sum(counts.values())
