"""Workload `dedup`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

from pydantic import ByteSize, Field

from ullage.runs.records import Metric
from ullage.workloads import sources
from ullage.workloads.base import Context, Figures, InvalidTrialError, Outputs, Task, Workload
from ullage.workloads.output import Count, ReportPart, Seconds, check_echoes
from ullage.workloads.pipelines import programs
from ullage.workloads.pipelines.programs import CORPUS, OUTPUT, REFERENCE, Digest

STAGES: Final = ("fragment", "refine", "deduplicate", "compress", "reorder")
QUEUES: Final = ("fragments", "chunks", "unique", "done")
SPEED: Final = 120e6
"""B/s of one thread, for the estimate of the first run."""


class DedupParameters(programs.PipelineParameters):
    """The input, how it is cut, and how what is left is compressed."""

    size: ByteSize = Field(
        ByteSize(256 << 20), ge=1 << 20, le=1 << 40, description="bytes of the input"
    )
    duplicates: float = Field(
        0.3, ge=0, le=0.95, description="share of the input's segments that are copies"
    )
    compressible: float = Field(
        0.75, ge=0, le=1, description="share of the rest that is text; what is left is random bytes"
    )
    chunking: Literal["rabin", "fastcdc"] = Field(
        "rabin", description="how chunks are cut: Rabin's fingerprint as published, or FastCDC"
    )
    level: int = Field(
        3, ge=0, le=19, strict=True, description="of zstd; 0: chunks are not compressed"
    )


class Dedup(Workload[DedupParameters]):
    """Deduplication and compression as a pipeline on threads, after PARSEC's dedup (ours).

    Five stages: fragment (1 thread) cuts the input coarsely, at the first anchor from 2 MiB on, at
    4 MiB at the latest; refine (n) cuts fragments into chunks; deduplicate (n) looks each chunk's
    SHA-256 up in a table; compress (n) compresses first occurrences by zstd; reorder (1) puts all
    in order again and writes. That is PARSEC's plan (Bienia et al. 2008,
    doi:10.1145/1454115.1454128): 3n + 2 threads with bounded queues, duplicates pass by the
    compression. Cuts are PARSEC 3.0's too: a Rabin fingerprint over 32 bytes, polynomial
    0x45c2b6a1, mask 0xfff, chunks of 1 KiB at least (its source declares that minimum and leaves it
    out; here it holds). `chunking: fastcdc` cuts by FastCDC instead (Xia et al. 2020,
    doi:10.1109/TPDS.2020.2984632), a gear hash.

    What differs from PARSEC: a fragment ends at 4 MiB at the latest, which is ours alone, SHA-256
    in place of SHA-1, zstd in place of gzip, queues hold 64 chunks at a time in place of 20, and
    the output is the same bytes for every number of threads. Two chunks with one SHA-256 would be
    taken for equal; no such pair is known.

    The input is generated in each instance before the first block, the same bytes everywhere: its
    SHA-256 stands with each trial's facts. It is segments of 16 to 128 KiB, each fresh or, with the
    chance `duplicates`, a copy of an earlier one from anywhere; fresh ones are text of 8,192 words
    or random bytes. There too one thread makes the reference output, which is decompressed and
    compared with the input byte by byte. In every trial, after the clock, the SHA-256 of input and
    output are compared with the reference's: an input that changed, an output that differs or a
    missing file gives no figure.

    With `source: memory` the input is read before the clock starts and the output stays in memory:
    allow twice `size`. With `source: disk` the input is read with O_DIRECT and the output is
    written to a file, and on the disk when the clock stops. PARSEC's own native input has 672 MB;
    `threads` is what a plan varies to see the speed-up.
    """

    name = "dedup"
    resource = "cpu"
    packages = ()
    source = (
        sources.PARSEC,
        "W. Xia et al.: The Design of Fast Content-Defined Chunking for Data Deduplication Based "
        "Storage Systems, IEEE TPDS 31(9), 2020, <https://doi.org/10.1109/TPDS.2020.2984632>",
        sources.NETWORK_PIPELINE,
    )
    parameters_model = DedupParameters
    scaling = ("threads",)
    metrics = (
        Metric(
            name="throughput",
            unit="B/s",
            better="higher",
            primary=True,
            description="Bytes of input in a second, from the first read to the last write.",
        ),
        Metric(
            name="output_ratio",
            unit="1",
            better="lower",
            description="Bytes of output for a byte of input: follows from the input and the "
            "parameters alone.",
        ),
        Metric(
            name="cpu_seconds",
            unit="s",
            better="lower",
            description="CPU time of all threads, their own and the kernel's for them, while the "
            "clock ran.",
        ),
        Metric(
            name="io_seconds",
            unit="s",
            better="lower",
            description="Time within calls that read the input, write the output and flush it; "
            "reading and writing may be at the same time. Absent with `source: memory`.",
        ),
    )

    def title(self, parameters: DedupParameters) -> str:
        """`dedup, 30 % duplicates, 1 thread`."""
        return programs.title("dedup", parameters, f"{100 * parameters.duplicates:g} % duplicates")

    def duration_s(self, parameters: DedupParameters) -> float:
        """At a few levels' usual speed."""
        return parameters.size / SPEED

    def files(self, parameters: DedupParameters) -> Mapping[str, Path]:
        return programs.files()

    def prepare(self, parameters: DedupParameters, context: Context) -> Sequence[Task]:
        """Make the input, then the reference: by one thread, decompressed and compared."""
        return (
            programs.task(
                context,
                "dedup-corpus",
                f"--output={CORPUS}",
                f"--size={int(parameters.size)}",
                f"--duplicates={parameters.duplicates!r}",
                f"--compressible={parameters.compressible!r}",
                f"--seed={parameters.corpus_seed}",
            ),
            programs.task(
                context,
                "dedup-reference",
                f"--corpus={CORPUS}",
                f"--output={REFERENCE}",
                *_packing(parameters),
            ),
        )

    def tasks(self, parameters: DedupParameters, context: Context) -> Sequence[Task]:
        disk = (f"--output={OUTPUT}", "--sync") if parameters.source == "disk" else ()
        return (
            programs.task(
                context,
                "dedup",
                f"--input={CORPUS}",
                *programs.run_options(parameters),
                *_packing(parameters),
                *disk,
            ),
        )

    def cleanup(self, parameters: DedupParameters, context: Context) -> Sequence[Task]:
        return (programs.remove(context),)

    def check(self, parameters: DedupParameters, outputs: Outputs) -> None:
        """The pipeline and input as asked, and the output that the reference has."""
        result = programs.read(_Result, outputs)
        corpus = result.reference.corpus
        check_echoes(
            ("size", int(parameters.size), corpus.size),
            ("duplicates", float(parameters.duplicates), corpus.duplicates),
            ("compressible", float(parameters.compressible), corpus.compressible),
            ("seed", parameters.corpus_seed, corpus.seed),
            ("chunking", parameters.chunking, result.chunking),
            ("level", parameters.level or None, result.level),
            ("flushed", parameters.source == "disk", result.sync),
            ("bytes of input", int(parameters.size), result.input_bytes),
            ("SHA-256 of the input", corpus.sha256, result.input_sha256),
            ("bytes of output", result.reference.output_bytes, result.output_bytes),
            ("SHA-256 of the output", result.reference.output_sha256, result.output_sha256),
        )
        if not 0 < result.unique_chunks <= result.chunks:
            raise InvalidTrialError(
                f"{result.unique_chunks} unique chunks of {result.chunks} cannot be"
            )
        if result.output_bytes == 0:
            raise InvalidTrialError("there is no output")
        if parameters.source == "disk" and not result.io.read_s > 0:
            raise InvalidTrialError("nothing was read from the disk while the clock ran")
        programs.check_run(
            parameters, result, outputs["main"], name=self.name, stages=STAGES, queues=QUEUES
        )

    def parse(self, parameters: DedupParameters, outputs: Outputs) -> Figures:
        result = programs.read(_Result, outputs)
        figures: Figures = {
            "throughput": result.input_bytes / result.seconds,
            "output_ratio": result.output_bytes / result.input_bytes,
            "cpu_seconds": result.cpu.seconds,
        }
        if parameters.source == "disk":
            figures["io_seconds"] = result.io.read_s + result.io.write_s
        return figures

    def facts(self, parameters: DedupParameters, outputs: Outputs) -> dict[str, str]:
        """The input, what was found in it, and what each stage and queue was like."""
        result = programs.read(_Result, outputs)
        return {
            **programs.facts(result),
            "input_sha256": result.input_sha256,
            "output_sha256": result.output_sha256,
            "chunks": f"{result.chunks}, {result.unique_chunks} unique",
            "sha_extensions": "yes" if result.sha_extensions else "no",
            "io": f"{result.io.read_share:.3f} of the time reading, "
            f"{result.io.write_share:.3f} writing",
        }


def _packing(parameters: DedupParameters) -> tuple[str, ...]:
    return f"--chunking={parameters.chunking}", f"--level={parameters.level}"


class _Corpus(ReportPart):
    size: Count
    duplicates: float
    compressible: float
    seed: Count
    sha256: Digest


class _Reference(ReportPart):
    corpus: _Corpus
    output_bytes: Count
    output_sha256: Digest


class _Io(ReportPart):
    read_s: Seconds
    write_s: Seconds
    read_share: Seconds
    write_share: Seconds


class _Result(programs.PipelineResult):
    chunking: str
    level: int | None
    sync: bool
    input_bytes: Count
    output_bytes: Count
    chunks: Count
    unique_chunks: Count
    input_sha256: Digest
    reference: _Reference
    io: _Io
    sha_extensions: bool
