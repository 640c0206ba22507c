"""The plan: what a user writes in `plan.yaml`, checked field by field.

`ullage.common.fields` reads it and says what is wrong; `ullage.plan.matrix` turns it into the
environments and workloads of a run.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any, Final, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ByteSize,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    SerializerFunctionWrapHandler,
    StringConstraints,
    TypeAdapter,
    model_serializer,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from ullage.common.errors import PLAN_BAD_FIELD, PLAN_IS_ELASTIC, UllageError
from ullage.common.fields import (
    Fields,
    Reader,
    check_fields,
    check_kind,
    check_names,
    checked,
)
from ullage.common.quantities import Bytes, Delay, Fraction, Seconds, Share
from ullage.common.yamlfile import FieldPath, YamlFile
from ullage.environments.placement import Resources
from ullage.host.network.links import NetworkLink
from ullage.nodes.options import MOST as MOST_NODES
from ullage.nodes.options import NodePlan, Place, expanded
from ullage.runs.records import Correction, Design, Price
from ullage.runs.room import OUTPUTS
from ullage.stats.unseen import trials_to_see, unseen

MOST: Final = 1024
MOST_FACTOR: Final = 1000
MOST_BLOCKS: Final = 100_000
_FIT: Final = re.compile(r"fit\s+(\d{1,6}(?:\.\d{1,6})?)\s*(%?)")


class Fit(BaseModel):
    """`fit 0.8`: so many that their CPUs are this part of the host's."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    factor: Decimal = Field(gt=0, le=MOST_FACTOR)

    def __str__(self) -> str:
        """As it is written in a plan."""
        return f"fit {self.factor.normalize():f}"

    def copies(self, cpus: float, of: int) -> int:
        """V = ⌊factor · CPUs of the host / CPUs of an instance⌋, in exact decimals."""
        return int(self.factor * of // Decimal(str(cpus)))


def _copies(value: object) -> object:
    """`fit 0.8`, `fit 80%` → Fit; a number is taken as it is.

    All is checked here, so that a complaint names the field and not a member of the union.
    """
    if isinstance(value, Fit):
        return value
    match = _FIT.fullmatch(value.strip()) if isinstance(value, str) else None
    factor = Decimal(match[1]) / (100 if match[2] else 1) if match else Decimal(0)
    if 0 < factor <= MOST_FACTOR:
        return Fit(factor=factor)
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MOST:
        return value
    raise ValueError(
        f"a whole number from 1 to {MOST}, or `fit 0.8`: as many as fit on 0.8 of the host's CPUs"
    )


_Written = Annotated[str, Field(pattern=r"^\s*fit\s+[0-9.]+\s*%?\s*$", examples=["fit 0.8"])]
Copies = Annotated[
    int | Fit,
    BeforeValidator(
        _copies, json_schema_input_type=Annotated[int, Field(ge=1, le=MOST)] | _Written
    ),
]
"""A number of instances, or `fit FACTOR`."""


def host_cpus() -> int:
    """CPUs that instances can be placed on."""
    return len(os.sched_getaffinity(0))


NUISANCES = ("cpus", "pinning", "memory", "userland", "instances")
"""What must be equal over the environments unless the plan allows it by name."""
NODE_NUISANCES = ("cpu-model", "kernel", "governor", "node-memory")
"""The same of the machines that they stand on, where a plan has `nodes`."""


Labels = Annotated[
    dict[
        Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]{0,39}$")],
        Annotated[str, StringConstraints(pattern=r"^[ -~]{1,200}$")],
    ],
    Field(max_length=16),
]
"""Name → one line of plain text."""


