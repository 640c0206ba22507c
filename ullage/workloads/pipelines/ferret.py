"""Workload `ferret`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

from pydantic import Field, model_validator

from ullage.runs.records import Metric
from ullage.workloads import sources
from ullage.workloads.base import Context, Figures, InvalidTrialError, Outputs, Task, Workload
from ullage.workloads.output import Count, ReportPart, Seconds, check_echoes
from ullage.workloads.pipelines import programs
from ullage.workloads.pipelines.programs import CORPUS, REFERENCE, Digest, ShareOfWork

ImageFormat = Literal["pixels", "jpeg"]
STAGES: Final = ("load", "segment", "extract", "index", "rank", "out")
QUEUES: Final = ("images", "segments", "features", "candidates", "ranked")
IMAGE_BYTES: Final[Mapping[ImageFormat, int]] = {"pixels": 128 * 128 * 3, "jpeg": 16_384}
"""Of an image's place in the corpus."""
SPEED: Final = 500.0
"""Images a second of one thread, for the estimate of the first run."""
TABLES: Final = 8
PROJECTIONS: Final = 8
WIDTH: Final = 1000


class FerretParameters(programs.PipelineParameters):
    """The images, and what is searched for."""

    queries: int = Field(
        1024, ge=1, le=1_000_000, strict=True, description="images to search with: the work"
    )
    images: int = Field(512, ge=1, le=1_000_000, strict=True, description="images of the database")
    classes: int = Field(
        32, ge=1, le=1_000_000, strict=True, description="scenes that all images are variations of"
    )
    k: int = Field(10, ge=1, le=1000, strict=True, description="nearest images to find")
    candidates: int = Field(
        128, ge=1, le=1_000_000, strict=True, description="most candidates that are ranked"
    )
    # Left out of records while they have their default, so that earlier runs are of the same work.
    image_format: ImageFormat = Field(
        "pixels",
        description="what the load stage reads: `jpeg` files, which it decodes as the original's "
        "does, or `pixels`, of which nothing is decoded",
        exclude_if=lambda given: bool(given == "pixels"),
    )
    tables: int = Field(
        TABLES,
        ge=1,
        le=64,
        strict=True,
        description="hash tables of the index: more find more candidates",
        exclude_if=lambda given: bool(given == TABLES),
    )
    projections: int = Field(
        PROJECTIONS,
        ge=1,
        le=32,
        strict=True,
        description="projections that make up a table's key: more make its buckets finer",
        exclude_if=lambda given: bool(given == PROJECTIONS),
    )
    width: int = Field(
        WIDTH,
        ge=1,
        le=100_000,
        strict=True,
        description="width of a bucket in thousandths of a feature's range: wider ones hold more",
        exclude_if=lambda given: bool(given == WIDTH),
    )
    least_recall: float = Field(
        0.9, ge=0, le=1, description="a trial that finds a smaller share of the exact answers fails"
    )

    @model_validator(mode="after")
    def _possible(self) -> FerretParameters:
        if self.k > self.images:
            raise ValueError(f"k must be at most images, {self.images}")
        if self.k > self.candidates:
            raise ValueError(f"k must be at most candidates, {self.candidates}")
        return self


