"""Workload `testdfsio`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

from pydantic import ByteSize, Field

from ullage.artifacts import maven
from ullage.runs import Coordinate, Curve, Metric, Scalar
from ullage.workloads.base import (
    Context,
    InvalidTrialError,
    Output,
    Parameters,
    Role,
    Task,
    Workload,
)
from ullage.workloads.outputs import ended
from ullage.workloads.testdfsio_report import MIB, Job, network, read_job

VERSION: Final = "3.4.1"
_HADOOP: Final = "org.apache.hadoop"
_INTO: Final = "/opt/hadoop"
_HERE: Final = Path(__file__).resolve().parent / "hadoop"


class DfsIoParameters(Parameters):
    """How much is written and read, by how many jobs, and where the blocks lie."""

    jobs: int = Field(1, ge=1, le=8, strict=True, description="TestDFSIO at the same time")
    files: int = Field(2, ge=1, le=1000, strict=True, description="files of each job")
    file_size: ByteSize = Field(
        ByteSize(16 * MIB), ge=MIB, le=1 << 40, multiple_of=MIB, description="bytes of each file"
    )
    maps: int = Field(
        2, ge=1, le=64, strict=True, description="files that a job works on at once: its map tasks"
    )
    datanode: Literal["same", "second", "away"] = Field(
        "second",
        description="where the blocks are kept: in the instance itself, or in another, on the same "
        "node or on another node",
    )
    heap: ByteSize = Field(
        ByteSize(256 * MIB), ge=128 * MIB, le=1 << 40, description="heap of each Java machine"
    )
    timeout_s: float = Field(
        1800, gt=0, le=86_400, allow_inf_nan=False, description="seconds after which it is ended"
    )


class DfsIo(Workload[DfsIoParameters]):
    """Hadoop's own benchmark of its file system: writes files, and reads them again (`TestDFSIO`).

    HDFS 3.4.1 from the jars of Maven Central: a NameNode and the jobs stand in the instance, the
    DataNode where `datanode` says, so the blocks cross the network. Replication is 1. Map tasks run
    in the job's own Java machine (LocalJobRunner, `maps` at a time); there is no YARN. Java
    computes checksums, since Hadoop's native library is not in the jars. The page cache of whoever
    keeps the blocks helps the reading, unless files are larger than its memory.

    One trial formats nothing: files of the trial before are overwritten. Its time is that of the
    slowest job from the agreed start to its end, with the start of its two Java machines in it, as
    the published figures (315 to 756 s for 1 to 3 jobs) have it; rates are TestDFSIO's own.
    """

    name = "testdfsio"
    resource = "network"
    packages = ("openjdk-17-jre-headless",)
    programs = ("java",)
    parameters_model = DfsIoParameters
    artifacts = (
        maven(
            _HADOOP,
            "hadoop-client-api",
            VERSION,
            "a964d4daa054c9615bbafb4553efbb140fa7fb9ac6f358a24393f183a5703438",
            into=_INTO,
        ),
        maven(
            _HADOOP,
            "hadoop-client-runtime",
            VERSION,
            "f6a800a159f918670db533606d33560d6c13b7e13f14eda493280ae33b9eeb2f",
            into=_INTO,
        ),
        maven(
            _HADOOP,
            "hadoop-client-minicluster",
            VERSION,
            "5b90be54a39d856f237a4530e25f62aea4b67c180c73b5cfb1aff35c502b2d29",
            into=_INTO,
        ),
        maven(
            _HADOOP,
            "hadoop-mapreduce-client-jobclient",
            VERSION,
            "ad789e3cf78b06311be84c2c3d8766e267684aa8eb70d03d3a27fdd8124132bf",
            into=_INTO,
            classifier="tests",
        ),
        maven(
            "org.slf4j",
            "slf4j-api",
            "1.7.36",
            "d3ef575e3e4979678dc01bf1dcce51021493b4d11fb7f1be8ad982877c16a1c0",
            into=_INTO,
        ),
        maven(
            "org.slf4j",
            "slf4j-reload4j",
            "1.7.36",
            "ae6fdd5c9547896114d5ec7fa7503733b7d2890573d3886fb548b3119c4d3f67",
            into=_INTO,
        ),
        maven(
            "ch.qos.reload4j",
            "reload4j",
            "1.2.22",
            "222f90d3e69541218ef6e70547749d693bd4c1846817e5bd7949b3e28950f99f",
            into=_INTO,
        ),
        maven(
            "commons-logging",
            "commons-logging",
            "1.2",
            "daddea1ea0be0f56978ab3006b8ac92834afeefbd9b7e4e6316fca57df0fa636",
            into=_INTO,
        ),
    )
    metrics = (
        Metric(
            name="seconds",
            unit="s",
            better="lower",
            primary=True,
            description="Time until the slowest job had written and read its files.",
        ),
        Metric(
            name="write_throughput",
            unit="B/s",
            better="higher",
            description="Bytes written by all jobs, each over the time that its map tasks took "
            "together: TestDFSIO's `Throughput`, summed over the jobs.",
        ),
        Metric(
            name="read_throughput",
            unit="B/s",
            better="higher",
            description="The same of reading.",
        ),
        Metric(
            name="network_use",
            unit="B/s",
            better="higher",
            coordinate=Coordinate(name="share_of_time", unit="1"),
            description="Bytes in and out of the instance's network device, in tenths of the time "
            "of the first job. Absent where there is no such device.",
        ),
    )

    def roles(self, parameters: DfsIoParameters) -> Sequence[Role]:
        """The NameNode and the jobs in the instance, the DataNode where it was asked for."""
        place = "instance" if parameters.datanode == "same" else parameters.datanode
        jobs = [Role(f"job-{number}") for number in range(parameters.jobs)]
        return Role("namenode"), Role("datanode", place), *jobs

    def files(self, parameters: DfsIoParameters) -> Mapping[str, Path]:
        """The settings, and the script that starts Java with them."""
        return {file.name: file for file in sorted(_HERE.iterdir())}

    def title(self, parameters: DfsIoParameters) -> str:
        """`HDFS, 2 × 16 MiB, 1 job`."""
        size = parameters.file_size // MIB
        jobs = f"{parameters.jobs} job{'s' if parameters.jobs > 1 else ''}"
        return f"HDFS, {parameters.files} × {size} MiB, {jobs}"

    def duration_s(self, parameters: DfsIoParameters) -> float:
        """Two starts of Java, and 50 MB/s."""
        moved = 2 * parameters.jobs * parameters.files * parameters.file_size
        return 10.0 + moved / 50e6

    def prepare(self, parameters: DfsIoParameters, context: Context) -> Sequence[Task]:
        """An empty file system."""
        return (Task("namenode", self._argv(parameters, context, "namenode", "format")),)

    def tasks(self, parameters: DfsIoParameters, context: Context) -> Sequence[Task]:
        """Both servers, and the jobs."""
        timeout_s = parameters.timeout_s
        servers = {"namenode": "NameNode RPC up at", "datanode": "successfully registered with NN"}
        services = [
            Task(
                role,
                self._argv(parameters, context, role, role),
                service=True,
                ready=ready,
                ready_s=min(300.0, timeout_s),
                stop_s=20.0,
                timeout_s=timeout_s + 600,
            )
            for role, ready in servers.items()
        ]
        return *services, *(
            Task(
                f"job-{job}",
                (
                    *self._argv(parameters, context, f"job-{job}", "dfsio"),
                    *self._size(parameters, job),
                ),
                timeout_s=timeout_s,
            )
            for job in range(parameters.jobs)
        )

    def _argv(
        self, parameters: DfsIoParameters, context: Context, role: str, what: str
    ) -> tuple[str, ...]:
        addresses = (context.addresses["namenode"], context.addresses[role])
        return ("./hadoop.sh", *addresses, str(parameters.heap // MIB), what)

    def _size(self, parameters: DfsIoParameters, job: int) -> tuple[str, ...]:
        sizes = (job, parameters.files, int(parameters.file_size), parameters.maps)
        return tuple(map(str, sizes))

    def check(self, parameters: DfsIoParameters, outputs: Mapping[str, Output]) -> None:
        """Every job wrote and read as many files and bytes as it was asked to."""
        for job in self._jobs(parameters, outputs):
            for step in (job.write, job.read):
                mib = parameters.files * parameters.file_size // MIB
                if (step.files, step.mib) != (parameters.files, mib):
                    raise InvalidTrialError(
                        f"{parameters.files} files of {mib} MiB together were asked for, "
                        f"{step.files:.0f} of {step.mib:.0f} MiB were moved"
                    )
                if not (step.throughput > 0 and step.seconds > 0):
                    raise InvalidTrialError("its throughput or time is not above 0")

    def parse(
        self, parameters: DfsIoParameters, outputs: Mapping[str, Output]
    ) -> dict[str, Scalar | Curve]:
        """The figures of checked jobs."""
        jobs = self._jobs(parameters, outputs)
        names = [f"job-{number}" for number in range(parameters.jobs)]
        found: dict[str, Scalar | Curve] = {
            "seconds": max(outputs[name].seconds for name in names),
            "write_throughput": sum(job.write.throughput for job in jobs) * MIB,
            "read_throughput": sum(job.read.throughput for job in jobs) * MIB,
        }
        if use := network(jobs[0].seen):
            found["network_use"] = use
        return found

    def _jobs(self, parameters: DfsIoParameters, outputs: Mapping[str, Output]) -> list[Job]:
        names = [f"job-{number}" for number in range(parameters.jobs)]
        return [read_job(ended(outputs, name).stdout) for name in names]
