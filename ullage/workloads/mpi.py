"""What all workloads of message passing share: where ranks stand, how `mpirun` reaches them.

`mpirun` runs in the instance under test and starts its daemons elsewhere through `remote.SHELL`:
no instance has an sshd, a key or an open port for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, TypeVar

from pydantic import Field

from ullage import ours, remote
from ullage.workloads.base import Context, Parameters, Role, Task, Workload

PACKAGES: Final[Mapping[ours.Mpi, tuple[str, ...]]] = {
    "openmpi": ("openmpi-bin",),
    "mpich": ("mpich",),
}
SHELL: Final = "remote.sh"
DEVICE: Final = "eth0"
"""What an instance's end of the run's bridge is called, where it is reached by an address."""


class MpiParameters(Parameters):
    """Which MPI, and between whom."""

    mpi: ours.Mpi = Field("openmpi", description="the library: Open MPI or MPICH, of Debian")
    peer: Literal["none", "host", "second", "away", "each"] = Field(
        "none",
        description="where other ranks stand: `none`, all in the instance; `host`, a native "
        "endpoint on the same bridge; `second`, another instance on the same node; `away`, one on "
        "another node; `each`, in all instances of the environment",
    )


P = TypeVar("P", bound=MpiParameters)


class MpiWorkload(Workload[P]):
    """An MPI program over the instance and its peers."""

    packages = ("openmpi-bin", "mpich")
    programs = ("mpirun.openmpi", "mpiexec.mpich")

    def roles(self, parameters: P) -> Sequence[Role]:
        """`main` runs `mpirun` and the first ranks."""
        if parameters.peer == "none":
            return (Role("main"),)
        return Role("main"), Role("peer", parameters.peer)

    def files(self, parameters: P) -> Mapping[str, Path]:
        """The remote shell, where there is more than one instance."""
        return {} if parameters.peer == "none" else {SHELL: remote.SHELL}

    def launch(
        self, parameters: P, context: Context, ranks: int, argv: Sequence[str], timeout_s: float
    ) -> Task:
        """The task `main`: so many ranks of the program, spread over the instances in turn."""
        make = _openmpi if parameters.mpi == "openmpi" else _mpich
        started = make(context, hosts(context, ranks), ranks)
        return Task("main", (*started, *argv), env=ENV, launches=True, timeout_s=timeout_s)


ENV: Final = {"HOME": "/tmp", "OMPI_MCA_rmaps_base_oversubscribe": "1"}  # noqa: S108


def hosts(context: Context, ranks: int) -> dict[str, int]:
    """Address → its number of ranks, the instance under test first; in turn."""
    main = context.addresses["main"]
    others = [context.addresses[role] for role in context.members("peer")]
    addresses = list(dict.fromkeys([main, *others]))
    shares = [ranks // len(addresses) + (i < ranks % len(addresses)) for i in range(len(addresses))]
    return {address: share for address, share in zip(addresses, shares, strict=True) if share}


def _openmpi(context: Context, places: Mapping[str, int], ranks: int) -> tuple[str, ...]:
    argv = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]
    argv += ["-np", str(ranks), "--map-by", "node"]
    if len(places) > 1:
        argv += ["--host", ",".join(f"{address}:{slots}" for address, slots in places.items())]
        argv += ["--mca", "plm_rsh_agent", f"{context.workspace}/{SHELL}"]
        argv += ["--mca", "plm_rsh_no_tree_spawn", "1"]
        argv += ["--mca", "oob_tcp_if_include", DEVICE, "--mca", "btl_tcp_if_include", DEVICE]
    return tuple(argv)


def _mpich(context: Context, places: Mapping[str, int], ranks: int) -> tuple[str, ...]:
    argv = ["mpiexec.mpich", "-n", str(ranks)]
    if len(places) > 1:
        argv += ["-launcher", "rsh", "-launcher-exec", f"{context.workspace}/{SHELL}"]
        argv += ["-hosts", ",".join(f"{address}:{n}" for address, n in places.items())]
        argv += ["-iface", DEVICE]
    return tuple(argv)