class Ferret(Workload[FerretParameters]):
    """Search for similar images as a pipeline on threads, after PARSEC's ferret (ours).

    Six stages: load (1 thread) → segment (n) → extract (n) → index (n) → rank (n) → out (1), 4n +
    2 threads with bounded queues, as PARSEC's (Bienia et al. 2008, doi:10.1145/1454115.1454128;
    the toolkit is Lv et al. 2006, doi:10.1145/1217935.1217966). Each query image is cut into
    segments by statistical region merging (Nock and Nielsen 2004, doi:10.1109/TPAMI.2004.110);
    each segment is described by nine moments of colour and five numbers of its bounding box (after
    Lv et al. 2004, doi:10.1145/1031171.1031213); locality-sensitive hashing finds images with near
    segments (Datar et al. 2004, doi:10.1145/997817.997857: p-stable, Gaussian, `tables` of
    `projections` each); and those are ranked by the earth mover's distance between the two sets of
    weighted segments over Euclid's between segments (Rubner et al. 2000,
    doi:10.1023/A:1026543900054), which is exact.

    The images are generated in each instance before the first block, the same bytes everywhere:
    128 × 128 pixels, a textured ground with textured shapes; those of one class are variations of
    the same scene. There too the database is segmented, all queries are answered exactly by
    comparing with every image, and by one thread through the index. In every trial, after the
    clock, the SHA-256 of corpus and answers are compared with these, and the share of the exact
    answers that was found (recall at k) with `least_recall`. All that decides is in whole numbers,
    so the answers are the same on every machine.

    PARSEC's load stage decodes JPEG files, on its one thread. With `image_format: jpeg` it does so
    here: files of quality 85, each with zeros behind it in a place of 16 KiB. The decoder works in
    whole numbers, without vector instructions, so that all machines see the same pixels.

    With `source: memory` the queries are read before the clock starts; with `source: disk` each is
    read with O_DIRECT as the pipeline goes. Nothing is written while the clock runs. PARSEC's own
    native input has 3,500 queries and 59,695 images. `threads` is what a plan varies to see the
    speed-up.
    """

    name = "ferret"
    resource = "cpu"
    packages = ()
    source = (
        sources.PARSEC,
        "Q. Lv, W. Josephson, Z. Wang, M. Charikar, K. Li: Ferret: A Toolkit for Content-Based "
        "Similarity Search of Feature-Rich Data, EuroSys 2006, "
        "<https://doi.org/10.1145/1217935.1217966>",
        sources.NETWORK_PIPELINE,
    )
    parameters_model = FerretParameters
    scaling = ("threads",)
    metrics = (
        Metric(
            name="throughput",
            unit="1/s",
            better="higher",
            primary=True,
            description="Query images answered in a second.",
        ),
        Metric(
            name="recall",
            unit="1",
            better="higher",
            description="Share of the k nearest images, by comparing with all, that were found: "
            "follows from the images and the parameters alone.",
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
            description="Time within calls that read images. Absent with `source: memory`.",
        ),
    )

    def title(self, parameters: FerretParameters) -> str:
        """`ferret, 1024 queries, 1 thread`."""
        jpeg = ", JPEG" if parameters.image_format == "jpeg" else ""
        return programs.title("ferret", parameters, f"{parameters.queries} queries{jpeg}")

    def duration_s(self, parameters: FerretParameters) -> float:
        """At the usual speed of one thread."""
        return parameters.queries / SPEED

    def files(self, parameters: FerretParameters) -> Mapping[str, Path]:
        return programs.files()

    def prepare(self, parameters: FerretParameters, context: Context) -> Sequence[Task]:
        """Make the images, then the database, the exact answers and the reference."""
        return (
            programs.task(
                context,
                "ferret-corpus",
                f"--output={CORPUS}",
                f"--images={parameters.images}",
                f"--queries={parameters.queries}",
                f"--classes={parameters.classes}",
                f"--seed={parameters.corpus_seed}",
                f"--format={parameters.image_format}",
            ),
            programs.task(
                context,
                "ferret-reference",
                f"--corpus={CORPUS}",
                f"--output={REFERENCE}",
                f"--k={parameters.k}",
                f"--candidates={parameters.candidates}",
                f"--tables={parameters.tables}",
                f"--projections={parameters.projections}",
                f"--width={parameters.width}",
            ),
        )

    def tasks(self, parameters: FerretParameters, context: Context) -> Sequence[Task]:
        options = programs.run_options(parameters)
        return (programs.task(context, "ferret", f"--corpus={CORPUS}", *options),)

    def cleanup(self, parameters: FerretParameters, context: Context) -> Sequence[Task]:
        return (programs.remove(context),)

    def check(self, parameters: FerretParameters, outputs: Outputs) -> None:
        """The pipeline and images as asked, the answers of the reference, and enough of them."""
        result = programs.read(_Result, outputs)
        reference = result.reference
        check_echoes(
            ("images", parameters.images, reference.corpus.images),
            ("queries", parameters.queries, reference.corpus.queries),
            ("classes", parameters.classes, reference.corpus.classes),
            ("seed", parameters.corpus_seed, reference.corpus.seed),
            ("format", parameters.image_format, reference.corpus.format),
            ("k", parameters.k, reference.search.k),
            ("candidates", parameters.candidates, reference.search.candidates),
            ("tables", parameters.tables, reference.search.index.tables),
            ("projections", parameters.projections, reference.search.index.projections),
            ("width", parameters.width, reference.search.index.width),
            ("queries answered", parameters.queries, result.queries),
            (
                "bytes of input",
                parameters.queries * IMAGE_BYTES[parameters.image_format],
                result.input_bytes,
            ),
            ("SHA-256 of the images", reference.corpus.sha256, result.corpus_sha256),
            ("SHA-256 of the answers", reference.output_sha256, result.output_sha256),
            ("recall", reference.recall, result.recall),
        )
        if result.recall < parameters.least_recall or not result.recall > 0:
            raise InvalidTrialError(
                f"recall is {result.recall:.4f}, least_recall is {parameters.least_recall}"
            )
        if parameters.source == "disk" and not result.read_s > 0:
            raise InvalidTrialError("nothing was read from the disk while the clock ran")
        programs.check_run(
            parameters, result, outputs["main"], name=self.name, stages=STAGES, queues=QUEUES
        )

    def parse(self, parameters: FerretParameters, outputs: Outputs) -> Figures:
        result = programs.read(_Result, outputs)
        figures: Figures = {
            "throughput": result.queries / result.seconds,
            "recall": result.recall,
            "cpu_seconds": result.cpu.seconds,
        }
        if parameters.source == "disk":
            figures["io_seconds"] = result.read_s
        return figures

    def facts(self, parameters: FerretParameters, outputs: Outputs) -> dict[str, str]:
        result = programs.read(_Result, outputs)
        return {
            **programs.facts(result),
            "corpus_sha256": result.corpus_sha256,
            "output_sha256": result.output_sha256,
            "io": f"{result.read_share:.3f} of the time reading",
        }


class _Corpus(ReportPart):
    images: Count
    queries: Count
    classes: Count
    seed: Count
    format: str = "pixels"
    sha256: Digest


class _Index(ReportPart):
    tables: Count
    projections: Count
    width: Count


class _Search(ReportPart):
    k: Count
    candidates: Count
    index: _Index


class _Reference(ReportPart):
    corpus: _Corpus
    search: _Search
    output_sha256: Digest
    recall: ShareOfWork


class _Result(programs.PipelineResult):
    queries: Count
    input_bytes: Count
    recall: ShareOfWork
    corpus_sha256: Digest
    read_s: Seconds
    read_share: Seconds
    reference: _Reference
