"""A Hyper-V host: the system's ssh, and Windows' own PowerShell at its other end.

What runs there is always the same text. A request goes in as data, through standard input, and an
answer comes out between no other words than it said it would use; so neither a plan nor a host
puts anything into a command line, or into a script.
"""

from __future__ import annotations

import base64
import html
import json
import re
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn, TypeVar

from pydantic import ValidationError

from ullage.common.commands import CommandError, needed, run
from ullage.common.errors import (
    HYPERV_CREDENTIALS,
    HYPERV_LACKS,
    HYPERV_NO_ANSWER,
    HYPERV_NO_ROOM,
    HYPERV_REFUSED,
    HYPERV_UNREACHABLE,
    UllageError,
)
from ullage.common.faults import first_fault
from ullage.common.text import printable
from ullage.environments.hyperv.answers import MOST_BYTES, Complaint, HostAnswer, Result

OPERATIONS: Final = Path(__file__).with_name("operations.ps1")
BOOTSTRAP: Final = """\
$lines = @($input)
$utf8 = [Text.Encoding]::UTF8
$script = [ScriptBlock]::Create($utf8.GetString([Convert]::FromBase64String($lines[0])))
$data = $utf8.GetString([Convert]::FromBase64String($lines[1]))
$request = ConvertFrom-Json -InputObject $data
& $script $request
"""
"""Takes a script and its request from standard input; short enough for cmd.exe's command line."""

CALL_S: Final = 120.0
"""Of one request: PowerShell alone needs seconds to load its module."""
_SSH_FAILED: Final = 255
_OPTIONS: Final = (
    "BatchMode=yes",
    "ConnectTimeout=10",
    "ServerAliveInterval=5",
    "ServerAliveCountMax=6",
    "ClearAllForwardings=yes",
    "ForwardAgent=no",
    "ForwardX11=no",
    "PermitLocalCommand=no",
    "RequestTTY=no",
)
_CLOSED: Final = ("Permission denied", "Too many authentication failures")
_NO_MEMORY: Final = ("0x800705AA", "0x8007000E")
"""Windows' own codes, as its words are in the host's language: no resources, out of memory."""
_ERROR: Final = re.compile(r'<S S="Error">([^<]*)</S>')
_ESCAPED: Final = re.compile(r"_x00[0-9A-F]{2}_")
"""A line's end in that XML: `_x000D__x000A_`."""
_MOST_XML: Final = 100_000
_TOOLS: Final = "Install-WindowsFeature Hyper-V -IncludeManagementTools"

R = TypeVar("R", bound=Result)


@dataclass(frozen=True)
class HypervHost:
    """One host, as the user's ssh calls it."""

    address: str
    config: Path | None = None

    def argv(self) -> list[str]:
        """The command line that has PowerShell read a script and a request."""
        argv = [needed("ssh", "openssh-client"), "-T"]
        if self.config is not None:
            argv += ["-F", str(self.config)]
        for option in _OPTIONS:
            argv += ["-o", option]
        encoded = base64.b64encode(BOOTSTRAP.encode("utf-16-le")).decode()
        command = f"powershell -NoProfile -NonInteractive -EncodedCommand {encoded}"
        return [*argv, "--", self.address, command]

    async def ask(self, operation: str, model: type[R], timeout_s: float, **data: str | int) -> R:
        """What the host answers. HYPERV_UNREACHABLE, HYPERV_CREDENTIALS, HYPERV_NO_ANSWER, and
        what the host refuses: HYPERV_LACKS, HYPERV_NO_ROOM, HYPERV_REFUSED.
        """
        mark = f"ullage-{secrets.token_hex(8)}:"
        request = json.dumps({"operation": operation, "mark": mark, **data})
        lines = (OPERATIONS.read_text(encoding="utf-8"), request)
        text = "".join(f"{base64.b64encode(line.encode()).decode()}\n" for line in lines)
        try:
            printed = await run(self.argv(), stdin=text, timeout_s=timeout_s, reason=_last_words)
        except CommandError as error:
            raise self._failure(operation, error) from error
        answer = self._answer(operation, mark, printed)
        if answer.error is not None:
            self._refuse(operation, answer.error, str(data.get("name", operation)))
        try:
            return model.model_validate(answer.result)
        except ValidationError as error:
            raise self._no_answer(operation, first_fault(error)) from error

    def _answer(self, operation: str, mark: str, printed: str) -> HostAnswer:
        """What stands behind the mark, whatever a profile or a banner has printed around it."""
        _, marked, rest = printed.partition(mark)
        if not marked:
            words = printable(printed.strip()[-200:], 200)
            raise self._no_answer(operation, f"it said {words!r}" if words else "it said nothing")
        if len(rest) > MOST_BYTES:
            raise self._no_answer(operation, f"more than {MOST_BYTES >> 20} MiB")
        try:
            data = base64.b64decode("".join(rest.split(maxsplit=1)[:1]), validate=True)
            return HostAnswer.model_validate_json(data)
        except ValueError as error:
            raise self._no_answer(operation, "what came is not whole") from error

    def _no_answer(self, operation: str, reason: str) -> UllageError:
        return UllageError(HYPERV_NO_ANSWER, host=self.address, operation=operation, reason=reason)

    def _failure(self, operation: str, error: CommandError) -> UllageError:
        """ssh's own words, or PowerShell's."""
        if error.status != _SSH_FAILED:
            return self._no_answer(operation, error.reason)
        if any(words in error.reason for words in _CLOSED):
            return UllageError(HYPERV_CREDENTIALS, host=self.address, reason=error.reason)
        return UllageError(HYPERV_UNREACHABLE, host=self.address, reason=error.reason)

    def _refuse(self, operation: str, complaint: Complaint, name: str) -> NoReturn:
        host, reason = self.address, printable(complaint.words, 300)
        if "ModuleNotFound" in complaint.id or "CommandNotFound" in complaint.id:
            raise UllageError(HYPERV_LACKS, host=host, what=f"Hyper-V: {reason}", command=_TOOLS)
        if complaint.category == "PermissionDenied":
            raise UllageError(HYPERV_CREDENTIALS, host=host, reason=reason)
        if any(code in complaint.words for code in _NO_MEMORY):
            raise UllageError(HYPERV_NO_ROOM, host=host, name=name, reason=reason)
        raise UllageError(HYPERV_REFUSED, host=host, operation=operation, reason=reason)


def _last_words(stderr: str) -> str:
    """The end of what ssh or PowerShell said. PowerShell tells errors and progress as XML."""
    lines = [line for line in stderr.strip().splitlines() if not line.startswith("#< CLIXML")]
    spoken = [words for line in lines for words in _spoken(line)]
    return printable(" ".join(spoken[-3:]), 300)


def _spoken(line: str) -> list[str]:
    """The line, or of an XML of PowerShell's its errors."""
    if not line.startswith("<Objs "):
        return [line]
    errors = [html.unescape(words) for words in _ERROR.findall(line[:_MOST_XML])]
    return [_ESCAPED.sub(" ", words).strip() for words in errors]
