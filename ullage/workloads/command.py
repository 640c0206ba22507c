"""Workload `command`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated

from pydantic import Field, StringConstraints

from ullage.runs.records import Metric
from ullage.workloads.base import (
    Context,
    Figures,
    InvalidTrialError,
    Outputs,
    Parameters,
    Task,
    Workload,
)
from ullage.workloads.output import output_of, quoted

Argument = Annotated[str, StringConstraints(pattern=r"^[^\x00]*$", max_length=65_536)]


class CommandParameters(Parameters):
    """The program, and how to tell that it worked."""

    argv: list[Argument] = Field(
        min_length=1,
        max_length=1024,
        description="the program and its arguments, as a list; no shell reads it",
    )
    expect_status: int = Field(0, ge=0, le=255, strict=True, description="exit status of success")
    expect_output: str | None = Field(
        None, min_length=1, description="text that its standard output must hold"
    )
    timeout_s: float = Field(
        600, gt=0, le=86_400, allow_inf_nan=False, description="seconds after which it is ended"
    )


class Command(Workload[CommandParameters]):
    """Any program of yours, timed from outside: from just before it starts to when it has ended.

    It counts as done when it ends by itself with `expect_status` and has printed `expect_output`.
    It runs in a directory of its own; what it needs must be in the image.
    """

    name = "command"
    resource = "other"
    packages = ()
    source = (
        "ours: the time that the agent takes, [its protocol](../../internals/agent-protocol.md)",
    )
    parameters_model = CommandParameters
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
    )

    def title(self, parameters: CommandParameters) -> str:
        text = " ".join(parameters.argv)
        return f"command {text if len(text) <= 40 else f'{text[:39]}…'}"

    def duration_s(self, parameters: CommandParameters) -> float:
        return 1.0

    def tasks(self, parameters: CommandParameters, context: Context) -> Sequence[Task]:
        return (
            Task(
                "main",
                tuple(parameters.argv),
                cwd=context.workspace,
                timeout_s=parameters.timeout_s,
            ),
        )

    def check(self, parameters: CommandParameters, outputs: Outputs) -> None:
        output = output_of(outputs, "main", parameters.expect_status)
        if parameters.expect_output is not None and parameters.expect_output not in output.stdout:
            raise InvalidTrialError(
                f"its output does not hold {quoted(parameters.expect_output)}; "
                f"it begins {quoted(output.stdout, 60)}"
            )
        if not (math.isfinite(output.seconds) and output.seconds > 0):
            raise InvalidTrialError(f"its elapsed time is {output.seconds} s")

    def parse(self, parameters: CommandParameters, outputs: Outputs) -> Figures:
        output = outputs["main"]
        figures: Figures = {"seconds": output.seconds}
        if output.cpu_s:
            figures["cpu_seconds"] = output.cpu_s
        return figures
