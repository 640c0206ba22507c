"""Energy meter `redfish`."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar, Final, Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from ullage.energy.base import FaultError, MeterOptions
from ullage.energy.outside import OutsideMeter, OutsideOptions, believable, power, quoted
from ullage.energy.redfish_service import ROOT, Access, NotFoundError, Service, link
from ullage.energy.trust import trust
from ullage.printable import clean
from ullage.readings import Channel

_MOST_CHASSIS: Final = 64
_J_PER_KWH: Final = 3.6e6
_MOST: Final = 10**15
_ASLEEP: Final = {"Absent", "Disabled", "UnavailableOffline", "StandbyOffline"}
"""Values of Status.State (DMTF DSP0268) in which a figure is none."""


_NAMES: Final = {True: "PowerWatts", False: "PowerConsumedWatts"}
"""What a power is called in EnvironmentMetrics, and in Power."""


class RedfishOptions(OutsideOptions):
    """Fields of a `redfish` meter in the plan."""

    url: str = Field(description="of the BMC, `https://bmc.example`; no user in it")
    chassis: str | None = Field(
        None,
        pattern=r"^[A-Za-z0-9._-]{1,80}$",
        description="Id of the chassis; without it the one that tells a power",
    )
    username: str | None = Field(None, pattern=r"^[\x21-\x39\x3b-\x7e]+$", description="of the BMC")
    password_file: Path | None = Field(None, description="file with its password")
    auth: Literal["session", "basic"] = Field(
        "session", description="a session that is closed afterwards, or the password each time"
    )
    ca_file: Path | None = Field(
        None, description="certificates to trust, PEM; without it those of the system"
    )
    insecure: bool = Field(
        False,
        description="take any certificate, and send the password over `http:` too; it stands beside"
        " the results",
    )

    @field_validator("url")
    @classmethod
    def _plain(cls, url: str) -> str:
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.port == 0:
            raise ValueError("an address such as https://bmc.example")
        if not url.isascii() or not url.isprintable() or " " in url:
            raise ValueError("an address without spaces and other signs")
        if "@" in parts.netloc:
            raise ValueError("no user in it: that is `username` and `password_file`")
        if parts.path.rstrip("/") or parts.query or parts.fragment:
            raise ValueError("no path: it is https://bmc.example and then always /redfish/v1")
        return url

    @model_validator(mode="after")
    def _safe(self) -> RedfishOptions:
        if (self.username is None) != (self.password_file is None):
            raise ValueError("username and password_file go together")
        if self.url.startswith("http:") and self.username is not None and not self.insecure:
            raise ValueError(
                "over http: everybody reads the password; use https:, or insecure: true"
            )
        return self


@dataclass(frozen=True)
class _Found:
    """Where a chassis tells its power."""

    chassis: str
    contained: bool
    """In another chassis, whose power includes this one's."""
    path: str
    modern: bool
    """EnvironmentMetrics; else Power."""


