"""What all workloads of message passing share: where ranks stand, how `mpirun` reaches them.

`mpirun` runs in the instance under test and starts its daemons elsewhere through `SHELL_FILE`:
no instance has an sshd, a key or an open port for it.

What carries the messages is said, not left to the library: shared memory between ranks of one
instance, TCP over the run's bridge between instances. Left alone, UCX in MPICH would find that two
containers of one host can share memory, and no network would be measured.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Final, Literal, TypeVar

from pydantic import Field

from ullage.common.text import printable
from ullage.host import binaries
from ullage.workloads.base import (
    OTHER_NODE,
    Context,
    InvalidTrialError,
    Output,
    Outputs,
    Parameters,
    Role,
    Task,
    Workload,
)
from ullage.workloads.output import quoted

SHELL: Final = "remote.sh"
SHELL_FILE: Final = Path(__file__).resolve().with_name(SHELL)
"""Give it to an instance by `Workload.files`, and name it to `mpirun`."""
MARK: Final = b"ullage-exec "
LONGEST: Final = 64 * 1024
"""Bytes of a line: `mpirun` names every node in it."""
LONGEST_WORDS: Final = 400
"""Characters that are quoted of what a program said."""
DEVICE: Final = "eth0"
"""What an instance's end of the run's bridge is called, where it is reached by an address."""

ENV: Final = {"HOME": "/tmp"}  # noqa: S108
UCX: Final = {"UCX_TLS": "self,tcp", "UCX_NET_DEVICES": DEVICE}
"""For Debian's MPICH, whose device is `ch4:ucx`: it carries what goes from instance to instance;
within one, `ch4` has shared memory of its own (https://openucx.readthedocs.io, FAQ: UCX_TLS)."""
MOST_RANKS: Final = 200
"""Open MPI's `mpirun` needs some twenty descriptors, and more than four for each rank in its
instance (52 for 8 ranks, 152 for 32, counted in /proc). Where it runs out of them, of which most
systems give a program 1,024, it does not end: so a plan that could need more is refused."""
INSIDE: Final = {"openmpi": "shared memory (ob1, vader)", "mpich": "shared memory (ch4 posix)"}
BETWEEN: Final = {
    "openmpi": f"TCP over {DEVICE} (ob1, btl tcp)",
    "mpich": f"TCP over {DEVICE} (ch4:ucx, UCX_TLS=tcp)",
}


class MpiParameters(Parameters):
    """Which MPI, and between whom."""

    mpi: binaries.Mpi = Field(
        "openmpi",
        description="the library: Open MPI or MPICH, of Debian. MPICH's ranks never yield: give "
        "each a CPU of its own. Between instances, Debian's MPICH 4.0.2 with UCX 1.13 now and then "
        "does not end (seen in some 2 to 8 % of short jobs, in MPI_Finalize): the trial then fails "
        "by its time limit",
    )
    peer: Literal["none", "host", "second", "away", "each"] = Field(
        "none",
        description="where other ranks stand: `none`, all in the instance; `host`, a native "
        "endpoint on the same bridge; `second`, another instance on the same node; `away`, one on "
        "another node; `each`, in all instances of the environment",
    )


P = TypeVar("P", bound=MpiParameters)


class MpiWorkload(Workload[P]):
    """An MPI program over the instance and its peers."""

    packages: ClassVar[tuple[str, ...]] = ("openmpi-bin", "mpich")

    def programs(self, parameters: P) -> Mapping[str, str]:
        if parameters.mpi == "openmpi":
            return {"mpirun.openmpi": "openmpi-bin"}
        return {"mpiexec.mpich": "mpich"}

    def roles(self, parameters: P) -> Sequence[Role]:
        """`main` runs `mpirun` and the first ranks."""
        if parameters.peer == "none":
            return (Role("main"),)
        return Role("main"), Role("peer", parameters.peer)

    def files(self, parameters: P) -> Mapping[str, Path]:
        """The remote shell, where there is more than one instance."""
        return {} if parameters.peer == "none" else {SHELL: SHELL_FILE}

    def launch(
        self, parameters: P, context: Context, ranks: int, argv: Sequence[str], timeout_s: float
    ) -> Task:
        """The task `main`: so many ranks of the program, dealt to the instances in turn."""
        make = _openmpi if parameters.mpi == "openmpi" else _mpich
        places = hosts(context, ranks)
        env = {**ENV, **UCX} if parameters.mpi == "mpich" and len(places) > 1 else ENV
        started = make(context, places, ranks)
        several = len(places) > 1
        return Task("main", (*started, *argv), env=env, launches=several, timeout_s=timeout_s)

    def facts(self, parameters: P, outputs: Outputs) -> dict[str, str]:
        return {"transport": transport(parameters, outputs)}


def transport(parameters: MpiParameters, outputs: Outputs) -> str:
    """What carried the messages, by whether `mpirun` had ranks started in other instances.

    The plan does not tell: with `peer: each` an environment may have one instance.
    """
    inside = INSIDE[parameters.mpi]
    if not launched_elsewhere(outputs["main"].stderr):
        return inside
    return f"{BETWEEN[parameters.mpi]} between instances, {inside} within one"


def peer_in_words(parameters: MpiParameters) -> str:
    """For titles: ` to a second instance`; empty where there is one instance."""
    names = {
        "none": "",
        "host": " to the host",
        "second": " to a second instance",
        "away": f" to an instance on {OTHER_NODE}",
        "each": " over all instances",
    }
    return names[parameters.peer]


def hosts(context: Context, ranks: int) -> dict[str, int]:
    """Address → its number of ranks, the instance under test first; in turn."""
    main = context.addresses["main"]
    others = [context.addresses[role] for role in context.members("peer")]
    addresses = list(dict.fromkeys([main, *others]))
    shares = [ranks // len(addresses) + (i < ranks % len(addresses)) for i in range(len(addresses))]
    return {address: share for address, share in zip(addresses, shares, strict=True) if share}


def _openmpi(context: Context, places: Mapping[str, int], ranks: int) -> tuple[str, ...]:
    """The options are those of mpirun(1) and `ompi_info --all` of Open MPI 4.1."""
    argv = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]
    argv += ["-np", str(ranks), "--map-by", "node", "--mca", "pml", "ob1"]
    # It takes every slot for a CPU, and would spin where two ranks share one.
    crowded = max(places.values()) > context.cpus
    argv += ["--mca", "mpi_yield_when_idle", str(int(crowded))]
    if len(places) == 1:
        return (*argv, "--mca", "btl", "self,vader")
    argv += ["--host", ",".join(f"{address}:{slots}" for address, slots in places.items())]
    argv += ["--mca", "plm_rsh_agent", f"{context.workspace}/{SHELL}"]
    argv += ["--mca", "plm_rsh_no_tree_spawn", "1"]
    argv += ["--mca", "oob_tcp_if_include", DEVICE, "--mca", "btl_tcp_if_include", DEVICE]
    within = "self,vader,tcp" if max(places.values()) > 1 else "self,tcp"
    return (*argv, "--mca", "btl", within)


def _mpich(context: Context, places: Mapping[str, int], ranks: int) -> tuple[str, ...]:
    """The options are those of `mpiexec.hydra -help` of MPICH 4.0."""
    argv = ["mpiexec.mpich", "-n", str(ranks), "-bind-to", "none"]
    if len(places) > 1:
        argv += ["-launcher", "rsh", "-launcher-exec", f"{context.workspace}/{SHELL}"]
        # One slot each: it goes over the list again until all ranks have a place.
        argv += ["-hosts", ",".join(f"{address}:1" for address in places), "-iface", DEVICE]
    return tuple(argv)


_LIBRARY: Final = re.compile(r"library: (?:(Open MPI) v|MPICH Version: *)[0-9][ -~]{0,200}")
_COMPLAINT: Final = re.compile(
    r"^(?:=   )?(error: .*|mpirun noticed that .*|PID .* RUNNING AT .*|EXIT CODE: .*|"
    r"YOUR APPLICATION TERMINATED .*| *Process name: .*| *Exit code: .*)$",
    re.MULTILINE,
)
"""Where Open MPI's `mpirun`, MPICH's `mpiexec` and our own programs say what went wrong."""


def finished(outputs: Outputs) -> Output:
    """The output of `mpirun`, which must have ended well: InvalidTrialError says why it did not."""
    output = outputs.get("main")
    if output is None:
        raise InvalidTrialError("there is no output of mpirun")
    if output.status == 0:
        return output
    text = f"{output.stderr[-LONGEST:]}\n{output.stdout[-LONGEST:]}"
    complaints = "; ".join(match[1] for match in _COMPLAINT.finditer(text))
    raise InvalidTrialError(f"mpirun ended with {_how(output)}: {plain(complaints or text)}")


def _how(output: Output) -> str:
    """Open MPI's `mpirun` ends as a shell would: with 128 more than the signal of a rank."""
    if output.signal is not None:
        return f"signal {output.signal}"
    rank = (output.status or 0) - 128
    return f"status {output.status}" + (f", a rank with signal {rank}" if 0 < rank <= 64 else "")


def library(parameters: MpiParameters, text: str) -> tuple[str, str]:
    """What the first line of a program of ours says of its MPI library, and the lines after it.

    InvalidTrialError when it is not the library that was asked for.
    """
    first, _, following = text.partition("\n")
    match = _LIBRARY.fullmatch(first)
    if not match or (match[1] is not None) != (parameters.mpi == "openmpi"):
        raise InvalidTrialError(
            f"line 1: expected 'library: …' of {parameters.mpi}, found {quoted(first)}"
        )
    return first.removeprefix("library: "), following


def plain(text: str) -> str:
    """The last LONGEST_WORDS characters of what a launcher says, as one line."""
    lines = (line.strip(" \r\t-=") for line in text[-LONGEST:].split("\n") if not _is_request(line))
    words = " ".join(line for line in lines if line)
    return printable(words[-LONGEST_WORDS:], LONGEST_WORDS) or "nothing"


def launched_elsewhere(stderr: str) -> bool:
    """Whether a program has had a command started in another instance."""
    return any(_is_request(line) for line in stderr.split("\n"))


def _is_request(line: str) -> bool:
    return line.startswith(MARK.decode())
