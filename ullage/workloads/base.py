"""What a workload declares, and what it gets to see."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, Generic, Literal, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict

from ullage.host.image_parts.artifacts import Artifact
from ullage.runs.events import Usage
from ullage.runs.records import Curve, ImageConfig, Metric, Resource, Scalar, User

if TYPE_CHECKING:
    from ullage.environments.provisioning.node import Site


class Parameters(BaseModel):
    """The fields of a workload in the plan. Every field has a default and a description."""

    model_config = ConfigDict(extra="forbid", frozen=True)


P = TypeVar("P", bound=Parameters)

Place = Literal["instance", "second", "away", "partner", "host", "each"]
"""`instance`: the instance under test; `second`: another of the same environment on the same node;
`away`: another of the same environment on another node, or, where the plan has none, on a second
bridge of this host behind a link of its own; `partner`: an instance of the environment that
`Workload.partner` names; `host`: a native endpoint in a network namespace of its own on the run's
bridge; `each`: every instance of the environment, as `role-0`, `role-1` …, so that one trial is
over all of them."""


_NO_LOCALE: Final = {"LANG": "", "LC_ALL": ""}
OTHER_NODE: Final = "another node"
SECOND_BRIDGE: Final = "a second bridge of this host"
"""What stands in a title for the former, where `away` is no other node."""


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
    """A service is up when its standard output or error holds this text."""
    ready_s: float = 20.0
    """A service that is not up after so long fails the trial."""
    stop_signal: int = 15
    """What a service is told to end with."""
    stop_s: float = 5.0
    """It is killed when it has not ended so long after."""
    launches: bool = False
    """Lines `ullage-exec ADDRESS COMMAND` of its standard error start that command, by a shell, in
    the instance of the trial that has the address: `mpirun` with `mpi.SHELL_FILE` for its `ssh`."""
    timeout_s: float = 600.0
    user: User | None = None
    """None: whom the agent runs as."""

    def of_image(self, image: ImageConfig | None) -> Task:
        """As the user's own image wants it: its user, its environment, its working directory.

        The agent would add a locale of ours; an empty one is none to every program (POSIX 8.2).
        Without arguments of its own it is the image's entry point.
        """
        if image is None:
            return self
        return replace(
            self,
            argv=self.argv or image.argv,
            env={**_NO_LOCALE, **image.env, **self.env},
            cwd=image.workdir,
            user=image.user,
        )


@dataclass(frozen=True)
class Context:
    """What a workload may know of where it runs."""

    addresses: Mapping[str, str]
    """Role → IPv4 address; of a role that each instance plays: `role-0` …"""
    cpus: int
    memory_bytes: int
    seed: int
    """Differs from block to block, equal for all environments of a block."""
    data: str = "/data"
    workspace: str = "/data"
    """A directory for this workload and parameter set alone, in the instance under test. What
    `Workload.files` names lies there, in every instance: `./name` runs it."""
    workspaces: Mapping[str, str] = field(default_factory=dict)
    """Role → the same directory as it is called in that role's instance."""
    image: ImageConfig | None = None
    """How the user's own container image wants its program to be run; None: the image is ours, or
    the host's userland."""

    def members(self, role: str) -> tuple[str, ...]:
        """`role-0`, `role-1` … of a role that each instance plays; else the role itself."""
        if role in self.addresses:
            return (role,)
        members = [name for name in self.addresses if name.rpartition("-")[0] == role]
        return tuple(sorted(members, key=lambda name: int(name.rpartition("-")[2])))


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
    memory_kills: int = 0
    """So many processes of its instance did the kernel kill during the trial, as memory ran out.
    Looked at where the workload `guards_memory`."""

    @property
    def cpu_s(self) -> float | None:
        """CPU time of the program and of the children it waited for, user and system."""
        return None if self.usage is None else self.usage.user_s + self.usage.system_s


def counted(count: int, noun: str) -> str:
    """`1 thread`, `1024 threads`, as titles have it."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


Outputs: TypeAlias = Mapping[str, Output]
"""Role → what its task left."""
Figures: TypeAlias = dict[str, Scalar | Curve]
"""Metric → its value, in its unit."""


class InvalidTrialError(Exception):
    """The program ran, but its figures must not be used. The text says why."""

    code: ClassVar[str] = "not-valid"
    """Stands beside the text in the trial's record."""


class GeneratorError(InvalidTrialError):
    """The generator of the load was not as good as it has to be: no fault of what it loads."""

    code: ClassVar[str] = "generator"


