"""Workload `testdfsio`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final, Literal, Self

from pydantic import ByteSize, Field, model_validator

from ullage.host.image_parts.artifacts import Artifact, maven
from ullage.runs.records import Coordinate, Metric
from ullage.workloads import sources
from ullage.workloads.base import (
    OTHER_NODE,
    Context,
    Figures,
    InvalidTrialError,
    Outputs,
    Parameters,
    Role,
    Task,
    Workload,
    counted,
)
from ullage.workloads.output import ReportLine, line, output_of, read_lines

MIB: Final = 1 << 20
BINS: Final = 10
"""Of the time of a job, in which the use of the network is given."""

_SUBMITTED: Final = re.compile(
    r"Submitted application (application_\d{1,19}_\d{1,9})$", re.M | re.A
)
_DONE: Final = re.compile(r"Job job_(\d{1,19}_\d{1,9}) completed successfully$", re.M | re.A)
_LOCAL: Final = re.compile(r"Running job: (job_local\d{1,19}_\d{1,9})$", re.M | re.A)
_LAUNCHED: Final = re.compile(r"^\s*Launched map tasks=(\d{1,9})$", re.M | re.A)
_CONTAINER: Final = re.compile(
    r"Container container_(\d{1,19}_\d{1,9})_\d\d_(\d{1,9}) transitioned from \w{1,20} to RUNNING$",
    re.M | re.A,
)

_COUNTERS: Final = re.compile(r"network (\d{1,19}) (\d{1,19}) (\d{1,19})")
_NAMES: Final = ("files", "mib", "throughput", "rate", "deviation", "seconds")


@dataclass(frozen=True)
class IoStep:
    """One `TestDFSIO`: writing or reading."""

    files: float
    mib: float
    throughput: float
    """MiB/s: all bytes over the sum of the map tasks' times."""
    seconds: float


@dataclass(frozen=True)
class DeviceCounters:
    """The counters of the network device at one instant."""

    at_ns: int
    bytes: int


@dataclass(frozen=True)
class Job:
    """Both steps, and what the network device counted meanwhile."""

    write: IoStep
    read: IoStep
    network: tuple[DeviceCounters, ...]


def read_job(text: str) -> Job:
    """The report of a job; InvalidTrialError with the first line that is not as it should be."""
    matches = [
        _COUNTERS.fullmatch(line) for line in text.split("\n") if line.startswith("network ")
    ]
    if not all(matches):
        raise InvalidTrialError("a line of the network's counters is not one")
    text_of_steps = "\n".join(line for line in text.split("\n") if not line.startswith("network "))
    expected = [*_step("write"), *_step("read"), line("step end")]
    figures = read_lines(_undated(text_of_steps), expected)
    write, read = ({n: figures[f"{n}_{step}"] for n in _NAMES} for step in ("write", "read"))
    return Job(_parsed(write), _parsed(read), tuple(_counters(match) for match in matches if match))


def _parsed(figures: dict[str, float]) -> IoStep:
    return IoStep(figures["files"], figures["mib"], figures["throughput"], figures["seconds"])


def _step(step: str) -> list[ReportLine]:
    labels = {
        "Number of files": "files",
        "Total MBytes processed": "mib",
        "Throughput mb/sec": "throughput",
        "Average IO rate mb/sec": "rate",
        "IO rate std deviation": "deviation",
        "Test exec time sec": "seconds",
    }
    figures = [_figure(label, f"{name}_{step}") for label, name in labels.items()]
    heading = (f"step {step}", f"----- TestDFSIO ----- : {step}", "Date & time: ")
    return [*(line(heading_line) for heading_line in heading), *figures]


def _figure(label: str, name: str) -> ReportLine:
    """With up to two decimals, as many as it has (`java.text.DecimalFormat("#.##")`)."""
    figure = rf"(?P<{name}>(?:[0-9]{{1,15}}|(?=\.))(?:\.[0-9]{{1,2}})?)"
    return ReportLine(f"{label}: <{name}>", re.compile(rf"{re.escape(label)}: +{figure}"))


def _undated(text: str) -> str:
    """Without the padding at the left, and without the date, which tells nothing."""
    lines = (line.strip(" ") for line in text.split("\n"))
    return "\n".join("Date & time: " if s.startswith("Date & time: ") else s for s in lines)


