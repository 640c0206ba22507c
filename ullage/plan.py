"""The plan: what a user writes in `plan.yaml`, checked field by field.

Every complaint names the file, the line, the field, what was found, what is allowed and the nearest
valid name. `ullage.matrix` turns a plan into the environments and workloads of a run.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from ullage.copies import Copies
from ullage.errors import (
    PLAN_BAD_FIELD,
    PLAN_BAD_NAME,
    PLAN_IMPOSSIBLE_MATRIX,
    PLAN_NO_BASELINE,
    PLAN_UNKNOWN_FIELD,
    UllageError,
)
from ullage.nearest import nearest
from ullage.quantities import Bytes, Delay, Fraction, Memory, Seconds, Share
from ullage.runs import Correction, Design, Price
from ullage.yamlfile import FieldPath, YamlFile, parse, read

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")
"""Names become folders, cgroups and devices, so they are plain."""

NUISANCES = ("cpus", "pinning", "memory", "userland", "instances")
"""What must be equal over the environments unless the plan allows it by name."""


class Fields(BaseModel):
    """Base of the plan's parts: unknown fields are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Resources(Fields):
    """What every environment gets, the native one too."""

    cpus: float = Field(
        1, gt=0, le=1024, description="CPUs: whole ones are pinned; a fraction is a quota"
    )
    memory: Memory = Field(
        Bytes(1 << 30),
        ge=64 << 20,
        description="memory limit, `1GiB`; `host`: all that there is, so no limit",
    )


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


class EnvironmentPlan(BaseModel):
    """One environment. Fields not named here belong to its provider."""

    model_config = ConfigDict(extra="allow", frozen=True)

    provider: str = Field(description="`native`, `oci`, `lxc`, `qemu`")
    instances: Copies = Field(
        1, description="copies that run each trial together; `fit 0.8`: as many as fit"
    )
    price: Price | None = Field(
        None, description="of one instance: `{per_hour: 0.12, currency: EUR}`"
    )
    resources: Resources | None = Field(None, description="other than the plan's; needs `allow:`")
    neighbour: Neighbour | None = Field(
        None, description="what works beside each of its trials; absent: nothing"
    )
    vary: dict[str, list[Any]] = Field({}, description="factors: field (or `a.b`) → its values")

    @property
    def options(self) -> dict[str, Any]:
        """The provider's own fields."""
        return dict(self.model_extra or {})


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

    meter: str = Field(description="`rapl`, `nut`, `wattsup` …: docs/energy-meters.md has all")
    optional: bool = Field(
        False, description="where it is not there, run without it and say so, instead of refusing"
    )

    @property
    def options(self) -> dict[str, Any]:
        """The meter's own fields."""
        return dict(self.model_extra or {})


