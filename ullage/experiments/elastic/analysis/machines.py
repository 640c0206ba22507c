"""What became of the nodes on each machine, where a plan names machines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ullage.experiments.elastic.folder import Act, Lost, Ready, Retried
from ullage.runs.records import Count, Record


class MachineShare(Record):
    """One machine's part in the nodes of an environment, over its repetitions with figures."""

    machine: str
    allocated: Count
    """Nodes that came to stream there."""
    failed: Count
    """Attempts to make one there that failed."""
    lost: Count
    """Nodes that ended there while they streamed."""
    longest_copy_s: float | None
    """The most that one had to wait for the image; None: none was allocated there."""


def shares(machines: Iterable[str], logs: Sequence[Sequence[Act]]) -> tuple[MachineShare, ...]:
    """Of those that the plan names, by the acts of each repetition."""
    return tuple(_share(machine, [act for log in logs for act in log]) for machine in machines)


def _share(machine: str, acts: Sequence[Act]) -> MachineShare:
    ready = [act for act in acts if isinstance(act, Ready) and act.machine == machine]
    return MachineShare(
        machine=machine,
        allocated=len(ready),
        failed=sum(
            isinstance(act, Retried) and act.what == "allocate" and act.machine == machine
            for act in acts
        ),
        lost=sum(isinstance(act, Lost) and act.machine == machine for act in acts),
        longest_copy_s=max((act.stages.get("TcI", 0.0) for act in ready), default=None),
    )
