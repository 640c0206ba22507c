"""Workload `command`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Annotated, Final

from pydantic import Field, StringConstraints, model_validator

from ullage.runs.records import Metric
from ullage.workloads import own_metrics
from ullage.workloads.base import (
    Context,
    Figures,
    InvalidTrialError,
    Outputs,
    Parameters,
    Role,
    Task,
    Workload,
)
from ullage.workloads.output import output_of, quoted
from ullage.workloads.own_metrics import OwnMetric, OwnMetrics

Argument = Annotated[str, StringConstraints(pattern=r"^[^\x00]*$", max_length=65_536)]
MetricName = Annotated[
    str, StringConstraints(pattern=r"^[a-z][a-z0-9]*(_[a-z0-9]+)*$", max_length=40)
]
MOST_METRICS: Final = 64
CHECK: Final = "check"
"""The role of what proves the work."""


class CommandParameters(Parameters):
    """The program, and how to tell that it worked."""

    argv: list[Argument] = Field(
        [],
        max_length=1024,
        description="the program and its arguments, as a list; no shell reads it; absent: the entry"
        " point of `image: {oci: NAME}`",
    )
    expect_status: int = Field(0, ge=0, le=255, strict=True, description="exit status of success")
    expect_output: str | None = Field(
        None, min_length=1, description="text that its standard output must hold"
    )
    metrics: dict[MetricName, OwnMetric] = Field(
        {},
        max_length=MOST_METRICS,
        description="figures that it prints: [how](../../guide/own-command.md#figures)",
    )
    check: list[Argument] | None = Field(
        None,
        min_length=1,
        max_length=1024,
        description="what proves the work: runs after the program, in the same directory, and is "
        "not timed; a status other than 0 makes the trial invalid",
    )
    timeout_s: float = Field(
        600, gt=0, le=86_400, allow_inf_nan=False, description="seconds after which it is ended"
    )

    @model_validator(mode="after")
    def _names_are_free(self) -> CommandParameters:
        refuse_taken(self.metrics, OwnCommand.metrics)
        return self


def refuse_taken(metrics: OwnMetrics, ours: Iterable[Metric]) -> None:
    """ValueError for a metric that is called as one of ours."""
    for metric in ours:
        if metric.name in metrics:
            raise ValueError(
                f"{metric.name} is a metric of the workload already: give another name"
            )


def check_task(argv: Sequence[str], context: Context) -> Task:
    """What proves the work of a trial."""
    return Task(CHECK, tuple(argv), cwd=context.workspace).of_image(context.image)


def refuse_failed_check(outputs: Outputs) -> None:
    """InvalidTrialError with what `check` printed, unless it ended with the status 0."""
    output = outputs[CHECK]
    if output.status != 0 or output.signal is not None:
        printed = (output.stderr.strip() or output.stdout.strip())[-200:]
        raise InvalidTrialError(
            f"its check ended with status {output.status}: {quoted(printed, 200)}"
        )


class OwnCommand(Workload[CommandParameters]):
    """Any program of yours, timed from outside: from just before it starts to when it has ended.

    It counts as done when it ends by itself with `expect_status`, has printed `expect_output`, and
    `check` agrees. It runs in a directory of its own; what it needs must be in the image. Figures
    that it prints itself are `metrics`: where one of them is primary, the time gets no verdict.
    """

    name = "command"
    resource = "other"
    packages = ()
    source = (
        "ours: the time that the agent takes, [its protocol](../../internals/agent-protocol.md)",
    )
    parameters_model = CommandParameters
    guards_memory = True
    metrics = (
        Metric(
            name="seconds",
            unit="s",
            better="lower",
            primary=True,
            description="Elapsed time of the program.",
        ),
        Metric(
            name="cpu_seconds",
            unit="s",
            better="lower",
            description="CPU time of the program and of the children it waited for, user and "
            "system. Absent when the kernel counted none.",
        ),
        Metric(
            name="peak_memory",
            unit="B",
            better="lower",
            description="Most memory that one of its processes had (resident set): the program, or "
            "a child it waited for.",
        ),
    )

    def metrics_of(self, parameters: CommandParameters) -> tuple[Metric, ...]:
        own = tuple(metric.metric(name) for name, metric in parameters.metrics.items())
        if not any(metric.primary for metric in own):
            return (*self.metrics, *own)
        ours = (metric.model_copy(update={"primary": False}) for metric in self.metrics)
        return (*ours, *own)

    def roles(self, parameters: CommandParameters) -> Sequence[Role]:
        return (Role("main"),) if parameters.check is None else (Role("main"), Role(CHECK))

    def title(self, parameters: CommandParameters) -> str:
        text = " ".join(parameters.argv) or "of the image"
        return f"command {text if len(text) <= 40 else f'{text[:39]}…'}"

    def runs_entry_point(self, parameters: CommandParameters) -> bool:
        return not parameters.argv

    def duration_s(self, parameters: CommandParameters) -> float:
        return 1.0

    def tasks(self, parameters: CommandParameters, context: Context) -> Sequence[Task]:
        return (
            Task(
                "main",
                tuple(parameters.argv),
                cwd=context.workspace,
                timeout_s=parameters.timeout_s,
            ).of_image(context.image),
        )

    def after(self, parameters: CommandParameters, context: Context) -> Sequence[Task]:
        return () if parameters.check is None else (check_task(parameters.check, context),)

    def check(self, parameters: CommandParameters, outputs: Outputs) -> None:
        output = output_of(outputs, "main", parameters.expect_status)
        if parameters.expect_output is not None and parameters.expect_output not in output.stdout:
            raise InvalidTrialError(
                f"its output does not hold {quoted(parameters.expect_output)}; "
                f"it begins {quoted(output.stdout, 60)}"
            )
        if not (math.isfinite(output.seconds) and output.seconds > 0):
            raise InvalidTrialError(f"its elapsed time is {output.seconds} s")
        if parameters.check is not None:
            refuse_failed_check(outputs)
        own_metrics.read(parameters.metrics, output)

    def parse(self, parameters: CommandParameters, outputs: Outputs) -> Figures:
        output = outputs["main"]
        figures: Figures = {"seconds": output.seconds}
        if output.cpu_s:
            figures["cpu_seconds"] = output.cpu_s
        if output.usage is not None and output.usage.max_rss_bytes:
            figures["peak_memory"] = float(output.usage.max_rss_bytes)
        return {**figures, **own_metrics.read(parameters.metrics, output)}

    def steps(self, parameters: CommandParameters, outputs: Outputs) -> dict[str, float]:
        return own_metrics.steps(parameters.metrics, outputs["main"])
