"""What an entry of the catalogue of errors is, and the exception that carries one."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class ExitCode(IntEnum):
    """What the process tells its caller."""

    DONE = 0
    GATE_FAILED = 1
    BAD_INPUT = 2
    SOME_CELLS_FAILED = 3
    INTERRUPTED = 130


@dataclass(frozen=True)
class ErrorKind:
    """One entry of the catalogue.

    `message` and `hint` are `str.format` templates over the facts given when it is raised.
    """

    code: str
    message: str
    hint: str
    exit_code: ExitCode = ExitCode.BAD_INPUT


class UllageError(Exception):
    """An error from the catalogue, with the facts of this case."""

    def __init__(self, kind: ErrorKind, **facts: object) -> None:
        self.kind = kind
        self.facts = facts
        super().__init__(f"{self.message} [{kind.code}]")

    @property
    def message(self) -> str:
        """What was found, in one sentence."""
        return self.kind.message.format(**self.facts)

    @property
    def hint(self) -> str:
        """What to do about it."""
        return self.kind.hint.format(**self.facts)

    @property
    def code(self) -> str:
        """The stable code, such as `plan-unknown-field`."""
        return self.kind.code
