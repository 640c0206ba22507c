"""Energy meter `redfish`."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from http.client import HTTPResponse
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, NoReturn
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from ullage.common.text import clean
from ullage.meters.energy.base import READ_DEADLINE_S, FaultError, MeterOptions
from ullage.meters.energy.remote import (
    OutsideMeter,
    OutsideOptions,
    WebServer,
    believable,
    body,
    checked_url,
    power,
    quoted,
    secret,
)
from ullage.runs.readings import Channel

ROOT: Final = "/redfish/v1/"
MOST_BYTES: Final = 1 << 19
"""A resource is some kilobytes; what is much longer is none, and would take the host's time."""

_PATH: Final = re.compile(r"/redfish/v1(/[A-Za-z0-9._~%!$&'()*+,;=:@-]*)*")
_LEAVES_S: Final = 2.0
_CODES: Final = {401: "denied", 403: "denied", 429: "silent", 503: "silent"}
"""HTTP status → code of the fault; any other is `nonsense`."""


class NotFoundError(FaultError):
    """The service has no such resource, though it may have linked to it."""


@dataclass(frozen=True)
class RedfishAccess:
    """How one comes in."""

    auth: Literal["session", "basic"]
    username: str
    password_file: Path


class RedfishService:
    """Asks one service. Its connection stays open, and so does its session until `close`."""

    def __init__(self, server: WebServer, access: RedfishAccess | None) -> None:
        self._server, self._access = server, access
        self._headers: dict[str, str] = {}
        self._session = ""

    def get(self, path: str) -> dict[str, Any]:
        """A resource; numbers with a point are `Decimal`. FaultError."""
        with self._server.deadline(READ_DEADLINE_S):
            if self._access is not None and not self._headers:
                self._log_in(self._access)
            with self._ask("GET", path) as response:
                return resource_of(body(response, MOST_BYTES))

    def close(self) -> None:
        """Log out, as far as the service still answers; BMCs have few sessions to give."""
        if self._server.cut:
            self._server.hang_up()
        if self._session:
            with suppress(FaultError), self._server.deadline(_LEAVES_S):
                body(self._ask("DELETE", self._session), MOST_BYTES)
        self._server.hang_up()
        self._headers, self._session = {}, ""

    def _log_in(self, access: RedfishAccess) -> None:
        password = secret(access.password_file)
        if access.auth == "basic":
            pair = base64.b64encode(f"{access.username}:{password}".encode()).decode()
            self._headers = {"Authorization": f"Basic {pair}"}
            return
        with self._ask("GET", ROOT) as response:
            root = resource_of(body(response, MOST_BYTES))
        sessions = link(root.get("Links"), "Sessions")
        login = json.dumps({"UserName": access.username, "Password": password})
        with self._ask("POST", sessions, login) as response:
            token = response.headers.get("X-Auth-Token", "")
            location = urlsplit(response.headers.get("Location", ""))
            body(response, MOST_BYTES)
        if not token:
            raise FaultError("denied", "the service opened a session without a token")
        self._headers = {"X-Auth-Token": token}
        elsewhere = location.netloc and location.hostname != self._server.host
        self._session = location.path if _PATH.fullmatch(location.path) and not elsewhere else ""

    def _ask(self, method: str, path: str, content: str | None = None) -> HTTPResponse:
        """The response with a status of success. FaultError."""
        headers = {"Accept": "application/json", "OData-Version": "4.0", "User-Agent": "ullage"}
        headers |= {"Content-Type": "application/json"} if content is not None else {}
        response = self._server.ask(method, path, headers | self._headers, content)
        if not 200 <= response.status < 300:
            body(response, MOST_BYTES)
            raise _refusal(path, response)
        return response


def link(resource: object, name: str) -> str:
    """The path of a linked resource, on this service. FaultError (nonsense)."""
    target = resource.get(name) if isinstance(resource, dict) else None
    path = target.get("@odata.id") if isinstance(target, dict) else None
    if not isinstance(path, str) or not _PATH.fullmatch(path) or "/.." in path:
        raise FaultError("nonsense", f"the service links {name} to {quoted(str(path))}")
    return path


def _refusal(path: str, response: HTTPResponse) -> FaultError:
    status = f"{response.status} {response.reason}"
    if 300 <= response.status < 400:
        status += f" to {response.headers['Location']}, which is not followed"
    if response.status == 404:
        return NotFoundError("gone", f"{path}: {quoted(status)}")
    return FaultError(_CODES.get(response.status, "nonsense"), f"{path}: {quoted(status)}")


