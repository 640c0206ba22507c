"""Workload `b-eff-io`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal

from pydantic import ByteSize, Field, model_validator

from ullage.host import binaries
from ullage.runs.records import Coordinate, Metric
from ullage.workloads import sources
from ullage.workloads.base import Context, Figures, InvalidTrialError, Outputs, Role, Task
from ullage.workloads.mpi import b_eff_io_report as report
from ullage.workloads.mpi import mpi
from ullage.workloads.output import check_echoes

SCRIPT: Final = "nfs.sh"
LOCAL: Final = "local"
"""The folder in the workspace where the files are on the instance's own disk."""
SERVED: Final = "served"
"""The one that the first instance shares."""
MOUNTED: Final = "mounted"
"""Where every instance has it mounted."""

ROMIO: Final = {"OMPI_MCA_io": "romio321"}
"""For Open MPI over NFS: its own OMPIO locks the whole file for each write, and two that want it
wait for a second (https://github.com/open-mpi/ompi/issues/4446,
https://github.com/espressomd/espresso/issues/4661); without its locks it wrote wrong data here."""

OWN: Final = ("openmpi", "local")
"""Where MPI-IO is not ROMIO."""

CHUNK: Final = Coordinate(name="chunk_size", unit="B", scale="log")
MOST_MEMORY: Final = 1 << 37
"""Bytes of a process that `beffio` takes: a chunk of 1 GiB."""

_SLACK_S: Final = 0.05


class BEffIoParameters(mpi.MpiParameters):
    """Where the files are, and how long they are written and read."""

    peer: Literal["none", "second", "away", "each"] = Field(
        "none",
        description="where other ranks stand: `none`, all in the instance; `second`, another "
        "instance on the same node; `away`, one on another node; `each`, in all instances of the "
        "environment",
    )
    ranks: int = Field(2, ge=2, le=4, strict=True, description="processes")
    file_system: Literal["local", "nfs"] = Field(
        "local",
        description="`local`: the workspace's disk; `nfs`: a folder of the first instance, "
        "mounted over the run's network by all, the first one too",
    )
    time_s: int = Field(
        1,
        ge=1,
        le=86_400,
        strict=True,
        description="T, seconds scheduled for all patterns; by the rules at least "
        f"{report.LEAST_TIME_S}",
    )
    memory: ByteSize | None = Field(
        None,
        ge=1,
        le=MOST_MEMORY,
        description="memory of a process, in whole MiB: the largest chunk is a 128th of "
        "it, or 2 MiB; absent: an instance's memory over its processes",
    )
    shared_pointers: bool = Field(
        True,
        strict=True,
        description="false: pattern type 1 with each process's own file pointer (`-noshared`)",
    )

    @model_validator(mode="after")
    def _reachable(self) -> BEffIoParameters:
        if self.file_system == "local" and self.peer != "none":
            raise ValueError(
                f"all ranks must see the same files: with peer: {self.peer} their local disks "
                "differ; say file_system: nfs"
            )
        if self.file_system == "nfs" and self.peer == "none":
            raise ValueError(
                "nfs is a folder shared between instances: say which other one, with peer"
            )
        return self