class Until(Fields):
    """When a run may stop before it has all its blocks."""

    half_width: Fraction | None = Field(
        None, description="when the widest primary interval has this half width, `2%`"
    )
    verdicts: Literal["all", "likely"] | None = Field(
        None,
        description="`all`: when every primary comparison has a verdict; each leaves with its own; "
        "`likely`: those that will hardly get one by `max` leave too",
    )

    @model_validator(mode="after")
    def _one(self) -> Until:
        if (self.half_width is None) == (self.verdicts is None):
            raise ValueError("either `half_width: 2%` or `verdicts: all`: one rule ends a run")
        return self

    @model_serializer(mode="wrap")
    def _as_written(self, whole: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Only the rule that there is, as runs from before there were two have it."""
        return {name: value for name, value in whole(self).items() if value is not None}


class Blocks(Fields):
    """How many blocks to run."""

    min: int = Field(6, ge=1, le=MOST_BLOCKS, description="never stop before so many blocks")
    max: int = Field(40, ge=1, le=MOST_BLOCKS, description="never run more blocks")
    until: Until | None = Field(
        None, description="stop when the intervals are this narrow, or every verdict is there"
    )
    budget: Seconds | None = Field(
        None, description="start no block that would end after this long"
    )

    @model_validator(mode="after")
    def _in_order(self) -> Blocks:
        if self.min > self.max:
            raise ValueError(f"min ({self.min}) is larger than max ({self.max})")
        return self

    @property
    def races(self) -> bool:
        """Comparisons leave as they are decided."""
        return self.until is not None and self.until.verdicts is not None


class Repeat(Fields):
    """The levels of repetition other than the block."""

    instances: int | None = Field(
        None,
        ge=1,
        le=100_000,
        strict=True,
        description="make all instances anew after so many blocks",
    )
    iterations: int = Field(
        1,
        ge=1,
        le=1000,
        strict=True,
        description="do the work so many times in a row in each trial",
    )


Burner = Literal["ffmpeg", "stress-ng"]


class Neighbour(Fields):
    """What works beside each trial of an environment, in an instance of its own."""

    program: Burner = Field(
        "stress-ng", description="`stress-ng`, or `ffmpeg`, which encodes H.264 without end"
    )
    load: Literal["cpu", "memory", "disk"] = Field(
        "cpu", description="what stress-ng loads: CPUs, memory bandwidth, or the disk of /data"
    )
    busy: Share = Field(1.0, description="share of the time that stress-ng loads each CPU")
    environment: str = Field(
        "host", description="where it stands: `host`, or an environment of the plan, such as a VM"
    )
    cpus: Literal["same", "other"] = Field(
        "same", description="on the CPUs of the instance under test, or on others"
    )

    @model_validator(mode="after")
    def _possible(self) -> Neighbour:
        if self.program == "ffmpeg" and "load" in self.model_fields_set:
            raise ValueError("`load` is stress-ng's: ffmpeg loads CPUs")
        if self.busy < 1 and (self.program == "ffmpeg" or self.load != "cpu"):
            raise ValueError("only stress-ng's `load: cpu` can be busy for a part of the time")
        return self


ImageName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][^\x00-\x1f]{0,999}$")]


class ContainerImage(Fields):
    """A container image of the user's that one environment runs from."""

    oci: ImageName = Field(description="its name, as in the plan's `image`")
    root: Literal["read-only", "writable"] = Field(
        "read-only", description="`writable`: as in the plan's `image`"
    )


class Settings(Fields):
    """Of an environment: what may be a factor, whatever its provider."""

    image: ContainerImage | None = Field(
        None,
        description="a container image of its own, `{oci: NAME}`, in place of the plan's; needs"
        " `allow: [userland]` where others differ",
    )
    instances: Copies = Field(
        1, description="copies that run each trial together; `fit 0.8`: as many as fit"
    )
    neighbour: Neighbour | None = Field(
        None, description="what works beside each of its trials; absent: nothing"
    )
    resources: Resources = Field(
        Resources(), description="what is other than the plan's; needs `allow:`"
    )
    place: Place | None = Field(
        None,
        description="on which of `nodes` its instances stand: `pack`, all on the first; `spread`,"
        " in turn on all; `{NODE: 2}`, so many on each; absent: `pack`",
    )


class EnvironmentPlan(BaseModel):
    """One environment. Fields not named here belong to its provider."""

    # Those, and the ones of `Settings`, are kept as they are written: they are checked once, with
    # the values of the factors in place.
    model_config = ConfigDict(extra="allow", frozen=True)

    provider: str = Field(description="`native`, `oci`, `lxc`, `qemu`")
    price: Price | None = Field(
        None, description="of one instance: `{per_hour: 0.12, currency: EUR}`"
    )
    vary: dict[str, list[Any]] = Field({}, description="factors: field (or `a.b`) → its values")

    @property
    def written(self) -> dict[str, Any]:
        """All that may be a factor."""
        return dict(self.model_extra or {})

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Editors see the fields of `Settings` among the others."""
        reference = handler(core_schema)
        settings = handler.resolve_ref_schema(handler(Settings.__pydantic_core_schema__))
        # Left out, they are the plan's.
        settings["properties"]["resources"].pop("default")
        handler.resolve_ref_schema(reference)["properties"].update(settings["properties"])
        return reference


class WorkloadPlan(BaseModel):
    """One workload. Fields not named here are its parameters."""

    model_config = ConfigDict(extra="allow", frozen=True, populate_by_name=True)

    name: str = Field(description="`sysbench-cpu`, `iperf3` …: docs/reference/workloads.md has all")
    alias: str | None = Field(None, alias="as", description="what to call it, when it stands twice")
    vary: dict[str, list[Any]] = Field({}, description="factors: parameter → its values")

    @property
    def parameters(self) -> dict[str, Any]:
        """The workload's own fields."""
        return dict(self.model_extra or {})


class MeterPlan(BaseModel):
    """One meter of energy or power. Fields not named here are its options."""

    model_config = ConfigDict(extra="allow", frozen=True)

    meter: str = Field(description="`rapl`, `nut` …: docs/guide/energy-meters.md has all")
    optional: bool = Field(
        False, description="where it is not there, run without it and say so, instead of refusing"
    )

    @property
    def options(self) -> dict[str, Any]:
        """The meter's own fields."""
        return dict(self.model_extra or {})


_INSIDE = r"^(/([^/\x00.][^/\x00]*|\.[^/\x00.][^/\x00]*|\.\.[^/\x00]+))+$"
"""Absolute, and neither `.` nor `..` in it."""
_Inside = Annotated[str, StringConstraints(pattern=_INSIDE, max_length=1000)]
_Word = Annotated[str, StringConstraints(pattern=r"^[^\x00]*$", max_length=65_536)]


class OwnImage(Fields):
    """What of the user's own every environment runs from: a container image, or more on ours."""

    packages: list[
        Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9+.-]+$", max_length=200)]
    ] = Field([], max_length=1000, description="Debian packages, beside those of the workloads")
    files: dict[Annotated[str, StringConstraints(min_length=1, max_length=4096)], _Inside] = Field(
        {}, max_length=1000, description="a file or directory here → its path inside, `/opt/app`"
    )
    run: list[Annotated[list[_Word], Field(min_length=1, max_length=1024)]] = Field(
        [],
        max_length=100,
        description="commands to run inside, in order, when the image is built; each a list",
    )
    root: Literal["read-only", "writable"] = Field(
        "read-only",
        description="`writable`: programs may write everywhere, in a layer of their instance",
    )
    oci: ImageName | None = Field(
        None,
        description="its name in Docker's or Podman's store here, or `docker-archive:FILE`,"
        " `oci-archive:FILE`, `oci:DIRECTORY:TAG`, `docker://HOST/NAME:TAG`",
    )

    @model_validator(mode="after")
    def _one(self) -> OwnImage:
        more = bool(self.packages or self.files or self.run)
        if (self.oci is not None) == more and (more or self.root == "read-only"):
            raise ValueError("either `oci`, or some of `packages`, `files` and `run`")
        return self