def resource_of(answer: bytes) -> dict[str, Any]:
    """What an answer says; numbers with a point are `Decimal`. FaultError (nonsense)."""
    try:
        resource = json.loads(answer, parse_float=Decimal, parse_constant=_no_number)
    except (ValueError, ArithmeticError, RecursionError) as error:
        raise FaultError("nonsense", f"its answer is no JSON: {quoted(str(error))}") from error
    if not isinstance(resource, dict):
        raise FaultError("nonsense", "its answer is no JSON object")
    return resource


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


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
        parts = checked_url(url, "https://bmc.example", "that is `username` and `password_file`")
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
class _PowerSource:
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

    options: RedfishOptions
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

    def __init__(self, options: RedfishOptions) -> None:
        super().__init__(options)
        self._service: RedfishService | None = None
        self._source: _PowerSource | None = None
        self._energy = False

    def where(self) -> str:
        return self.options.url

    def caution(self) -> str | None:
        """With `insecure: true`."""
        if not self.options.insecure:
            return None
        sent = ", and its password may be read on the way" if self.options.username else ""
        return (
            f"insecure: true: nobody checks that it is {clean(self.options.url)} who tells the "
            f"power{sent}; `ca_file:` with its certificate makes it sure"
        )

    def describe(self) -> tuple[Channel, ...]:
        """`wall`, and `wall-energy` where there is a counter."""
        options = self.options
        server = WebServer(options.url, options.ca_file, insecure=options.insecure)
        self._service = service = RedfishService(server, self._access())
        power_source = self._find(service)
        resource = service.get(power_source.path)
        power_w = _power(resource, power_source.modern)
        energy = _energy(resource) if power_source.modern else None
        self._source, self._energy = power_source, energy is not None
        source = f"{self.options.url}{power_source.path} {_NAMES[power_source.modern]}"
        channels = [self._channel("wall", "power", _step(power_w), source)]
        if energy is not None:
            source = f"{self.options.url}{power_source.path} EnergykWh"
            channels.append(
                self._channel("wall-energy", "energy", _step(energy) * _J_PER_KWH, source)
            )
        return tuple(channels)

    def ask(self) -> Mapping[str, float]:
        power_source, service = self._source, self._service
        assert power_source is not None and service is not None
        resource = service.get(power_source.path)
        values = {"wall": float(_power(resource, power_source.modern))}
        if self._energy:
            energy = _energy(resource)
            if energy is None:
                raise FaultError("silent", "EnergykWh is there no longer")
            values["wall-energy"] = believable("EnergykWh", float(energy)) * _J_PER_KWH
        return values

    def close(self) -> None:
        if self._service is not None:
            self._service.close()

    def _access(self) -> RedfishAccess | None:
        options = self.options
        if options.username is None or options.password_file is None:
            return None
        return RedfishAccess(options.auth, options.username, options.password_file)

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
            accuracy=self.options.accuracy,
            source=source + " (INSECURE: who answered was not checked)" * self.options.insecure,
        )

    def _find(self, service: RedfishService) -> _PowerSource:
        """The chassis that the plan names, or the one that tells a power. FaultError."""
        members = service.get(link(service.get(ROOT), "Chassis")).get("Members")
        if not isinstance(members, list) or len(members) > _MOST_CHASSIS:
            raise FaultError("nonsense", "its list of chassis is none")
        named = self.options.chassis
        paths = [link({"chassis": member}, "chassis") for member in members]
        ids = [path.rstrip("/").rpartition("/")[2] for path in paths]
        if named is not None and named not in ids:
            raise FaultError("gone", f"no chassis {named}; it has {quoted(', '.join(ids))}")
        looked = [
            _place(service, name, path)
            for name, path in zip(ids, paths, strict=True)
            if named in {None, name}
        ]
        sources = [place for place in looked if isinstance(place, _PowerSource)]
        outer = [place for place in sources if not place.contained] or sources
        if len(outer) == 1:
            return outer[0]
        if outer:
            names = ", ".join(place.chassis for place in outer)
            raise FaultError("nonsense", f"several chassis tell a power: {quoted(names)}")
        why = "; ".join(str(place) for place in looked if isinstance(place, FaultError))
        raise FaultError("nonsense", clean(f"none of its {len(looked)} chassis: {why}", 400))


def _place(service: RedfishService, name: str, path: str) -> _PowerSource | FaultError:
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
                return _PowerSource(name, contained, target, modern)
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


def _number(value: object, name: str) -> int | Decimal:
    if value is None:
        raise FaultError("silent", f"{name} has no value now (null)")
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise FaultError("nonsense", f"{name} is no number: {quoted(str(value))}")
    if not -_MOST < value < _MOST:
        raise FaultError("nonsense", f"{name} is beyond belief")
    return value


def _step(value: int | Decimal) -> float:
    """The smallest step of a number written so: 0.1 of `344.5`, 1 of `344`."""
    exponent = value.as_tuple().exponent if isinstance(value, Decimal) else 0
    return 10.0 ** min(int(exponent), 0)
