"""Energy meter `nut`."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, ClassVar, Final

from pydantic import AfterValidator, Field, model_validator

from ullage.meters.energy.base import FaultError, MeterOptions
from ullage.meters.energy.remote import (
    Dialogue,
    OutsideMeter,
    OutsideOptions,
    Rating,
    address,
    number,
    quoted,
    secret,
    step,
    watts,
)
from ullage.runs.readings import Channel

PORT: Final = 3493
"""Of `upsd` (RFC 9271)."""

_LONGEST: Final = 4096
_CODES: Final = {
    "ACCESS-DENIED": "denied",
    "INVALID-PASSWORD": "denied",
    "INVALID-USERNAME": "denied",
    "USERNAME-REQUIRED": "denied",
    "PASSWORD-REQUIRED": "denied",
    "DATA-STALE": "silent",
}
"""Error of RFC 9271 → code of the fault; all others are `gone`."""
_ABSENT: Final = {"VAR-NOT-SUPPORTED"}


def _an_ups(text: str) -> str:
    _parts(text)
    return text


def _parts(ups: str) -> tuple[str, str, int]:
    name, _, where = ups.partition("@")
    if not name or not name.replace("-", "").replace("_", "").replace(".", "").isalnum():
        raise ValueError("NAME@HOST or NAME@HOST:PORT, as `upsc` takes it")
    return name, *address(where or "localhost", PORT)


class NutOptions(OutsideOptions):
    """Fields of a `nut` meter in the plan."""

    ups: Annotated[str, AfterValidator(_an_ups)] = Field(
        description="NAME@HOST or NAME@HOST:PORT, as `upsc` takes it"
    )
    rating: Rating | None = Field(
        None, description="W at a load of 100 %, where the UPS does not tell it or tells it wrong"
    )
    username: str | None = Field(
        None, pattern=r"^[\x21-\x7e]+$", description="where `upsd` wants one; reading needs none"
    )
    password_file: Path | None = Field(
        None, description="file with its password; it is sent unencrypted"
    )

    @model_validator(mode="after")
    def _both_or_neither(self) -> NutOptions:
        if (self.username is None) != (self.password_file is None):
            raise ValueError("username and password_file go together")
        return self


class Nut(OutsideMeter):
    """A UPS that Network UPS Tools looks after: `upsd` is asked over the network (RFC 9271).

    It tells what stands behind the UPS, whole machines, at the wall: `ups.realpower`, in W, where
    the UPS has it; else `ups.load`, in per cent, of `rating` or of `ups.realpower.nominal`. Both
    are measured by the UPS; the second is as coarse as the step of the load times the rating (a
    load in whole per cent of 865 W: 8.65 W). `ups.power` is in VA and is not used. What the UPS
    itself loses is not in it.

    `upsd` knows what its driver last asked the UPS, every 2 s unless `pollinterval` says so: give
    a reading at least that age. A UPS on battery gives no reading (`on-battery`), since the wall
    does not feed the machine then. An APC UPS may be read through NUT or `apcupsd`.
    """

    options: NutOptions
    name: ClassVar[str] = "nut"
    Options: ClassVar[type[MeterOptions]] = NutOptions
    fixes: ClassVar[Mapping[str, str]] = {
        "gone": "see with `upsc UPS@HOST` that upsd and its driver run and know it by this name",
        "denied": "see LISTEN in upsd.conf and the users in upsd.users",
        "nonsense": "see what `upsc UPS@HOST` tells; `rating:` of the meter in a plan, or "
        "`-o rating=` of `ullage meter`, says W at full load",
    }

    def __init__(self, options: NutOptions) -> None:
        super().__init__(options)
        self._ups, self._host, self._port = _parts(options.ups)
        self._variable, self._factor = "", math.nan

    def where(self) -> str:
        return self.options.ups

    def describe(self) -> tuple[Channel, ...]:
        """`wall`: by the real power, else by the load."""
        variable, factor, source = "ups.realpower", 1.0, "ups.realpower"
        with self._talk() as talk:
            value = talk.get(variable)
            if value is None:
                variable = "ups.load"
                value = talk.get(variable)
                if value is None:
                    raise FaultError("nonsense", "it tells neither ups.realpower nor ups.load")
                factor = self._full_load(talk.get("ups.realpower.nominal")) / 100
                source = f"ups.load × {factor * 100:g} W"
        number(value, variable)
        # Only now: a load read with another's factor would be watts that nobody took.
        self._variable, self._factor = variable, factor
        return self.wall(step(value) * factor, f"{source} of {self.options.ups}")

    def ask(self) -> Mapping[str, float]:
        """The power now. FaultError, also when the UPS is on battery."""
        with self._talk() as talk:
            status = (talk.get("ups.status") or "").split()
            if "OB" in status:
                raise FaultError(
                    "on-battery", f"the UPS is on battery ({quoted(' '.join(status))})"
                )
            value = talk.get(self._variable)
        if value is None:
            raise FaultError("gone", f"the UPS no longer tells {self._variable}")
        return {"wall": watts(value, self._variable) * self._factor}

    def close(self) -> None:
        """Nothing is held between readings: upsd itself hangs up on those who are quiet."""

    def _full_load(self, nominal: str | None) -> float:
        if self.options.rating is not None:
            return self.options.rating
        if nominal is None:
            raise FaultError(
                "nonsense", "it tells ups.load, but not ups.realpower.nominal: of how many watts?"
            )
        return watts(nominal, "ups.realpower.nominal")

    @contextmanager
    def _talk(self) -> Iterator[_Talk]:
        with Dialogue(self._host, self._port) as dialogue:
            talk = _Talk(dialogue, self._ups)
            if self.options.username is not None and self.options.password_file is not None:
                talk.order(f"USERNAME {self.options.username}")
                talk.order(f"PASSWORD {_escaped(secret(self.options.password_file))}")
            yield talk


class _Talk:
    """Questions to one `upsd` about one UPS.

    (NUT's own PyNUTClient is GPL-3, has no types, and no deadline for a whole answer.)
    """

    def __init__(self, dialogue: Dialogue, ups: str) -> None:
        self._dialogue = dialogue
        self._ups = ups

    def get(self, variable: str) -> str | None:
        """Its value; None when the UPS has no such variable. FaultError."""
        words = self._words(f"GET VAR {self._ups} {variable}")
        if words[0] == "ERR" and words[1:2] and words[1] in _ABSENT:
            return None
        self._refuse(words)
        if words[:3] != ["VAR", self._ups, variable] or len(words) != 4:
            raise FaultError("nonsense", f"asked for {variable} it said {quoted(' '.join(words))}")
        return words[3]

    def order(self, command: str) -> None:
        """Something that is answered by OK. FaultError."""
        words = self._words(command)
        self._refuse(words)
        if words[0] != "OK":
            raise FaultError("nonsense", f"upsd said {quoted(' '.join(words))}")

    def _words(self, command: str) -> list[str]:
        self._dialogue.send(f"{command}\n".encode())
        answer = self._dialogue.until(b"\n", _LONGEST).decode(errors="replace")
        try:
            # Quotes and backslashes are those of a POSIX shell.
            words = shlex.split(answer)
        except ValueError:
            words = []
        if not words:
            raise FaultError("nonsense", f"upsd said {quoted(answer)}")
        return words

    def _refuse(self, words: list[str]) -> None:
        if words[0] == "ERR":
            reason = words[1] if words[1:] else "an error without a name"
            raise FaultError(_CODES.get(reason, "gone"), f"upsd says {quoted(reason)}")


def _escaped(word: str) -> str:
    return '"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"'
