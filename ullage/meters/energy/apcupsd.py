"""Energy meter `apcupsd`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import ClassVar, Final

from pydantic import Field

from ullage.common.quantities import Seconds
from ullage.meters.energy.base import FaultError, MeterOptions
from ullage.meters.energy.remote import (
    Address,
    Dialogue,
    OutsideMeter,
    OutsideOptions,
    Rating,
    address,
    number,
    quoted,
    step,
    watts,
)
from ullage.runs.readings import Channel

PORT: Final = 3551
"""Of apcupsd's Network Information Server."""

_ASK: Final = b"\x00\x06status"
_MOST_RECORDS: Final = 500
_LONGEST: Final = 512
"""What is longer or more is not apcupsd, which sends some forty lines of under 100 bytes."""


class ApcupsdOptions(OutsideOptions):
    """Fields of an `apcupsd` meter in the plan."""

    server: Address = Field("localhost", description="HOST or HOST:PORT of apcupsd's NIS")
    rating: Rating | None = Field(
        None, description="W at a load of 100 %, where the UPS does not tell it or tells it wrong"
    )
    oldest: Seconds = Field(
        Seconds(65.0), description="a figure that apcupsd got longer ago is none; see POLLTIME"
    )


class Apcupsd(OutsideMeter):
    """An APC UPS that apcupsd looks after: its Network Information Server is asked.

    It tells what stands behind the UPS, whole machines, at the wall: `LOADPCT`, in per cent, of
    `rating` or of the UPS's own `NOMPOWER`. The load is measured by the UPS, and the figure is as
    coarse as its step times the rating (0.1 % of 865 W: 0.865 W; many UPSes measure in whole per
    cent all the same). What the UPS itself loses is not in it.

    apcupsd knows what it last asked the UPS: every 60 s unless `POLLTIME` in apcupsd.conf says so.
    Set that to 1 and `oldest` to 5 s, or short trials see an old figure: apcupsd goes on telling
    the last one for some 20 s after the UPS fell silent. A UPS on battery gives no reading
    (`on-battery`), since the wall does not feed the machine then; nor does one that apcupsd has
    lost (`gone`), or of which it tells 0 %, as it does before it has asked.
    """

    options: ApcupsdOptions
    name: ClassVar[str] = "apcupsd"
    Options: ClassVar[type[MeterOptions]] = ApcupsdOptions
    fixes: ClassVar[Mapping[str, str]] = {
        "gone": "see with `apcaccess -h HOST:PORT` that apcupsd runs, reaches its UPS, and has "
        "NETSERVER on in apcupsd.conf",
        "nonsense": "see what `apcaccess -h HOST:PORT` tells; `rating:` of the meter in a plan, or "
        "`-o rating=` of `ullage meter`, says W at full load",
    }

    def where(self) -> str:
        return self.options.server

    def describe(self) -> tuple[Channel, ...]:
        status = self._status()
        _reached(status)
        load, rating = _load(status), self._full_load(status)
        number(load, "LOADPCT")
        source = f"LOADPCT × {rating:g} W of apcupsd at {self.options.server}"
        return self.wall(step(load) / 100 * rating, source)

    def ask(self) -> Mapping[str, float]:
        """The power now. FaultError, also when the UPS is on battery or out of apcupsd's reach."""
        status = self._status()
        state = _reached(status)
        if "ONBATT" in state:
            raise FaultError("on-battery", f"the UPS is on battery ({quoted(' '.join(state))})")
        age_s = _age_s(status)
        if age_s > self.options.oldest:
            raise FaultError("silent", f"apcupsd got its figures {age_s:g} s ago")
        return {"wall": watts(_load(status), "LOADPCT") / 100 * self._full_load(status)}

    def close(self) -> None:
        """Nothing is held between readings."""

    def _full_load(self, status: Mapping[str, str]) -> float:
        if self.options.rating is not None:
            return self.options.rating
        if "NOMPOWER" not in status:
            raise FaultError("nonsense", "the UPS does not tell NOMPOWER: LOADPCT of how many W?")
        return watts(_unit(status, "NOMPOWER", "Watts"), "NOMPOWER")

    def _status(self) -> dict[str, str]:
        """Name → value of what apcupsd tells now, as `apcaccess` prints it. FaultError."""
        status: dict[str, str] = {}
        with Dialogue(*address(self.options.server, PORT)) as dialogue:
            dialogue.send(_ASK)
            for _ in range(_MOST_RECORDS):
                size = int.from_bytes(dialogue.exactly(2), "big")
                if size == 0:
                    return status
                if size > _LONGEST:
                    break
                record = dialogue.exactly(size).decode(errors="replace")
                name, colon, value = record.partition(":")
                if not colon:
                    raise FaultError("nonsense", f"apcupsd said {quoted(record)}")
                status[name.strip()] = value.strip()
        raise FaultError("nonsense", "this is not how apcupsd answers")


def _reached(status: Mapping[str, str]) -> list[str]:
    """The words of STATUS, where apcupsd reaches its UPS."""
    state = status.get("STATUS", "").split()
    if not state:
        raise FaultError("nonsense", "apcupsd tells no STATUS")
    if "COMMLOST" in state:
        raise FaultError("gone", "apcupsd has lost its UPS (COMMLOST)")
    return state


def _age_s(status: Mapping[str, str]) -> float:
    """How long ago apcupsd got what it tells, by its own clock; 0 where it does not say."""
    got, sent = (_instant(status.get(name, "")) for name in ("DATE", "END APC"))
    return 0.0 if got is None or sent is None else (sent - got).total_seconds()


def _instant(text: str) -> datetime | None:
    try:
        return datetime.strptime(text, "%Y-%m-%d %H:%M:%S %z")
    except ValueError:
        return None


def _load(status: Mapping[str, str]) -> str:
    return _unit(status, "LOADPCT", "Percent")


def _unit(status: Mapping[str, str], name: str, unit: str) -> str:
    """The number of a value that has this unit."""
    value, _, suffix = status.get(name, "").partition(" ")
    if not suffix.startswith(unit):
        raise FaultError("nonsense", f"{name} is {quoted(status.get(name, ''))}, not in {unit}")
    return value
