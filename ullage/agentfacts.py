"""What an agent says of its machine in `hello`: known, bounded and harmless, or refused.

It is kept in every run's journal, so it must be as flat and short as
docs/internals/agent-protocol.md says.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from ullage.agentframes import FrameError
from ullage.printable import printable

LONGEST_TEXT: Final = 200
MOST_CPUS: Final = 1 << 16

Text = Annotated[str, AfterValidator(lambda text: printable(text, LONGEST_TEXT))]
Number = Annotated[int, Field(ge=0, lt=1 << 63)]
Cpu = Annotated[int, Field(ge=0, lt=MOST_CPUS)]


class Facts(BaseModel):
    """The facts that the protocol knows. An agent leaves out or nulls what it cannot tell."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    hostname: Text | None = None
    kernel: Text | None = None
    machine: Text | None = None
    os: Text | None = None
    uid: Number | None = None
    pid: Number | None = None
    cpus_online: Number | None = None
    cpus_allowed: Annotated[list[Cpu], Field(max_length=MOST_CPUS)] | None = None
    cpu_model: Text | None = None
    cpu_quota: Annotated[float, Field(ge=0, le=MOST_CPUS)] | None = None
    memory_total_bytes: Number | None = None
    memory_limit_bytes: Number | None = None
    clocksource: Text | None = None
    hypervisor: Text | None = None
    init: bool | None = None


def checked(found: dict[str, Any]) -> dict[str, Any]:
    """The facts, fit to be stored and shown; FrameError when they are not those of the protocol."""
    try:
        return Facts.model_validate(found).model_dump(exclude_unset=True)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = printable(".".join(map(str, fault["loc"])), 60)
        raise FrameError(f"hello: the fact {where}: {fault['msg']}") from None