class BEffIo(mpi.MpiWorkload[BEffIoParameters]):
    """Effective file-I/O bandwidth of a parallel program (b_eff_io), by MPI-IO.

    The benchmark of R. Rabenseifner and A. E. Koniges, "Effective File-I/O Bandwidth Benchmark",
    Euro-Par 2000 (<https://fs.hlrs.de/projects/par/mpi//b_eff_io/>), as release 2.1 of its program
    has it (2001), in a program of our own (mpi/programs/beffio). Five pattern types, each with a
    file of its own (or one for each process):

    - 0, scatter: collective; what is in one piece in memory goes to strided chunks of the file;
    - 1, shared: collective and strided, one call for each chunk, with a shared file pointer;
    - 2, separate: one file for each process, not collective;
    - 3, segmented: one file, in which each process has a segment, not collective;
    - 4, segmented and collective.

    Each is written, rewritten and read with chunks of 1 KiB, 32 KiB, 1 MiB and a 128th of a
    process's memory (2 MiB at least, in steps of 8 KiB); the first three also 8 bytes longer, which
    no disk likes. That makes 43 patterns with 64 units of time. Types 0 to 2 are first written by
    time: a pattern has its units' share of T/3, and is repeated while one more call fits into it.
    Types 3 and 4 write a chunk as often as type 2 did, but no more often than type 0, nor than ten
    times as often as type 1. Rewriting and reading repeat what was written. So T is what is
    scheduled, and not how long it takes. Writing a pattern ends with `MPI_File_sync`, which is
    measured with it.

    A type's bandwidth is its bytes by its seconds from opening to closing, so that large and small
    chunks count by the time they take; a method's is the mean over the types, type 0 counted twice.
    The single figure is √(W · R): W is the mean of six bandwidths, those of the five types first
    written and that of type 0 rewritten; R is the mean of reading. Release 1 had fixed weights
    instead; its figure stands beside it as `b_eff_io_release_1`, and the two are not comparable.

    **The rules ask for T of at least 1800 s** on the number of processes measured (release 1 asked
    for 900), for shared file pointers, and for no error. The default of 1 s is for comparing
    environments in many short trials: it is no result of b_eff_io, and each trial says so
    (`rules`). `{time_s: 1800}` is the published setting.

    **What is measured.** The benchmark goes through the page cache, as programs do. Writing is
    honest in that the sync counts; *reading* comes from memory where the files fit into it, in the
    instance, in the NFS server or on the host, and then the figure is one of memory and kernel, not
    of a disk. The published way around is time: T so long that more is written than memory holds.
    There is no option to drop caches, since the rules have none. With `nfs` the first instance is
    both server and client.

    **Where this differs from the original program.** The table of patterns, the counts, the shares
    of T, what is timed, the rules and the figure were compared with the source of release 2.1. By
    default that one rewrites type 0 alone; this does what it does with `-rewrite`, so that a type
    has a third of T with each method. Ours alone are: calls are made in rounds that begin together
    and count until every process is through, where the original has a barrier after each call that
    is made by time, and none in what is repeated; between rounds the clock stands still while data
    are made or compared byte by byte (`untimed`); the data tell of their place and of the
    rewriting, and one wrong byte ends the trial without figures; types 2 to 4 say where each call
    goes, in place of individual file pointers; setting a pattern's view counts for its type, not
    for the pattern; files are always opened for reading and writing, without
    `MPI_MODE_UNIQUE_OPEN`, and are removed after the reading and not by closing them, so that no
    figure has that in it. The mean over the types by the size of the chunks is ours too: the
    original prints each type. The best over several numbers of processes, which is the published
    figure of a whole system, is left to the plan. The study of 2012 that this comes from ran with
    `{shared_pointers: false}`, against the rules.

    `nfs` is version 4.2 over TCP, asynchronous for clients and synchronous in the server, with the
    kernel's defaults. MPI-IO is then ROMIO in both MPIs; on the local disk Open MPI uses its own,
    OMPIO. It needs a kernel with an NFS server and a client in the instance: a VM with
    `modules: [nfsv4, nfsd]`. Elsewhere the trials fail, and say so. With more ranks than CPUs,
    MPICH spins while it waits, and that is part of what is measured.
    """

    name = "b-eff-io"
    resource = "disk"
    packages = (*mpi.MpiWorkload.packages, "nfs-common", "nfs-kernel-server")
    source = (
        "R. Rabenseifner, A. E. Koniges: Effective File-I/O Bandwidth Benchmark, Euro-Par 2000, "
        "<https://fs.hlrs.de/projects/par/mpi//b_eff_io/>",
        sources.FLASH_ENERGY,
    )
    parameters_model = BEffIoParameters
    metrics = (
        Metric(
            name="b_eff_io",
            unit="B/s",
            better="higher",
            primary=True,
            description="The single figure of release 2.1: √(W · R), W the mean of the five "
            "types first written and of scatter rewritten, R that of reading.",
        ),
        Metric(
            name="b_eff_io_release_1",
            unit="B/s",
            better="higher",
            description="The single figure of release 1 (Euro-Par 2000): 25 % write, 25 % rewrite, "
            "50 % read.",
        ),
        Metric(
            name="write",
            unit="B/s",
            better="higher",
            description="Bytes first written in a second by all processes, with the sync: mean "
            "over the pattern types, scatter counted twice.",
        ),
        Metric(
            name="rewrite",
            unit="B/s",
            better="higher",
            description="The same of writing over what is there.",
        ),
        Metric(
            name="read",
            unit="B/s",
            better="higher",
            description="The same of reading; from memory where the files fit into it.",
        ),
        *(
            Metric(
                name=f"{method}_by_chunk",
                unit="B/s",
                better="higher",
                coordinate=CHUNK,
                description=f"Bandwidth of {doing} by the size of the chunks in the file, without "
                "opening and closing: mean over the pattern types, scatter counted twice.",
            )
            for method, doing in (
                ("write", "first writing"),
                ("rewrite", "rewriting"),
                ("read", "reading"),
            )
        ),
    )

    def roles(self, parameters: BEffIoParameters) -> Sequence[Role]:
        """With NFS, `server` stands where `main` does: it answers for the kernel's server."""
        roles = super().roles(parameters)
        return (*roles, Role("server")) if parameters.file_system == "nfs" else roles

    def most_instances(self, parameters: BEffIoParameters) -> int:
        """One for each rank."""
        return parameters.ranks

    def files(self, parameters: BEffIoParameters) -> Mapping[str, Path]:
        files = {**super().files(parameters), "beffio": binaries.program("beffio", parameters.mpi)}
        if parameters.file_system == "nfs":
            files[SCRIPT] = Path(__file__).resolve().parent / SCRIPT
        return files

    def title(self, parameters: BEffIoParameters) -> str:
        """`parallel I/O on local disk, 2 ranks, T = 1 s`."""
        disk = "local disk" if parameters.file_system == "local" else "NFS"
        to = mpi.peer_in_words(parameters)
        return f"parallel I/O on {disk}, {parameters.ranks} ranks{to}, T = {parameters.time_s} s"

    def duration_s(self, parameters: BEffIoParameters) -> float:
        """T, as far as it can be known: what is repeated takes the time that it takes."""
        return 2.0 + parameters.time_s

    def prepare(self, parameters: BEffIoParameters, context: Context) -> Sequence[Task]:
        """The folder; with NFS, served and mounted."""
        if parameters.file_system == "local":
            return (Task("main", ("mkdir", "-p", LOCAL)),)
        served, clients = f"{context.workspaces['main']}/{SERVED}", _clients(context)
        address = context.addresses["main"]
        share = Task("main", (f"./{SCRIPT}", "export", served, address, *clients))
        mounts = [
            Task(role, (f"./{SCRIPT}", "mount", address, served, MOUNTED))
            for role in clients.values()
        ]
        return (share, *mounts)

    def tasks(self, parameters: BEffIoParameters, context: Context) -> Sequence[Task]:
        nfs = parameters.file_system == "nfs"
        argv = ["./beffio", "--time", str(parameters.time_s), "--seed", str(context.seed)]
        argv += ["--memory", str(_memory(parameters, context))]
        argv += ["--directory", MOUNTED if nfs else LOCAL]
        argv += [] if parameters.shared_pointers else ["--noshared"]
        main = self.launch(parameters, context, parameters.ranks, argv, _patience_s(parameters))
        if not nfs:
            return (main,)
        main = replace(main, env={**main.env, **ROMIO}) if parameters.mpi == "openmpi" else main
        return main, Task("server", (f"./{SCRIPT}", "answer"), service=True)

    def cleanup(self, parameters: BEffIoParameters, context: Context) -> Sequence[Task]:
        """Unmount and withdraw; a local folder goes with the workspace."""
        if parameters.file_system == "local":
            return ()
        served, clients = f"{context.workspaces['main']}/{SERVED}", _clients(context)
        unmounts = [Task(role, (f"./{SCRIPT}", "unmount", MOUNTED)) for role in clients.values()]
        return (*unmounts, Task("main", (f"./{SCRIPT}", "withdraw", served, *clients)))

    def check(self, parameters: BEffIoParameters, outputs: Outputs) -> None:
        """All patterns done as asked, their data right, the figures what bytes and seconds say."""
        output = mpi.finished(outputs)
        result = report.read(output.stdout)
        check_echoes(
            ("ranks", parameters.ranks, result.ranks),
            ("seconds", parameters.time_s, result.scheduled_s),
            ("memory", parameters.memory or result.memory_bytes, result.memory_bytes),
            ("shared pointers", parameters.shared_pointers, result.shared_pointers),
        )
        if result.wall_s > output.seconds + _SLACK_S:
            raise InvalidTrialError(
                f"it says that it ran {result.wall_s:g} s, and was there for {output.seconds:g} s"
            )

    def parse(self, parameters: BEffIoParameters, outputs: Outputs) -> Figures:
        result = report.read(outputs["main"].stdout)
        figures: Figures = {
            "b_eff_io": result.b_eff_io,
            "b_eff_io_release_1": result.b_eff_io_release_1,
            "write": result.write,
            "rewrite": result.rewrite,
            "read": result.read,
        }
        curves = {f"{m}_by_chunk": report.by_chunk(result, m) for m in report.METHODS}
        return figures | curves

    def facts(self, parameters: BEffIoParameters, outputs: Outputs) -> dict[str, str]:
        """Whether the rules were kept, and where the time went."""
        result = report.read(outputs["main"].stdout)
        least = report.LEAST_TIME_S
        broken = [f"scheduled for {parameters.time_s} s of at least {least} s"]
        broken = broken if parameters.time_s < least else []
        broken += [] if parameters.shared_pointers else ["no shared file pointers"]
        return {
            **super().facts(parameters, outputs),
            "rules": f"not kept: {'; '.join(broken)}" if broken else "kept",
            "effective": f"{result.effective_s:.3g} s",
            "untimed": f"{result.wall_s - result.effective_s:.3g} s",
            "largest chunk": f"{result.largest_chunk_bytes} B",
            "mpi_io": "OMPIO" if (parameters.mpi, parameters.file_system) == OWN else "ROMIO",
        }


def _clients(context: Context) -> dict[str, str]:
    """Address → role, of every instance once."""
    roles = ("main", *context.members("peer"))
    return {context.addresses[role]: role for role in reversed(roles)}


def _memory(parameters: BEffIoParameters, context: Context) -> int:
    """Of one process, where the most of them stand."""
    if parameters.memory is not None:
        return int(parameters.memory)
    crowd = math.ceil(parameters.ranks / len(_clients(context)))
    return min(context.memory_bytes // crowd, MOST_MEMORY)


def _patience_s(parameters: BEffIoParameters) -> float:
    """Single calls and syncs are long on a slow disk, and what is repeated may be slower than what
    was written by time: types 3 and 4 have up to ten times as many calls as type 1.
    """
    return 600.0 + 10.0 * parameters.time_s
