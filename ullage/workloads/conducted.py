"""Workloads whose work the controller does itself, such as making instances."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from ullage.allocating import Node
from ullage.workloads.base import Context, P, Task, Workload


class Conducted(Workload[P]):
    """No program runs inside for it: a trial calls `conduct`, and keeps what that returns.

    The instances of the environment that the run has anyway stand still meanwhile. What `conduct`
    returns is the standard output of the role `main`: it is stored with the trial as any program's,
    and `check` and `parse` look at nothing else.
    """

    def tasks(self, parameters: P, context: Context) -> Sequence[Task]:
        """None."""
        return ()

    @abstractmethod
    def feasible(self, parameters: P, node: Node) -> None:
        """Raise UllageError before anything is made where this host cannot do it at all."""

    @abstractmethod
    async def conduct(self, parameters: P, node: Node, label: str) -> str:
        """Do the work of one trial, within limits of time of its own.

        node: where instances of the environment are made. label: no other trial of the run has it,
        and it may be a part of an instance's name. Whatever was made is gone again when this ends,
        in whatever way. UllageError when it could not be done: the trial then has no figures.
        """
