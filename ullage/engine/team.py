"""The instances that play the roles of one trial together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ullage.common.text import printable, slug
from ullage.environments import Instance
from ullage.environments.agent.client import AgentError, Command
from ullage.environments.agent.process import ITSELF
from ullage.runs.events import Reason
from ullage.workloads.base import Context, Place, Role, Task

if TYPE_CHECKING:
    from ullage.plan.matrix import Case


@dataclass
class Team:
    """The instances of one trial, by the places that roles have."""

    instance: Instance
    second: Instance | None = None
    away: Instance | None = None
    partner: Instance | None = None
    host: Instance | None = None
    each: Sequence[Instance] = field(default_factory=tuple)
    """Every instance of the environment, `instance` the first of them."""
    neighbours: Sequence[Instance] = field(default_factory=tuple)
    """They play no role of the workload: they load the host."""

    def only(self, places: set[Place]) -> Team:
        """Without those whose place no role has; the instance under test is always there."""
        return replace(
            self,
            second=self.second if "second" in places else None,
            away=self.away if "away" in places else None,
            partner=self.partner if "partner" in places else None,
            host=self.host if "host" in places else None,
            each=self.each if "each" in places else (),
        )

    def players(self, roles: Iterable[Role]) -> dict[str, Instance]:
        """Role → the instance that plays it, for the roles that have one."""
        players: dict[str, Instance] = {}
        for role in roles:
            if role.place == "each":
                players |= {f"{role.name}-{i}": instance for i, instance in enumerate(self.each)}
            elif player := getattr(self, role.place):
                players[role.name] = player
        return players

    @property
    def ends(self) -> list[Instance]:
        """What others of them work against: a second instance, or what stands for the host."""
        others = (self.second, self.away, self.host)
        return [
            instance for instance in others if instance is not None and instance not in self.each
        ]

    @property
    def members(self) -> list[Instance]:
        """Everybody there is, once."""
        others = (self.second, self.away, self.partner, self.host, *self.neighbours)
        members = [self.instance, *self.each, *(other for other in others if other is not None)]
        return list({instance.name: instance for instance in members}.values())


def workspace(instance: Instance, case: Case) -> str:
    """The directory of a workload in an instance, as seen inside."""
    return f"{instance.data}/{slug(case.key)}"


async def make_workspace(instance: Instance, case: Case) -> None:
    """Make it, with the files of ours that the workload needs inside."""
    directory = workspace(instance, case)
    image = instance.spec.image
    owner = () if image is None or image.config is None else image.config.user.ids
    for path in (instance.data, directory) if owner else (directory,):
        await instance.agent.run(Command((*ITSELF, "workspace", path, *map(str, owner))))
    for name, file in case.workload.files(case.parameters).items():
        built, suffix = _built_for(instance, file)
        await instance.agent.put(built, f"{directory}/{name}{suffix}", 0o755)


def _built_for(instance: Instance, file: Path) -> tuple[Path, str]:
    """A program of ours for the instance's system, where there is one, and what its name ends with.

    Data are for all systems.
    """
    built = file.with_name(file.name + instance.program_suffix)
    return (built, instance.program_suffix) if built.is_file() else (file, "")


def context(team: Team, case: Case, seed: int) -> Context:
    """What the workload may know of where it runs."""
    players = team.players(case.workload.roles(case.parameters))
    spec = team.instance.spec
    return Context(
        addresses={role: player.address or "127.0.0.1" for role, player in players.items()},
        cpus=len(spec.cpu_ids),
        memory_bytes=spec.memory_bytes,
        seed=seed,
        data=team.instance.data,
        workspace=workspace(team.instance, case),
        workspaces={role: workspace(player, case) for role, player in players.items()},
        image=spec.image.config if spec.image is not None else None,
    )


_CAN_START: Final = 'case $1 in */*) test -f "$1" && test -x "$1" ;; *) command -v "$1" ;; esac'


async def cannot_start(team: Team, case: Case, seed: int) -> Reason | None:
    """Which program of a trial is not there, or must not be executed; None: all can start.

    Nothing of the workload is run for that.
    """
    players = team.players(case.workload.roles(case.parameters))
    where = context(team, case, seed)
    for task in case.workload.tasks(case.parameters, where):
        if task.role not in players:
            continue
        instance, program = players[task.role], task.argv[0]
        look = Command(
            argv=("sh", "-c", _CAN_START, "sh", program),
            env=dict(task.env),
            user=task.user,
            cwd=task.cwd or where.workspaces[task.role],
            timeout_s=30,
        )
        try:
            outcome, _, _ = await instance.agent.run(look)
        except AgentError:
            continue  # without a shell, or the directory: the trial itself will tell
        if outcome.status != 0:
            message = f"{program} is not in {instance.name}, or cannot be executed there"
            return Reason(code="not-there", message=printable(message, 2000))
    return None


async def perform(
    team: Team, case: Case, seed: int, make: Callable[..., Sequence[Task]]
) -> Reason | None:
    """Run untimed tasks one after another; the first that fails is the reason."""
    players = team.players(case.workload.roles(case.parameters))
    where = context(team, case, seed)
    for task in make(case.parameters, where):
        if task.role not in players:
            continue
        cwd = task.cwd or where.workspaces[task.role]
        command = Command(task.argv, dict(task.env), cwd, task.user, task.timeout_s)
        done, stdout, stderr = await players[task.role].agent.run(command)
        if done.status != 0:
            output = printable((stderr or stdout).decode("utf-8", "replace").strip()[-500:], 500)
            return Reason(
                code="prepare-failed",
                message=f"{' '.join(task.argv[:2])} ended with {done.status}: {output}",
            )
    return None
