"""Energy meter `ipmi`."""

from __future__ import annotations

import contextlib
import os
import re
import select
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Final, Literal

from pydantic import Field, model_validator

from ullage.common.commands import needed
from ullage.meters.energy.base import READ_DEADLINE_S, FaultError, MeterOptions
from ullage.meters.energy.remote import (
    Address,
    OutsideMeter,
    OutsideOptions,
    address,
    quoted,
    secret,
    watts,
)
from ullage.runs.readings import Channel

PORT: Final = 623
"""Of RMCP+ (IPMI 2.0)."""

_PROMPT: Final = b"ipmitool> "
_QUESTION: Final = "dcmi power reading"
_MOST_BYTES: Final = 1 << 16
_POWER: Final = re.compile(r"^\s*Instantaneous power reading:\s*(\S+) Watts\s*$", re.MULTILINE)
_STATE: Final = re.compile(r"^\s*Power reading state is:\s*(\w+)\s*$", re.MULTILINE)
_DENIED: Final = re.compile(
    r"HMAC is invalid|unauthorized|insufficient privilege|permission denied|access denied"
    r"|password is longer|invalid role|invalid user",
    re.IGNORECASE,
)
"""What ipmitool says of a wrong password, user or privilege, or of a device not to be read."""
_CHATTER: Final = ("Loading IANA", "Using best", "ipmitool", _QUESTION)
"""Beginnings of lines that say nothing."""
_LEAVES_S: Final = 2.0
"""How long ipmitool may take to close its session before it is stopped."""


class IpmiOptions(OutsideOptions):
    """Fields of an `ipmi` meter in the plan."""

    bmc: Address | None = Field(
        None,
        description="HOST or HOST:PORT of the BMC; without it this machine's own, `/dev/ipmi0`",
    )
    username: str | None = Field(
        None, pattern=r"^[\x21-\x7e]{1,16}$", description="at a BMC that is named"
    )
    password_file: Path | None = Field(None, description="file with its password, 20 bytes at most")
    privilege: Literal["user", "operator", "administrator"] = Field(
        "user", description="of the session; `user` may read the power"
    )

    @model_validator(mode="after")
    def _both_or_neither(self) -> IpmiOptions:
        if (self.username is None) != (self.password_file is None):
            raise ValueError("username and password_file go together")
        if (self.username is None) != (self.bmc is None):
            raise ValueError("a BMC that is named needs username and password_file, no other does")
        return self


class Ipmi(OutsideMeter):
    """The power of a server as its baseboard management controller (BMC) tells it, by IPMI DCMI.

    `ipmitool` asks for the "instantaneous power reading" of DCMI 1.5: what the whole
    server takes from its power supplies' inputs, in whole W, seen by the board and not by the
    operating system. How exact that is and over what time it is averaged is up to the maker;
    many boards renew it once in a second or more. One ipmitool stays and holds its session
    (a fresh one for each reading would cost a hundred times the CPU time, and the BMC more).

    Needs the Debian package ipmitool; root and `/dev/ipmi0` for this machine's own BMC, or the
    network, a user and a file with the password for any. A board whose measurement is switched off,
    or that tells 0 W, gives no reading (`nonsense`).
    """

    options: IpmiOptions
    name: ClassVar[str] = "ipmi"
    Options: ClassVar[type[MeterOptions]] = IpmiOptions
    fixes: ClassVar[Mapping[str, str]] = {
        "gone": "see with `ipmitool mc info` that the BMC answers; of a remote one, that IPMI over "
        "LAN is on and UDP port 623 open",
        "denied": "see the user, the password file and `privilege:`; the own BMC needs root",
        "nonsense": "see what `ipmitool dcmi power reading` tells; not every BMC measures power",
    }

    def __init__(self, options: IpmiOptions) -> None:
        super().__init__(options)
        self._program = ""
        self._shell: _Shell | None = None

    def where(self) -> str:
        return self.options.bmc or "the BMC of this machine"

    def describe(self) -> tuple[Channel, ...]:
        """`wall`. HOST_MISSING where there is no ipmitool."""
        self._program = needed("ipmitool", "ipmitool")
        self._power()
        return self.wall(1.0, f"ipmitool {_QUESTION} of {self.where()}", observer="bmc")

    def ask(self) -> Mapping[str, float]:
        return {"wall": self._power()}

    def close(self) -> None:
        if self._shell is not None:
            self._shell.close()
            self._shell = None

    def _power(self) -> float:
        until_s = time.monotonic() + READ_DEADLINE_S
        if self._shell is None:
            self._shell = _Shell(self._command())
            self._shell.answer(until_s)
        return _power(self._shell.ask(_QUESTION, until_s))

    def _command(self) -> list[str]:
        # Verbose: otherwise a wrong password is not told from a BMC that is not there.
        argv = [self._program, "-v"]
        options = self.options
        if options.bmc is None or options.username is None or options.password_file is None:
            return [*argv, "-I", "open", "shell"]
        secret(options.password_file)
        host, port = address(options.bmc, PORT)
        argv += ["-I", "lanplus", "-H", host, "-p", str(port), "-L", options.privilege.upper()]
        return [*argv, "-U", options.username, "-f", str(options.password_file), "shell"]


class _Shell:
    """An ipmitool that stays, and answers one question after the other."""

    def __init__(self, argv: list[str]) -> None:
        try:
            # A session of its own: a Ctrl-C is for us alone.
            self._process = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                bufsize=0,
                env={**os.environ, "LC_ALL": "C", "TERM": "dumb"},
                start_new_session=True,
            )
        except OSError as error:
            raise FaultError("gone", f"ipmitool: {error.strerror}") from error

    def ask(self, question: str, until_s: float) -> str:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{question}\n".encode())
        except OSError as error:
            raise FaultError("gone", "ipmitool has ended") from error
        return self.answer(until_s)

    def answer(self, until_s: float) -> str:
        """What it says until it waits for the next question. FaultError."""
        assert self._process.stdout is not None
        output = b""
        while not output.endswith(_PROMPT):
            left_s = max(0.0, until_s - time.monotonic())
            ready = select.select([self._process.stdout], [], [], left_s)[0]
            if not ready:
                self._process.kill()
                raise _fault("silent", output, f"no answer within {READ_DEADLINE_S:g} s")
            more = os.read(self._process.stdout.fileno(), 4096)
            if not more:
                raise _fault("gone", output, "ipmitool has ended")
            output += more
            if len(output) > _MOST_BYTES:
                raise FaultError("nonsense", f"no end within {_MOST_BYTES} bytes")
        return output.decode(errors="replace")

    def close(self) -> None:
        """Let it close its session at the BMC, which has few; else stop it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(OSError):
            self._process.stdin.write(b"exit\n")
            self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_LEAVES_S)
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()


def _power(answer: str) -> float:
    """W of an answer to `dcmi power reading`. FaultError."""
    power, state = _POWER.search(answer), _STATE.search(answer)
    if power is None or state is None:
        raise _fault("nonsense", answer.encode(), "no power reading")
    if state[1] != "activated":
        raise FaultError("nonsense", f"the power measurement of the BMC is {quoted(state[1])}")
    return watts(power[1], "the power reading")


def _fault(code: str, output: bytes, failure: str) -> FaultError:
    """What was found, with the words of ipmitool; `denied` where they say so."""
    lines = [line.strip(" >") for line in output.decode(errors="replace").splitlines()]
    words = "; ".join(line for line in lines if line and not line.startswith(_CHATTER))
    if _DENIED.search(words):
        code = "denied"
    return FaultError(code, f"{failure}: {quoted(words)}" if words else failure)