class Plan(Fields):
    """A whole plan."""

    name: str = Field(description="becomes part of the run folder's name")
    baseline: str = Field(description="the environment that all others are compared with")
    resources: Resources = Field(Resources(), description="bind every environment")
    image: Literal["built", "host"] = Field(
        "built", description="`host`: the host's own tools, for native and container only"
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


def load(file: Path) -> tuple[Plan, YamlFile]:
    """Read and check a plan file; every fault is a UllageError that names the line."""
    document = read(file)
    return check(document), document


def loads(text: str, name: str = "plan.yaml") -> tuple[Plan, YamlFile]:
    """The same from a string."""
    document = parse(text, name)
    return check(document), document


def check(document: YamlFile) -> Plan:
    """Check the fields that all plans share; the matrix checks the rest."""
    if not isinstance(document.data, dict):
        raise UllageError(
            PLAN_BAD_FIELD,
            file=document.name,
            line=1,
            field="the plan",
            found="no fields" if document.data is None else type(document.data).__name__,
            allowed="a plan is a list of `field: value`",
            suggestion="`ullage init` writes one",
        )
    plan = checked(Plan, document.data, document, ())
    for path, name in _names(plan):
        if not NAME.fullmatch(name) or ".." in name:
            raise UllageError(
                PLAN_BAD_NAME, file=document.name, line=document.line(path), found=repr(name)
            )
    for path, name in [(("baseline",), plan.baseline)] + [
        (("again", i), name) for i, name in enumerate(plan.again)
    ]:
        if name.partition("[")[0] not in plan.environments:
            raise no_environment(document, path, name, list(plan.environments))
    _check_generations(plan, document)
    return plan


def _check_generations(plan: Plan, document: YamlFile) -> None:
    """Every generation is whole: their means count alike, and a run stops only between two."""
    every = plan.repeat.instances or 1
    for name in ("min", "max"):
        found = getattr(plan.blocks, name)
        if found % every:
            least, most = (-(-n // every) * every for n in (plan.blocks.min, plan.blocks.max))
            raise UllageError(
                PLAN_BAD_FIELD,
                file=document.name,
                line=document.line(("blocks", name)),
                field=f"blocks.{name}",
                found=found,
                allowed=f"all instances are made anew after {every} blocks (repeat.instances), and "
                f"a run has only whole generations: a multiple of {every}",
                suggestion=f"write `blocks: {{min: {least}, max: {most}}}`",
            )


def no_environment(
    document: YamlFile, path: FieldPath, name: str, known: Sequence[str]
) -> UllageError:
    """The complaint about a field that should name an environment and does not."""
    where = {"file": document.name, "line": document.line(path), "found": repr(name)}
    if path == ("baseline",):
        return UllageError(PLAN_NO_BASELINE, **where, allowed=", ".join(known))
    return UllageError(
        PLAN_BAD_FIELD,
        **where,
        field=".".join(map(str, path)),
        allowed=f"one of the environments: {', '.join(known)}",
        suggestion=nearest(name, known),
    )


def impossible(document: YamlFile, path: FieldPath, reason: str, suggestion: str) -> UllageError:
    """The complaint about what is well written, and cannot be made."""
    return UllageError(
        PLAN_IMPOSSIBLE_MATRIX,
        file=document.name,
        line=document.line(path),
        reason=reason,
        suggestion=suggestion,
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


M = TypeVar("M", bound=BaseModel)


def checked(
    model: type[M], data: Any, document: YamlFile, at: FieldPath, also: Sequence[str] = ()
) -> M:
    """Validate `data` (which stands at path `at` of the document) or raise the first fault.

    `also`: names that may stand there too, because another model reads them.
    """
    try:
        return model.model_validate(data)
    except ValidationError as error:
        faults = error.errors(include_url=False)
        # A misspelt field is also a missing one: say the former.
        fault = next((f for f in faults if f["type"] == "extra_forbidden"), faults[0])
        path = (*at, *fault["loc"])
        where = {"file": document.name, "line": document.line(path)}
        field = ".".join(str(part) for part in path) or "the plan"
        if fault["type"] == "extra_forbidden":
            allowed = allowed_fields(model, fault["loc"][:-1])
            allowed += also if len(fault["loc"]) == 1 else ()
            raise UllageError(
                PLAN_UNKNOWN_FIELD,
                **where,
                field=field,
                allowed=", ".join(allowed),
                suggestion=nearest(str(path[-1]), allowed),
            ) from error
        missing = fault["type"] == "missing"
        reason = fault["msg"].removeprefix("Value error, ")
        if fault["type"] == "model_type":  # pydantic would name a class of ours
            reason = "a mapping, `field: value`"
        raise UllageError(
            PLAN_BAD_FIELD,
            **where,
            field=field,
            found="nothing" if missing else shown(fault["input"]),
            allowed="this field is needed" if missing else reason[:1].lower() + reason[1:],
            suggestion=_describe(model, fault["loc"]),
        ) from error


def shown(value: object, limit: int = 60) -> str:
    """A value of the user's, short enough for a message."""
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def allowed_fields(model: type[BaseModel], path: FieldPath) -> list[str]:
    """The field names of the model that stands at `path` below `model`."""
    found = _model_at(model, path)
    return [field.alias or name for name, field in found.model_fields.items()]


def _describe(model: type[BaseModel], path: FieldPath) -> str:
    names = [part for part in path if isinstance(part, str)]
    parent = _model_at(model, path[:-1]) if path else model
    for name, field in parent.model_fields.items():
        if names and names[-1] in (name, field.alias) and field.description:
            return f"{names[-1]}: {field.description}"
    return "mend the field; docs/plan.md describes every one"


def _model_at(model: type[BaseModel], path: FieldPath) -> type[BaseModel]:
    """Follow field names through nested models, skipping list indices and dictionary keys."""
    for part in path:
        field = model.model_fields.get(part) if isinstance(part, str) else None
        inner = _models_in(field.annotation) if field else []
        if inner:
            model = inner[0]
    return model


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [m for part in getattr(annotation, "__args__", ()) for m in _models_in(part)]
