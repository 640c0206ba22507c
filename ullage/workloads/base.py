"""What a workload declares, and what it gets to see."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict

from ullage.runs import Curve, Metric, Resource, Scalar, Usage


class Parameters(BaseModel):
    """The fields of a workload in the plan. Every field has a default and a description."""

    model_config = ConfigDict(extra="forbid", frozen=True)


P = TypeVar("P", bound=Parameters)

Place = Literal["instance", "second", "host"]
"""`instance`: the instance under test; `second`: another of the same environment; `host`: a native
endpoint in a network namespace of its own on the run's bridge."""


@dataclass(frozen=True)
class Role:
    """One part in a trial: where it stands."""

    name: str
    place: Place = "instance"


@dataclass(frozen=True)
class Task:
    """One program to run in the instance that a role stands for."""

    role: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str | None = None
    """None: the workspace."""
    service: bool = False
    """True: runs beside the others (a server) and is stopped when they have ended."""
    ready: str | None = None
    """A service is up when its standard output holds this text."""
    timeout_s: float = 600.0


@dataclass(frozen=True)
class Context:
    """What a workload may know of where it runs."""

    addresses: Mapping[str, str]
    """Role → IPv4 address."""
    cpus: int
    memory_bytes: int
    seed: int
    """Differs from block to block, equal for all environments of a block."""
    data: str = "/data"
    workspace: str = "/data"
    """A directory for this workload and parameter set alone, in the instance under test."""


@dataclass(frozen=True)
class Output:
    """What one task of a trial left."""

    status: int | None
    signal: int | None
    stdout: str
    stderr: str
    seconds: float
    usage: Usage | None = None
    """What the program used, where the agent told."""


class InvalidTrialError(Exception):
    """The program ran, but its figures must not be used. The text says why."""


class Workload(ABC, Generic[P]):
    """One thing to run and measure.

    A subclass is one file, and one line in `ullage/workloads/__init__.py`. Its docstring becomes
    its page in the docs. Commands are argv lists; nothing goes through a shell.
    """

    name: ClassVar[str]
    resource: ClassVar[Resource]
    packages: ClassVar[tuple[str, ...]]
    """Debian packages that the image needs."""
    programs: ClassVar[tuple[str, ...]]
    """What must be on the PATH inside; checked before the first trial."""
    parameters_model: type[P]
    metrics: ClassVar[tuple[Metric, ...]]

    def roles(self, parameters: P) -> Sequence[Role]:
        """Who takes part."""
        return (Role("main"),)

    def title(self, parameters: P) -> str:
        """A short plain title for tables: `CPU, 2 threads`."""
        return self.name

    @abstractmethod
    def duration_s(self, parameters: P) -> float:
        """Nominal length of one trial, for the estimate of the first run."""

    def prepare(self, parameters: P, context: Context) -> Sequence[Task]:
        """Untimed tasks, in order, once for each instance before the first block."""
        return ()

    @abstractmethod
    def tasks(self, parameters: P, context: Context) -> Sequence[Task]:
        """The trial. Services first become ready; all others start at one agreed instant."""

    def cleanup(self, parameters: P, context: Context) -> Sequence[Task]:
        """Untimed tasks, once for each instance after the last block."""
        return ()

    @abstractmethod
    def check(self, parameters: P, outputs: Mapping[str, Output]) -> None:
        """Raise InvalidTrialError unless the outputs, by role, prove the work was done as asked."""

    @abstractmethod
    def parse(self, parameters: P, outputs: Mapping[str, Output]) -> dict[str, Scalar | Curve]:
        """The figures, in the units of `metrics`. Called only after `check` has passed."""

    def facts(self, parameters: P, outputs: Mapping[str, Output]) -> dict[str, str]:
        """What the tools told that is no figure but worth keeping: versions, settings in force."""
        return {}
