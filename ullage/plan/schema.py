"""The plan: what a user writes in `plan.yaml`, checked field by field.

`ullage.common.fields` reads it and says what is wrong; `ullage.plan.matrix` turns it into the
environments and workloads of a run.
"""

from __future__ import annotations

import os
import re
from decimal import Decimal
from typing import Annotated, Any, Final, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
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
from ullage.common.quantities import Delay, Fraction, Seconds, Share
from ullage.common.yamlfile import FieldPath, YamlFile
from ullage.environments.placement import Resources
from ullage.runs.records import Correction, Design, Price

MOST: Final = 256
MOST_FACTOR: Final = 1000
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


class Until(Fields):
    """The precision at which a run may stop."""

    half_width: Fraction = Field(description="half width of the widest primary interval, `2%`")


class Blocks(Fields):
    """How many blocks to run."""

    min: int = Field(6, ge=1, le=100_000, description="never stop before so many blocks")
    max: int = Field(40, ge=1, le=100_000, description="never run more blocks")
    until: Until | None = Field(None, description="stop when every primary interval is this narrow")
    budget: Seconds | None = Field(
        None, description="start no block that would end after this long"
    )

    @model_validator(mode="after")
    def _in_order(self) -> Blocks:
        if self.min > self.max:
            raise ValueError(f"min ({self.min}) is larger than max ({self.max})")
        return self


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


class Settings(Fields):
    """Of an environment: what may be a factor, whatever its provider."""

    instances: Copies = Field(
        1, description="copies that run each trial together; `fit 0.8`: as many as fit"
    )
    neighbour: Neighbour | None = Field(
        None, description="what works beside each of its trials; absent: nothing"
    )
    resources: Resources = Field(Resources(), description="other than the plan's; needs `allow:`")


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


class Plan(Fields):
    name: str = Field(description="becomes part of the run folder's name")
    baseline: str = Field(description="the environment that all others are compared with")
    resources: Resources = Field(Resources(), description="bind every environment")
    image: Literal["built", "host"] = Field(
        "built", description="`host`: the host's own tools, for native and container only"
    )
    snapshot: str | None = Field(
        None,
        pattern=r"^https?://[A-Za-z0-9][A-Za-z0-9_.:/~%+-]+$",
        max_length=400,
        description="address of a mirror's archive of one instant, for the image's packages: the"
        " same plan then installs the same versions; absent: the host's own sources, as they are",
    )
    environments: dict[str, EnvironmentPlan] = Field(min_length=1)
    workloads: list[WorkloadPlan] = Field(min_length=1)
    blocks: Blocks = Field(Blocks(), description="how many repetitions")
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
    allow: list[Literal["cpus", "pinning", "memory", "userland", "instances"]] = Field(
        [], description="nuisances that may differ; the report then says so in every sentence"
    )
    meters: dict[str, MeterPlan] = Field(
        {}, description="of energy or power, read during the run: label → meter and its options"
    )
    idle: Delay | None = Field(
        None,
        description="how long the host rests before the first block, for its idle power: `10s`",
    )
    seed: int | None = Field(None, ge=0, description="of the order; drawn when absent")


def check(document: YamlFile) -> Plan:
    """Check the fields that all plans share; the matrix checks the rest."""
    check_fields(document, "plan", "`ullage init` writes one")
    check_kind(document, own="workloads", foreign="arrivals", wrong=PLAN_IS_ELASTIC)
    plan = checked(Plan, document.data, document, ())
    check_names(document, _names(plan))
    _check_generations(plan, document)
    return plan


_READER: Final = Reader(check)
load, loads = _READER.load, _READER.loads


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
    named += [
        (("workloads", i, "as"), workload.alias)
        for i, workload in enumerate(plan.workloads)
        if workload.alias is not None
    ]
    return named
