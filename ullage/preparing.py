"""What a workload finds in its instances: workspaces, and its untimed tasks before and after."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ullage.agent import Command
from ullage.environments import Instance
from ullage.events import Reason
from ullage.matrix import Load
from ullage.naming import slug
from ullage.printable import printable
from ullage.team import Team
from ullage.workloads.base import Context, Task


def workspace(instance: Instance, load: Load) -> str:
    """The directory of a workload in an instance, as seen inside."""
    return f"{instance.data}/{slug(load.key)}"


async def make_workspace(instance: Instance, load: Load) -> None:
    """Make it, with what of ours the workload wants inside."""
    directory = workspace(instance, load)
    await instance.agent.run(Command(argv=("mkdir", "-p", directory)))
    for name, file in load.workload.files(load.parameters).items():
        await instance.agent.put(file, f"{directory}/{name}", 0o755)


def context(team: Team, load: Load, seed: int) -> Context:
    """What the workload may know of where it runs."""
    players = team.players(load.workload.roles(load.parameters))
    spec = team.instance.spec
    return Context(
        addresses={role: player.address or "127.0.0.1" for role, player in players.items()},
        cpus=len(spec.cpus),
        memory_bytes=spec.memory_bytes,
        seed=seed,
        data=team.instance.data,
        workspace=workspace(team.instance, load),
        workspaces={role: workspace(player, load) for role, player in players.items()},
    )


async def perform(
    team: Team, load: Load, seed: int, make: Callable[..., Sequence[Task]]
) -> Reason | None:
    """Run untimed tasks one after another; the first that fails is the reason."""
    players = team.players(load.workload.roles(load.parameters))
    known = context(team, load, seed)
    for task in make(load.parameters, known):
        if task.role not in players:
            continue
        cwd = task.cwd or known.workspaces[task.role]
        command = Command(argv=task.argv, env=dict(task.env), cwd=cwd, timeout_s=task.timeout_s)
        done, stdout, stderr = await players[task.role].agent.run(command)
        if done.status != 0:
            said = printable((stderr or stdout).decode("utf-8", "replace").strip()[-500:], 500)
            return Reason(
                code="prepare-failed",
                message=f"{' '.join(task.argv[:2])} ended with {done.status}: {said}",
            )
    return None
