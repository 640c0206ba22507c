"""The JSON that `ullage-pipelines` prints for a pipeline: what dedup and ferret share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final, Literal, TypeVar

from pydantic import Field

from ullage.host import binaries
from ullage.workloads.base import (
    Context,
    InvalidTrialError,
    Output,
    Outputs,
    Parameters,
    Task,
    counted,
)
from ullage.workloads.output import Count, ReportPart, Seconds, check_echoes, output_of
from ullage.workloads.output import read as read_report

PROGRAM: Final = "ullage-pipelines"
CORPUS: Final = "corpus"
REFERENCE: Final = "reference"
OUTPUT: Final = "output"
SLACK_S: Final = 0.05
TIMEOUT_S: Final = 3600.0

CorpusSource = Literal["memory", "disk"]
ShareOfWork = Annotated[float, Field(ge=0, le=1)]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]

SOURCES: Final[Mapping[CorpusSource, str]] = {"memory": "memory", "disk": "direct"}
"""Source → what the program calls it: past the page cache is O_DIRECT."""


class PipelineParameters(Parameters):
    """How many threads, and where the input is."""

    threads: int = Field(
        1, ge=1, le=256, strict=True, description="threads of each of the middle stages, n"
    )
    source: CorpusSource = Field(
        "memory",
        description="`memory`: the input is read before the clock starts, and no disk is used; "
        "`disk`: it is read past the page cache (O_DIRECT) as the pipeline goes",
    )
    corpus_seed: int = Field(
        1, ge=0, lt=1 << 63, strict=True, description="the input follows from it and its sizes"
    )


class PipelineStage(ReportPart):
    """What the threads of a stage did, summed over them."""

    name: str
    threads: Count
    items: Count
    busy_s: Seconds
    cpu_s: Seconds
    wait_in_s: Seconds
    wait_out_s: Seconds
    busy_share: ShareOfWork


class Queue(ReportPart):
    """How deep a queue was, looked at whenever something had been put in."""

    name: str
    capacity: Count
    mean_depth: Seconds
    max_depth: Count


class CpuUse(ReportPart):
    """What the whole process used while the clock ran."""

    user_s: Seconds
    system_s: Seconds
    share: Annotated[float, Field(ge=0, lt=1e3)]
    cpus: Annotated[int, Field(ge=1, lt=1 << 20)]

    @property
    def seconds(self) -> float:
        """User and system time together."""
        return self.user_s + self.system_s


class PipelineResult(ReportPart):
    """What both pipelines print."""

    program: str
    version: str = Field(pattern=r"^[0-9A-Za-z.+-]{1,40}$")
    threads: Count
    source: str
    seconds: Annotated[float, Field(ge=1e-6, lt=1e9)]
    output_sha256: Digest
    cpu: CpuUse
    stages: list[PipelineStage] = Field(max_length=10)
    queues: list[Queue] = Field(max_length=10)


R = TypeVar("R", bound=PipelineResult)


def files() -> dict[str, Path]:
    """The program, to be put into the workspace."""
    return {PROGRAM: binaries.program(PROGRAM)}


def task(context: Context, command: str, *options: str) -> Task:
    """A run of the program in the workspace."""
    argv = (f"./{PROGRAM}", command, *options)
    return Task("main", argv, cwd=context.workspace, timeout_s=TIMEOUT_S)


def run_options(parameters: PipelineParameters) -> tuple[str, ...]:
    """The options that both pipelines have."""
    return (
        f"--threads={parameters.threads}",
        f"--source={SOURCES[parameters.source]}",
        f"--reference={REFERENCE}",
    )


def remove(context: Context) -> Task:
    """Removes what was made in the workspace."""
    files = (CORPUS, f"{CORPUS}.json", REFERENCE, OUTPUT)
    return Task("main", ("rm", "-f", *files), cwd=context.workspace)


def title(name: str, parameters: PipelineParameters, work: str) -> str:
    """`dedup, 30 % duplicates, 2 threads, disk`."""
    threads = counted(parameters.threads, "thread")
    disk = ", disk" if parameters.source == "disk" else ""
    return f"{name}, {work}, {threads}{disk}"


def read(model: type[R], outputs: Outputs) -> R:
    """The result that the program printed; raises InvalidTrialError with the first fault."""
    return read_report(model, output_of(outputs, "main").stdout)


def check_run(
    parameters: PipelineParameters,
    result: PipelineResult,
    output: Output,
    *,
    name: str,
    stages: Sequence[str],
    queues: Sequence[str],
) -> None:
    """The pipeline is the one that was asked for, and its times fit the process's.

    `stages` and `queues` are all of them, by name, in order; the first and the last stage have one
    thread, the others n.
    Raises InvalidTrialError.
    """
    n = parameters.threads
    expected = [(stage, n) for stage in stages]
    expected[0], expected[-1] = (stages[0], 1), (stages[-1], 1)
    check_echoes(
        ("program", name, result.program),
        ("threads", n, result.threads),
        ("source", SOURCES[parameters.source], result.source),
        ("stages", expected, [(stage.name, stage.threads) for stage in result.stages]),
        ("queues", list(queues), [queue.name for queue in result.queues]),
    )
    if result.seconds > output.seconds + SLACK_S:
        raise InvalidTrialError(
            f"it says {result.seconds} s, the whole process took {output.seconds} s"
        )
    if result.cpu.seconds > result.seconds * result.cpu.cpus + SLACK_S:
        raise InvalidTrialError(
            f"{result.cpu.seconds} s of CPU time do not fit {result.cpu.cpus} CPUs "
            f"and {result.seconds} s"
        )
    if not result.cpu.seconds > 0:
        raise InvalidTrialError("it used no CPU time")
    if any(queue.max_depth > queue.capacity for queue in result.queues):
        raise InvalidTrialError("a queue was deeper than it can be")
    if any(stage.items == 0 for stage in result.stages[1:2] + result.stages[-1:]):
        raise InvalidTrialError("a stage had nothing to do")


def facts(result: PipelineResult) -> dict[str, str]:
    """Of a checked result: its version, its share of the CPUs, its stages and its queues."""
    texts = {
        "version": result.version,
        "cpu_share": f"{result.cpu.share:.3f} of {result.cpu.cpus}",
    }
    for stage in result.stages:
        texts[f"stage_{stage.name}"] = (
            f"busy {stage.busy_share:.3f}: {stage.busy_s:.3f} s, {stage.cpu_s:.3f} s on a CPU; "
            f"waited {stage.wait_in_s:.3f} s for work, {stage.wait_out_s:.3f} s for room"
        )
    for queue in result.queues:
        texts[f"queue_{queue.name}"] = (
            f"depth {queue.mean_depth:.2f} on average, {queue.max_depth} at most, "
            f"{queue.capacity} fit"
        )
    return texts