Causes = Literal["host", "guest"]


class Plan(Fields):
    name: str = Field(description="becomes part of the run folder's name")
    baseline: str = Field(description="the environment that all others are compared with")
    resources: Resources = Field(Resources(), description="bind every environment")
    network: NetworkLink | None = Field(
        None,
        description="each instance's link to the others, `{rate: 1Gbit}`, the same for every"
        " environment; absent: as fast as this host moves packets",
    )
    image: Literal["built", "host"] | OwnImage = Field(
        "built",
        description="what everything runs from: `built`, Debian with what the workloads need;"
        " `host`, the host's own tools, for native and container only; `{oci: NAME}`, a container"
        " image of yours; `{packages: [NAME]}`, `files` and `run`, more on what is built",
    )
    snapshot: str | None = Field(
        None,
        pattern=r"^https?://[A-Za-z0-9][A-Za-z0-9_.:/~%+-]+$",
        max_length=400,
        description="address of a mirror's archive of one instant, for the image's packages: the"
        " same plan then installs the same versions; absent: the host's own sources, as they are",
    )
    nodes: Annotated[dict[str, NodePlan], AfterValidator(expanded)] = Field(
        {},
        max_length=MOST_NODES,
        description="machines that instances stand on: name → `{ssh: root@a}`, `{local: true}` or "
        "`{slurm: 2}`;"
        " absent: this one",
    )
    environments: dict[str, EnvironmentPlan] = Field(min_length=1)
    workloads: list[WorkloadPlan] = Field(min_length=1)
    blocks: Blocks = Field(Blocks(), description="how many repetitions")
    rare: Fraction | None = Field(
        None,
        description="plan so many blocks that what befalls this share of the trials shows in each "
        "environment with a chance of 95 %: `2%` makes `blocks.min` 149 at least",
    )
    repeat: Repeat = Field(Repeat(), description="levels of repetition other than the block")
    design: Design = Field(
        "solo", description="`duet`: pairs of trials at the same time, each on half of the CPUs"
    )
    again: list[str] = Field(
        [], description="environments run twice in each block, beside the baseline"
    )
    margin: Fraction = Field(0.02, description="a cost within this is called equivalent")
    confidence: Fraction = Field(0.95, description="of every interval")
    correction: Correction = Field(
        "holm", description="for several verdicts: `holm` or `benjamini-hochberg`"
    )
    allow: list[
        Literal[
            "cpus",
            "pinning",
            "memory",
            "userland",
            "instances",
            "cpu-model",
            "kernel",
            "governor",
            "node-memory",
        ]
    ] = Field(
        [], description="nuisances that may differ; the report then says so in every sentence"
    )
    meters: dict[str, MeterPlan] = Field(
        {}, description="of energy or power, read during the run: label → meter and its options"
    )
    idle: Delay | None = Field(
        None,
        description="how long the host rests before the first block, for its idle power: `10s`",
    )
    causes: Causes = Field(
        "host",
        description="where CPUs are looked at: `guest`, also inside of VMs with a kernel of their"
        " own, by `perf` of the image",
    )
    outputs: Bytes = Field(
        ByteSize(OUTPUTS),
        gt=0,
        description="of the disk, raw outputs and all: a run that has more stops before its next"
        " trial, and can be taken up",
    )
    seed: int | None = Field(None, ge=0, lt=1 << 63, description="of the order; drawn when absent")
    labels: Labels = Field(
        {}, description="what `ullage history` tells runs apart by: `{commit: 3f2a9c1}`"
    )