def _counters(match: re.Match[str]) -> DeviceCounters:
    at, received, sent = (int(group) for group in match.groups())
    return DeviceCounters(at, received + sent)


def network(samples: Sequence[DeviceCounters]) -> list[tuple[float, float]]:
    """(share of the time, B/s) for the middle of each of `BINS` parts; empty: too little was seen.

    Between two looks the rate is taken as constant.
    """
    if len(samples) < 2 or samples[-1].at_ns <= samples[0].at_ns:
        return []
    if any(b.at_ns <= a.at_ns or b.bytes < a.bytes for a, b in pairwise(samples)):
        raise InvalidTrialError("the counters of the network went backwards")
    first, length = samples[0].at_ns, samples[-1].at_ns - samples[0].at_ns
    edges = [first + length * i / BINS for i in range(BINS + 1)]
    counts = [_bytes_at(samples, edge) for edge in edges]
    rates = [(b - a) / (length / BINS / 1e9) for a, b in pairwise(counts)]
    return [((i + 0.5) / BINS, rate) for i, rate in enumerate(rates) if rate > 0]


def _bytes_at(samples: Sequence[DeviceCounters], instant: float) -> float:
    """Bytes at an instant, interpolated."""
    for a, b in pairwise(samples):
        if instant <= b.at_ns:
            share = (instant - a.at_ns) / (b.at_ns - a.at_ns)
            return a.bytes + share * (b.bytes - a.bytes)
    return float(samples[-1].bytes)


def yarn_applications(log: str, node: str, files: int) -> list[str]:
    """The two applications of a job, write and read: YARN ran them, with a map task for each file.

    log: that of the job; node: that of the NodeManager, which was not asked by the job. It must
    have started a container for each map task, for the reducer and for who watches over them.
    """
    if local := _LOCAL.search(log):
        raise InvalidTrialError(f"{local[1]} ran in the job's own Java machine, not on YARN")
    submitted, done = _SUBMITTED.findall(log), _DONE.findall(log)
    if len(submitted) != 2 or [f"application_{job}" for job in done] != submitted:
        raise InvalidTrialError(
            f"YARN was to run two applications: {len(submitted)} were submitted, {len(done)} done"
        )
    launched = [int(count) for count in _LAUNCHED.findall(log)]
    if launched != [files, files]:
        few = ", ".join(map(str, launched[:4])) + (", …" if len(launched) > 4 else "")
        raise InvalidTrialError(f"{files} map tasks were asked for, YARN launched [{few}]")
    started = {match.groups() for match in _CONTAINER.finditer(node)}
    for job in done:
        if (count := sum(starter == job for starter, _ in started)) != files + 2:
            raise InvalidTrialError(
                f"the NodeManager started {count} containers of job {job}, not {files + 2}"
            )
    return submitted


_HERE: Final = Path(__file__).resolve().parent
_CONTAINER_MIB: Final = 256
"""What a Java machine takes beside its heap, as YARN is told."""
_MACHINE: Final = 150 * MIB
"""Less than any of Hadoop's Java machines took: 200 to 280 MiB with the default heap."""
MOST_ON_YARN: Final = 1000
"""Files of all jobs. A NodeManager says some 4 KiB of each container, and 8 MiB are looked at."""


def _jars() -> tuple[Artifact, ...]:
    """Hadoop with all that it needs: see `hadoop_jars/pom.xml`."""
    listed = (_HERE / "hadoop_jars" / "jars.txt").read_text(encoding="ascii").splitlines()
    return tuple(
        maven(group, name, version, sha256, into="/opt/hadoop", classifier="".join(classifier))
        for group, name, version, sha256, *classifier in map(str.split, listed)
    )


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
    runner: Literal["local", "yarn"] = Field(
        "local",
        description="who runs the map tasks: the job's own Java machine, or YARN, each task in a "
        "Java machine of its own",
    )
    heap: ByteSize = Field(
        ByteSize(256 * MIB), ge=128 * MIB, le=1 << 40, description="heap of each Java machine"
    )
    timeout_s: float = Field(
        1800,
        gt=0,
        le=86_400,
        allow_inf_nan=False,
        description="seconds after which a job is ended; each server has as long to be up",
    )

    @model_validator(mode="after")
    def _yarn_tells_of_all(self) -> Self:
        if self.runner == "yarn" and self.jobs * self.files > MOST_ON_YARN:
            raise ValueError(
                f"at most {MOST_ON_YARN} files of all jobs together with `runner: yarn`: what it "
                "says of its containers would be more than is looked at"
            )
        return self