class Redfish(OutsideMeter):
    """The power of a server as its baseboard management controller (BMC) tells it, by Redfish.

    It is what the whole chassis takes, seen by the board and not by the operating system:
    `PowerWatts` of the chassis' EnvironmentMetrics, with its counter `EnergykWh` as a second
    channel where there is one, else `PowerConsumedWatts` of the first entry of PowerControl in
    Power (DMTF DSP2046). How exact that is and how often it is renewed is up to the maker: from
    once in a second to once in a minute. A value that is null, of a sensor that is off, or 0 gives
    no reading.

    The chassis is found where one tells a power (one that is part of another is not looked at);
    where several do, `chassis` must say which. A session is opened and closed again, over one
    connection that stays. The certificate must be trusted, by the system or by `ca_file`;
    `insecure: true` takes any: this is warned of, and written beside the results. No proxy is used
    and no redirect followed.
    """

    name: ClassVar[str] = "redfish"
    Options: ClassVar[type[MeterOptions]] = RedfishOptions
    fixes: ClassVar[Mapping[str, str]] = {
        "gone": "see with `curl URL/redfish/v1/` that the BMC answers, and what chassis are in "
        "/redfish/v1/Chassis",
        "denied": "see username and password_file; a certificate that the BMC signed itself is "
        "trusted by `ca_file:` with that certificate",
        "nonsense": "see which of /redfish/v1/Chassis/* has Power or EnvironmentMetrics with a "
        "figure, and name it by `chassis:`",
    }

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        assert isinstance(options, RedfishOptions)
        self._options = options
        self._service: Service | None = None
        self._found: _Found | None = None
        self._energy = False

    def where(self) -> str:
        """As the plan has it."""
        return self._options.url

    def caution(self) -> str | None:
        """With `insecure: true`."""
        if not self._options.insecure:
            return None
        sent = ", and its password may be read on the way" if self._options.username else ""
        return (
            f"insecure: true: nobody checks that it is {clean(self._options.url)} who tells the "
            f"power{sent}; `ca_file:` with its certificate makes it sure"
        )

    def describe(self) -> tuple[Channel, ...]:
        """`wall`, and `wall-energy` where there is a counter."""
        self._service = service = Service(self._options.url, self._access(), self._trust())
        found = self._find(service)
        resource = service.get(found.path)
        told = _power(resource, found.modern)
        energy = _energy(resource) if found.modern else None
        self._found, self._energy = found, energy is not None
        source = f"{self._options.url}{found.path} {_NAMES[found.modern]}"
        channels = [self._channel("wall", "power", _step(told), source)]
        if energy is not None:
            source = f"{self._options.url}{found.path} EnergykWh"
            channels.append(
                self._channel("wall-energy", "energy", _step(energy) * _J_PER_KWH, source)
            )
        return tuple(channels)

    def ask(self) -> Mapping[str, float]:
        """The power now, and the energy where there was a counter."""
        found, service = self._found, self._service
        assert found is not None and service is not None
        resource = service.get(found.path)
        values = {"wall": float(_power(resource, found.modern))}
        if self._energy:
            energy = _energy(resource)
            if energy is None:
                raise FaultError("silent", "EnergykWh is there no longer")
            values["wall-energy"] = believable("EnergykWh", float(energy)) * _J_PER_KWH
        return values

    def close(self) -> None:
        """Close the session."""
        if self._service is not None:
            self._service.close()

    def _access(self) -> Access | None:
        options = self._options
        if options.username is None or options.password_file is None:
            return None
        return Access(options.auth, options.username, options.password_file)

    def _trust(self) -> ssl.SSLContext | None:
        if self._options.url.startswith("http:"):
            return None
        return trust(self._options.ca_file, insecure=self._options.insecure)

    def _channel(
        self, name: str, kind: Literal["power", "energy"], resolution: float, source: str
    ) -> Channel:
        return Channel(
            name=name,
            kind=kind,
            method="measured",
            scope="wall",
            observer="bmc",
            resolution=resolution,
            accuracy=self._options.accuracy,
            source=source + " (INSECURE: who answered was not checked)" * self._options.insecure,
        )

    def _find(self, service: Service) -> _Found:
        """The chassis that the plan names, or the one that tells a power. FaultError."""
        members = service.get(link(service.get(ROOT), "Chassis")).get("Members")
        if not isinstance(members, list) or len(members) > _MOST_CHASSIS:
            raise FaultError("nonsense", "its list of chassis is none")
        named = self._options.chassis
        paths = [link({"chassis": member}, "chassis") for member in members]
        ids = [path.rstrip("/").rpartition("/")[2] for path in paths]
        if named is not None and named not in ids:
            raise FaultError("gone", f"no chassis {named}; it has {quoted(', '.join(ids))}")
        looked = [
            _place(service, name, path)
            for name, path in zip(ids, paths, strict=True)
            if named in {None, name}
        ]
        found = [place for place in looked if isinstance(place, _Found)]
        outer = [place for place in found if not place.contained] or found
        if len(outer) == 1:
            return outer[0]
        if outer:
            names = ", ".join(place.chassis for place in outer)
            raise FaultError("nonsense", f"several chassis tell a power: {quoted(names)}")
        why = "; ".join(str(place) for place in looked if isinstance(place, FaultError))
        raise FaultError("nonsense", clean(f"none of its {len(looked)} chassis: {why}", 400))


def _place(service: Service, name: str, path: str) -> _Found | FaultError:
    """Where this chassis tells a power now, or why it does not. FaultError of the service."""
    chassis = service.get(path)
    links = chassis.get("Links")
    contained = isinstance(links, dict) and "ContainedBy" in links
    why = FaultError("nonsense", "it has neither Power nor EnvironmentMetrics")
    for key, modern in (("EnvironmentMetrics", True), ("Power", False)):
        if key in chassis:
            target = link(chassis, key)
            try:
                resource = service.get(target)
            except NotFoundError as fault:
                why = fault
                continue
            try:
                _power(resource, modern)
            except FaultError as fault:
                why = fault
            else:
                return _Found(name, contained, target, modern)
    return why


def _power(resource: Mapping[str, Any], modern: bool) -> int | Decimal:
    """The figure of EnvironmentMetrics or Power, in W. FaultError."""
    if modern:
        holder, name = resource.get("PowerWatts"), "Reading"
    else:
        controls = resource.get("PowerControl")
        first = controls[0] if isinstance(controls, list) and controls else None
        holder, name = first, _NAMES[modern]
    if not isinstance(holder, dict):
        raise FaultError("nonsense", f"there is no {_NAMES[modern]}")
    status = holder.get("Status")
    state = status.get("State") if isinstance(status, dict) else None
    if state in _ASLEEP:
        raise FaultError("silent", f"the state of {_NAMES[modern]} is {state}")
    value = _number(holder.get(name), _NAMES[modern])
    power(float(value), _NAMES[modern])
    return value


def _energy(resource: Mapping[str, Any]) -> int | Decimal | None:
    """The counter in kWh; None where there is none. FaultError where it has no value now."""
    holder = resource.get("EnergykWh")
    return (
        None
        if holder is None
        else _number(holder.get("Reading") if isinstance(holder, dict) else holder, "EnergykWh")
    )


def _number(value: object, what: str) -> int | Decimal:
    if value is None:
        raise FaultError("silent", f"{what} has no value now (null)")
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise FaultError("nonsense", f"{what} is no number: {quoted(str(value))}")
    if not -_MOST < value < _MOST:
        raise FaultError("nonsense", f"{what} is beyond belief")
    return value


def _step(value: int | Decimal) -> float:
    """The smallest step of a number written so: 0.1 of `344.5`, 1 of `344`."""
    exponent = value.as_tuple().exponent if isinstance(value, Decimal) else 0
    return 10.0 ** min(int(exponent), 0)