class Workload(ABC, Generic[P]):
    """One thing to run and measure.

    A subclass is one file, and one line in `ullage/workloads/__init__.py`. Its docstring becomes
    its page in the docs. Commands are argv lists; nothing goes through a shell.
    """

    name: ClassVar[str]
    resource: ClassVar[Resource]
    packages: ClassVar[tuple[str, ...]]
    """Debian packages that the image needs."""
    artifacts: ClassVar[tuple[Artifact, ...]] = ()
    """Files that the image needs and no Debian package holds."""
    source: ClassVar[tuple[str, ...]]
    """Where it comes from, in Markdown for its page: the tool's manual, the paper with its authors
    and year, the published setting; each with a link."""
    parameters_model: type[P]
    metrics: ClassVar[tuple[Metric, ...]]
    guards_memory: ClassVar[bool] = False
    """A program of it may run out of memory: it is looked whether one was killed for that."""
    scaling: ClassVar[tuple[str, ...]] = ()
    """The parameters that a plan varies to see how the work scales, such as `threads`: the report
    then draws the speed-up over the one that it varied."""

    def programs(self, parameters: P) -> Mapping[str, str]:
        """What must be on the PATH inside → the Debian package that holds it.

        Checked before the first trial.
        """
        return {}

    def roles(self, parameters: P) -> Sequence[Role]:
        return (Role("main"),)

    def partner(self, parameters: P) -> str | None:
        """The key of the environment that `partner` roles stand in; None: there is no such role."""
        return None

    def most_instances(self, parameters: P) -> int | None:
        """How many instances have work where a role is played in `each`; None: all that are."""
        return None

    def least_memory(self, parameters: P) -> int:
        """Bytes of memory with fewer of which an instance cannot do it; 0: not known."""
        return 0

    def runs_entry_point(self, parameters: P) -> bool:
        """Does it run what the user's own container image says, since the plan says nothing?"""
        return False

    def files(self, parameters: P) -> Mapping[str, Path]:
        """Programs and data of ours that it needs inside: name → file on this host.

        They are put into the workspace of every instance that takes part before `prepare`, may be
        executed there, and their digests are in the run folder. `ours.program` finds the programs.
        """
        return {}

    def metrics_of(self, parameters: P) -> tuple[Metric, ...]:
        """The metrics of such trials: `metrics`, unless the plan itself defines some."""
        return self.metrics

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

    def after(self, parameters: P, context: Context) -> Sequence[Task]:
        """Untimed tasks, in order, when the work of a trial is done: what proves it.

        Each has a role of its own, by which `check` finds its output. Services are still up.
        """
        return ()

    def cleanup(self, parameters: P, context: Context) -> Sequence[Task]:
        """Untimed tasks, once for each instance after the last block."""
        return ()

    @abstractmethod
    def check(self, parameters: P, outputs: Outputs) -> None:
        """Raise InvalidTrialError unless the outputs, by role, prove the work was done as asked."""

    @abstractmethod
    def parse(self, parameters: P, outputs: Outputs) -> Figures:
        """The figures, in the units of `metrics`. Called only after `check` has passed."""

    def facts(self, parameters: P, outputs: Outputs) -> dict[str, str]:
        """What the tools told that is no figure but worth keeping: versions, settings in force."""
        return {}

    def steps(self, parameters: P, outputs: Outputs) -> dict[str, float]:
        """Metric → the last digit that was printed, in the metric's unit, where that may vary.

        What a tool always prints alike is its metric's `resolution`.
        """
        return {}


class Conducted(Workload[P]):
    """No program runs inside for it: a trial calls `conduct`, and keeps what that returns.

    The instances of the environment that the run has anyway stand still meanwhile. What `conduct`
    returns is the standard output of the role `main`: it is stored with the trial as any program's,
    and `check` and `parse` look at nothing else.
    """

    def tasks(self, parameters: P, context: Context) -> Sequence[Task]:
        return ()

    @abstractmethod
    def feasible(self, parameters: P, node: Site) -> None:
        """Raise UllageError before anything is made where this host cannot do it at all."""

    async def make_ready(self, parameters: P, node: Site) -> None:
        """What `conduct` needs on that node, made before the trial's time and meters count.

        UllageError when it cannot be had: the trial then has no figures.
        """

    @abstractmethod
    async def conduct(self, parameters: P, node: Site, label: str) -> str:
        """Do the work of one trial, within limits of time of its own.

        node: where instances of the environment are made. label: no other trial of the run has it,
        and it may be a part of an instance's name. Whatever was made is gone again when this ends,
        in whatever way. UllageError when it could not be done: the trial then has no figures.
        """