class DfsIo(Workload[DfsIoParameters]):
    """Hadoop's own benchmark of its file system: writes files, and reads them again (`TestDFSIO`).

    HDFS 3.4.1 from the jars of Maven Central: a NameNode and the jobs stand in the instance, the
    DataNode where `datanode` says, so the blocks cross the network. Replication is 1. Java computes
    checksums, since Hadoop's native library is not in the jars. The page cache of whoever keeps the
    blocks helps the reading, unless files are larger than its memory.

    With `runner: local`, map tasks are threads of the job's own Java machine (LocalJobRunner). With
    `runner: yarn`, a ResourceManager and a NodeManager stand in the instance too, and each task,
    the reducer that adds up and the one that watches over the job (ApplicationMaster) is a Java
    machine of its own in a container of YARN: `heap` + 256 MiB of memory each, `maps` + 1 at once
    for a job. Six to eight machines of 200 to 280 MiB, with one job and the defaults, fill an
    instance of 2 GiB. No task is tried again or done twice. A trial counts only where the job says
    that YARN ran it, with a map task for each file, and the NodeManager started as many
    containers; the facts name the applications.

    One trial formats nothing: the first act of its jobs is to remove the files of the trial before,
    and with them what YARN staged and its history. Its time is that of the slowest job from the
    agreed start to its end, with the start of its two Java machines in it, as the figures of
    `network-pipeline` (2017, of [the studies](../../guide/studies.md): 315 to 756 s for 1 to 3
    jobs) have it, and with what YARN takes to start its own; rates are TestDFSIO's own.

    Hadoop's own deadlines of one or two minutes for an answer are ten here, and `timeout_s` is what
    ends a job. YARN was seen to work in `oci` and `lxc`; in a VM without KVM, on a busy host, its
    servers took 8 minutes to come up, and no trial has been seen to its end.
    """

    name = "testdfsio"
    resource = "network"
    packages = ("openjdk-17-jre-headless",)
    source = (
        "Apache Hadoop 3.4.1, `org.apache.hadoop.fs.TestDFSIO`: <https://hadoop.apache.org/docs/r3.4.1/>",
        sources.NETWORK_PIPELINE,
    )
    parameters_model = DfsIoParameters
    artifacts = _jars()
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

    def programs(self, parameters: DfsIoParameters) -> Mapping[str, str]:
        """Hadoop itself is in the artifacts."""
        return {"java": "openjdk-17-jre-headless"}

    def roles(self, parameters: DfsIoParameters) -> Sequence[Role]:
        """The NameNode and the jobs in the instance, the DataNode where it was asked for."""
        place = "instance" if parameters.datanode == "same" else parameters.datanode
        yarn = ("resourcemanager", "nodemanager") if parameters.runner == "yarn" else ()
        jobs = (f"job-{number}" for number in range(parameters.jobs))
        return Role("namenode"), Role("datanode", place), *map(Role, (*yarn, *jobs))

    def least_memory(self, parameters: DfsIoParameters) -> int:
        """By its Java machines in the instance: servers, jobs, and what runs in containers."""
        machines = 1 + (parameters.datanode == "same") + parameters.jobs
        if parameters.runner == "yarn":
            machines += 2 + parameters.jobs * (1 + min(parameters.maps, parameters.files))
        return machines * _MACHINE

    def files(self, parameters: DfsIoParameters) -> Mapping[str, Path]:
        return {file.name: file for file in sorted((_HERE / "hadoop").iterdir())}

    def title(self, parameters: DfsIoParameters) -> str:
        """`HDFS, 2 × 16 MiB, 1 job on YARN`."""
        size = parameters.file_size // MIB
        jobs = counted(parameters.jobs, "job")
        runner = " on YARN" if parameters.runner == "yarn" else ""
        places = {"same": "", "second": "", "away": f", blocks on {OTHER_NODE}"}
        where = places[parameters.datanode]
        return f"HDFS, {parameters.files} × {size} MiB, {jobs}{runner}{where}"

    def duration_s(self, parameters: DfsIoParameters) -> float:
        """Two starts of Java, or of YARN's containers one after another; and 50 MB/s."""
        moved = 2 * parameters.jobs * parameters.files * parameters.file_size
        return (60.0 if parameters.runner == "yarn" else 10.0) + moved / 50e6

    def prepare(self, parameters: DfsIoParameters, context: Context) -> Sequence[Task]:
        """An empty file system."""
        argv = self._argv(parameters, context, "namenode", "format")
        return (Task("namenode", argv, timeout_s=parameters.timeout_s),)

    def tasks(self, parameters: DfsIoParameters, context: Context) -> Sequence[Task]:
        timeout_s = parameters.timeout_s
        services = [
            Task(
                role,
                (*self._argv(parameters, context, role, role), *arguments),
                service=True,
                ready=ready,
                ready_s=timeout_s,
                stop_signal=signal,
                stop_s=20.0,
                timeout_s=2 * timeout_s + 60,
            )
            for role, arguments, ready, signal in _servers(parameters)
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
        self, parameters: DfsIoParameters, context: Context, role: str, command: str
    ) -> tuple[str, ...]:
        addresses = (context.addresses["namenode"], context.addresses[role])
        return ("./hadoop.sh", *addresses, str(parameters.heap // MIB), command)

    def _size(self, parameters: DfsIoParameters, job: int) -> tuple[str, ...]:
        sizes = (job, parameters.files, int(parameters.file_size), parameters.maps)
        return (*map(str, sizes), parameters.runner, str(_container_mib(parameters)))

    def check(self, parameters: DfsIoParameters, outputs: Outputs) -> None:
        """Every job wrote and read as many files and bytes as it was asked to, where it was."""
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
        if parameters.runner == "yarn":
            self._applications(parameters, outputs)

    def parse(self, parameters: DfsIoParameters, outputs: Outputs) -> Figures:
        jobs = self._jobs(parameters, outputs)
        names = _names(parameters)
        figures: Figures = {
            "seconds": max(outputs[name].seconds for name in names),
            "write_throughput": sum(job.write.throughput for job in jobs) * MIB,
            "read_throughput": sum(job.read.throughput for job in jobs) * MIB,
        }
        if use := network(jobs[0].network):
            figures["network_use"] = use
        return figures

    def facts(self, parameters: DfsIoParameters, outputs: Outputs) -> dict[str, str]:
        """What YARN called each job's writing and reading."""
        if parameters.runner == "local":
            return {}
        return {"applications": ", ".join(self._applications(parameters, outputs))}

    def _applications(self, parameters: DfsIoParameters, outputs: Outputs) -> list[str]:
        node = outputs["nodemanager"].stderr if "nodemanager" in outputs else ""
        logs = (output_of(outputs, name).stderr for name in _names(parameters))
        return [
            application
            for job in logs
            for application in yarn_applications(job, node, parameters.files)
        ]

    def _jobs(self, parameters: DfsIoParameters, outputs: Outputs) -> list[Job]:
        return [read_job(output_of(outputs, name).stdout) for name in _names(parameters)]


def _names(parameters: DfsIoParameters) -> list[str]:
    return [f"job-{number}" for number in range(parameters.jobs)]


def _container_mib(parameters: DfsIoParameters) -> int:
    return parameters.heap // MIB + _CONTAINER_MIB


def _servers(parameters: DfsIoParameters) -> list[tuple[str, tuple[str, ...], str, int]]:
    """Role, arguments, what it says once it is up, and the signal that ends it.

    The ResourceManager keeps nothing from trial to trial, and has nothing to end in order.
    """
    servers: list[tuple[str, tuple[str, ...], str, int]] = [
        ("namenode", (), "NameNode RPC up at", 15),
        ("datanode", (), "successfully registered with NN", 15),
    ]
    if parameters.runner == "yarn":
        memory = (str(parameters.jobs * (parameters.maps + 1) * _container_mib(parameters)),)
        servers += [
            ("resourcemanager", memory, "Transitioned to active state", 9),
            ("nodemanager", memory, "Registered with ResourceManager as", 15),
        ]
    return servers