def check(document: YamlFile) -> Plan:
    """Check the fields that all plans share; the matrix checks the rest."""
    check_fields(document, "plan", "`ullage init` writes one")
    check_kind(document, own="workloads", foreign="arrivals", wrong=PLAN_IS_ELASTIC)
    plan = checked(Plan, document.data, document, ())
    check_names(document, _names(plan))
    plan = _with_rare(plan, document)
    _check_generations(plan, document)
    return plan


_READER: Final = Reader(check)
load, loads = _READER.load, _READER.loads


def labelled(plan: Plan, labels: Mapping[str, str]) -> Plan:
    """With these too, each in place of the plan's own of its name.

    Raises pydantic.ValidationError at a name or a text that no plan may have.
    """
    checked_labels = TypeAdapter(Labels).validate_python({**plan.labels, **labels})
    return plan.model_copy(update={"labels": checked_labels})


def _with_rare(plan: Plan, document: YamlFile) -> Plan:
    """With the blocks that `rare` asks for; whole generations. PLAN_BAD_FIELD if it may not be."""
    if plan.rare is None:
        return plan
    every = plan.repeat.instances or 1
    needed = -(-trials_to_see(plan.rare) // every) * every
    most = plan.blocks.max if "max" in plan.blocks.model_fields_set else MOST_BLOCKS
    if needed > most:
        raise UllageError(
            PLAN_BAD_FIELD,
            file=document.name,
            line=document.line(("rare",)),
            field="rare",
            found=f"{100 * plan.rare:g}%",
            allowed=f"it takes {needed:,} blocks to show, and at most {most:,} may run",
            suggestion=f"{most:,} blocks show what befalls {100 * unseen(most):.2g}% or more"
            + ("" if most == MOST_BLOCKS else f"; or write `blocks: {{max: {needed}}}`"),
        )
    least = max(plan.blocks.min, needed)
    blocks = plan.blocks.model_copy(update={"min": least, "max": max(plan.blocks.max, least)})
    return plan.model_copy(update={"blocks": blocks})


def _check_generations(plan: Plan, document: YamlFile) -> None:
    """Every generation is whole: their means count alike, and a run stops only between two."""
    every = plan.repeat.instances or 1
    for name in ("min", "max"):
        blocks = getattr(plan.blocks, name)
        if blocks % every:
            least, most = (-(-n // every) * every for n in (plan.blocks.min, plan.blocks.max))
            raise UllageError(
                PLAN_BAD_FIELD,
                file=document.name,
                line=document.line(("blocks", name)),
                field=f"blocks.{name}",
                found=blocks,
                allowed=f"all instances are made anew after {every} blocks (repeat.instances), and "
                f"a run has only whole generations: a multiple of {every}",
                suggestion=f"write `blocks: {{min: {least}, max: {most}}}`",
            )


def _names(plan: Plan) -> list[tuple[FieldPath, str]]:
    named: list[tuple[FieldPath, str]] = [(("name",), plan.name)]
    named += [(("environments", key), key) for key in plan.environments]
    named += [(("nodes", key), key) for key in plan.nodes]
    named += [
        (("workloads", i, "as"), workload.alias)
        for i, workload in enumerate(plan.workloads)
        if workload.alias is not None
    ]
    return named
