"""Instances of OpenStack: Nova, Glance and Neutron, by openstacksdk.

The library logs in, finds the services and keeps the token; their answers are read here, because
its own objects take half a body or a proxy's page for an answer that says nothing.
"""

from __future__ import annotations

import base64
import re
import urllib.parse
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any, Final, TypeVar

from ullage.common.errors import CLOUD_CREDENTIALS, CLOUD_LACKS, HOST_MISSING, UllageError
from ullage.common.text import printable
from ullage.environments.clouds.coming import CARRIED_OUT_S
from ullage.environments.clouds.driver import (
    ApiFault,
    Flavor,
    LookingDriver,
    Machine,
    NotAnAnswerError,
    PausingDriver,
    Request,
    State,
)
from ullage.environments.clouds.http import TOO_MANY, after_s
from ullage.environments.clouds.tags import check_key

_TAG: Final = "ullage-tag"
_TOKEN: Final = "ullage-token"  # noqa: S105 - the name of one
_STATES: Final[Mapping[str, State]] = {
    "ACTIVE": "running",
    "PAUSED": "paused",
    "ERROR": "failed",
    "SHUTOFF": "failed",
    "SUSPENDED": "failed",
    "RESCUE": "failed",
    "SHELVED": "failed",
    "SHELVED_OFFLOADED": "failed",
    "DELETED": "gone",
    "SOFT_DELETED": "gone",
}
_LISTS: Final[Mapping[str, tuple[str, str, bool]]] = {
    "flavors": ("compute", "/flavors/detail", False),
    "server_groups": ("compute", "/os-server-groups", False),
    "images": ("image", "/images", True),
    "networks": ("network", "/networks", True),
}
"""Kind → the service that has it, the path there, whether that looks for a name or an id."""
_FULL: Final = re.compile(r"quota|exceeded|maximum number", re.IGNORECASE)
_NO_ROOM: Final = re.compile("No valid host was found|Quota exceeded")
"""Nova counts a quota once more when it has made the instance."""
_EVENTS: Final = "2.51"
"""The first version of the API in which a user sees the events of his instances."""
_TIME: Final = "%Y-%m-%dT%H:%M:%S.%f"
_ANSWER_S: Final = 60
_MOST_PAGES: Final = 100
_ACCEPTED: Final = 202
_NOT_NOW: Final = (413, TOO_MANY)
P = TypeVar("P")


class NovaDriver(LookingDriver, PausingDriver):
    """One user's view of one cloud; any thread may call it."""

    def __init__(
        self,
        cloud: str | None = None,
        region: str | None = None,
        server_group: str | None = None,
        config_drive: bool | None = None,
    ) -> None:
        """HOST_MISSING, CLOUD_CREDENTIALS."""
        super().__init__()
        try:
            import keystoneauth1.exceptions  # noqa: PLC0415 - an extra: who has no cloud need not
            import openstack  # noqa: PLC0415
            import openstack.exceptions  # noqa: PLC0415
        except ImportError as error:
            command = "pip install 'ullage[clouds]'"
            raise UllageError(HOST_MISSING, what="openstacksdk", command=command) from error
        self._sdk: Any = openstack.exceptions
        self._auth: Any = keystoneauth1.exceptions
        self._group, self._drive = server_group, config_drive
        self._known: dict[tuple[str, str], Mapping[str, Any]] = {}
        try:
            self._cloud: Any = openstack.connect(
                cloud=cloud, region_name=region, api_timeout=_ANSWER_S
            )
        except (self._sdk.SDKException, self._auth.ClientException) as error:
            reason = printable(str(error), 300)
            raise UllageError(CLOUD_CREDENTIALS, cloud="OpenStack", reason=reason) from error

    @property
    def title(self) -> str:
        return f"OpenStack cloud {printable(str(self._cloud.config.name), 100)}"

    def fault(self, error: Exception) -> ApiFault | None:
        auth, reason = self._auth, printable(str(error), 400)
        if status := _status(error):
            return _fault(status, error, reason)
        if isinstance(error, auth.MissingRequiredOptions | auth.AuthPluginException):
            return ApiFault("credentials", reason)
        if isinstance(error, auth.EmptyCatalog | auth.EndpointNotFound | self._sdk.ConfigException):
            return ApiFault("lacks", reason)
        known = (auth.ClientException, self._sdk.SDKException, NotAnAnswerError)
        return ApiFault("again", reason) if isinstance(error, known) else None

    def flavor(self, name: str) -> Flavor:
        flavor = self._one("flavors", name)
        return Flavor(_count(flavor, "vcpus"), _count(flavor, "ram") << 20)

    def find_image(self, name: str) -> str:
        return str(self._one("images", name)["id"])

    def limits(self) -> str:
        limits = _part(self._get("compute", "/limits"), "limits", dict)
        absolute = _part(limits, "absolute", dict)
        most, used = absolute.get("maxTotalInstances"), absolute.get("totalInstancesUsed")
        if not isinstance(most, int) or not isinstance(used, int) or most < 0:  # -1: no limit
            return ""
        return f"at most {most} instances, {used} are used"

    def launch_anew(self, request: Request) -> Machine:
        self._import_key(request)
        answer = self._post("/servers", self._wanted(request), CARRIED_OUT_S)
        identifier = str(_part(answer, "server", dict).get("id") or "")
        if not identifier:
            raise NotAnAnswerError("it names no instance")
        return Machine(identifier, request.name, request.tag, "pending", "asked for")

    def made_for(self, request: Request) -> list[Machine]:
        ours = [server for server in self._servers(request.tag) if _made_for(server, request)]
        ours.sort(key=lambda server: (str(server.get("created")), str(server["id"])))
        return [_machine(server) for server in ours]

    def end(self, identifier: str) -> None:
        self._delete(f"/servers/{identifier}")

    def _import_key(self, request: Request) -> None:
        pair = {"name": request.name, "public_key": request.public_key}
        try:
            self._post("/os-keypairs", {"keypair": pair})
        except self._sdk.ConflictException:
            answer = self._get("compute", f"/os-keypairs/{_quoted(request.name)}")
            known = _part(answer, "keypair", dict).get("public_key")
            check_key(self.title, request, known)

    def _wanted(self, request: Request) -> dict[str, Any]:
        server = {
            "name": request.name,
            "flavorRef": self._one("flavors", request.flavor)["id"],
            "imageRef": request.image,
            "key_name": request.name,
            "metadata": {_TAG: request.tag, _TOKEN: request.token},
            "availability_zone": request.zone,
            "user_data": _base64(request.user_data) if request.user_data else None,
            "config_drive": self._drive,
            "security_groups": [{"name": group} for group in request.security_groups] or None,
            "networks": self._networks(request.network),
        }
        wanted: dict[str, Any] = {
            "server": {name: value for name, value in server.items() if value is not None}
        }
        if self._group:
            group = self._one("server_groups", self._group)["id"]
            wanted["os:scheduler_hints"] = {"group": group}
        return wanted

    def _networks(self, name: str | None) -> list[dict[str, Any]] | None:
        return [{"uuid": self._one("networks", name)["id"]}] if name else None

    def machine(self, identifier: str) -> Machine:
        try:
            answer = self._get("compute", f"/servers/{identifier}")
        except self._sdk.NotFoundException:
            return Machine(identifier, "", "", "gone", "not known any more")
        return _machine(_part(answer, "server", dict))

    def machines(self, tag: str | None = None) -> list[Machine]:
        machines = [_machine(server) for server in self._servers(tag)]
        return [machine for machine in machines if machine.state != "gone"]

    def console(self, identifier: str) -> str:
        try:
            answer = self._post(f"/servers/{identifier}/action", {"os-getConsoleOutput": {}})
        except (self._sdk.ConflictException, self._sdk.NotFoundException):
            return ""  # there is none before it boots
        return str(_part(answer, "output", str))

    def remove(self, name: str, tag: str) -> bool:
        servers = [server for server in self._servers(tag) if server.get("name") == name]
        for server in servers:
            if server.get("OS-EXT-STS:task_state") != "deleting":
                self.end(str(server["id"]))
        if not servers:
            self._delete(f"/os-keypairs/{_quoted(name)}")
        return not servers

    def pause(self, identifier: str) -> None:
        self._act(identifier, "pause")

    def resume(self, identifier: str) -> None:
        self._act(identifier, "unpause")

    def _act(self, identifier: str, action: str) -> None:
        """It answers at once, and it is done later; asked twice, it is done once."""
        try:
            self._post(f"/servers/{identifier}/action", {action: None})
        except (self._sdk.ConflictException, self._sdk.NotFoundException):
            state = self.machine(identifier).state
            if state not in {"gone", {"pause": "paused", "unpause": "running"}[action]}:
                raise

    def stands_on(self, identifier: str) -> dict[str, str]:
        """The host and its hypervisor, where the cloud shows them to this user."""
        server = _part(self._get("compute", f"/servers/{identifier}"), "server", dict)
        host = str(server.get("OS-EXT-SRV-ATTR:hypervisor_hostname") or "")
        if not host:
            return {}
        facts = {"cloud_host": host}
        try:
            answer = self._get("compute", "/os-hypervisors/detail")
        except self._sdk.ForbiddenException:
            return facts
        for one in _part(answer, "hypervisors", list):
            if one.get("hypervisor_hostname") == host:
                facts["cloud_hypervisor"] = str(one.get("hypervisor_type"))
        return {name: printable(text, 100) for name, text in facts.items()}

    def history(self, identifier: str) -> dict[str, str]:
        """From Nova's list of what was done to an instance, which knows whole seconds."""
        path = f"/servers/{identifier}/os-instance-actions"
        try:
            actions = _part(self._get("compute", path), "instanceActions", list)
            made_by = [one["request_id"] for one in actions if one["action"] == "create"]
            if not made_by:
                return {}
            action = self._get("compute", f"{path}/{_quoted(made_by[0])}", _EVENTS)
            return _seconds(_part(action, "instanceAction", dict))
        except (self._sdk.ForbiddenException, self._sdk.NotFoundException):
            return {}  # it does not show them to this user
        except (KeyError, TypeError, ValueError) as error:
            raise NotAnAnswerError(f"events that cannot be read: {error!r}") from error

    def _servers(self, tag: str | None) -> Iterator[Mapping[str, Any]]:
        """Of ours, by name, as far as their metadata says so too."""
        pattern = _quoted(f"^ullage-{tag}-" if tag else "^ullage-")
        for server in self._all("compute", f"/servers/detail?name={pattern}", "servers"):
            owner = server.get("metadata", {}).get(_TAG)
            if owner is not None and tag in {None, owner}:
                yield server

    def _one(self, kind: str, name: str) -> Mapping[str, Any]:
        """The one of that name, or of that id; looked up once. CLOUD_LACKS."""
        if (kind, name) in self._known:
            return self._known[kind, name]
        service, path, filters = _LISTS[kind]
        query = f"?name={_quoted(name)}" if filters else ""
        named = [one for one in self._all(service, path + query, kind) if one.get("name") == name]
        if not named:
            query = f"?id={_quoted(name)}" if filters else ""
            named = [one for one in self._all(service, path + query, kind) if one.get("id") == name]
        if len(named) != 1:
            few = "several" if named else "none"
            reason = f"{few} of its {kind.replace('_', ' ')} is {name!r}"
            raise UllageError(
                CLOUD_LACKS, cloud=self.title, call=f"the plan's {kind}", reason=reason
            )
        self._known[kind, name] = named[0]
        return named[0]

    def _all(self, service: str, path: str, kind: str) -> Iterator[Mapping[str, Any]]:
        """Of all pages."""
        for _ in range(_MOST_PAGES):
            answer = self._get(service, path)
            yield from _part(answer, kind, list)
            if (path := _next(answer, kind)) == "":
                return
        raise NotAnAnswerError(f"a list of {kind} without an end")

    def _get(self, service: str, path: str, version: str | None = None) -> Mapping[str, Any]:
        return self._read(getattr(self._cloud, service).get(path, microversion=version))

    def _post(
        self, path: str, body: Mapping[str, Any], answer_s: float = _ANSWER_S
    ) -> Mapping[str, Any]:
        return self._read(self._cloud.compute.post(path, json=body, timeout=answer_s))

    def _delete(self, path: str) -> None:
        """Who is gone already is no failure."""
        with suppress(self._sdk.NotFoundException):
            self._sdk.raise_from_response(self._cloud.compute.delete(path))

    def _read(self, response: Any) -> Mapping[str, Any]:
        """What it says."""
        self._sdk.raise_from_response(response)
        if response.status_code == _ACCEPTED and not response.content:
            return {}
        try:
            answer = response.json()
        except ValueError as error:
            raise NotAnAnswerError(f"no JSON in its answer of {len(response.content)} B") from error
        if not isinstance(answer, dict):
            raise NotAnAnswerError("its answer is no object")
        return answer


def _next(answer: Mapping[str, Any], kind: str) -> str:
    """Where the list goes on: Nova and Neutron name it beside the list, Glance in a word."""
    links = answer.get(f"{kind}_links")
    more = [link.get("href") for link in links if link.get("rel") == "next"] if links else []
    path = str((more or [answer.get("next") or ""])[0])
    return path if not path.startswith("/v2/") else path.removeprefix("/v2")


def _status(error: Exception) -> int:
    """Of an answer that is an error: of a service, or of the one that lets us in."""
    status = getattr(error, "status_code", None) or getattr(error, "http_status", None)
    return status if isinstance(status, int) else 0


def _fault(status: int, error: Exception, reason: str) -> ApiFault:
    if status in {408, 413, 429} or status >= 500:
        headers = getattr(getattr(error, "response", None), "headers", None) or {}
        return ApiFault("again", reason, after_s(headers), undone=status in _NOT_NOW)
    if status == 401:
        return ApiFault("credentials", reason)
    if status == 403 and _FULL.search(reason):
        return ApiFault("quota", reason)
    return ApiFault("lacks" if status == 404 else "refused", reason)


def _part(answer: Mapping[str, Any], name: str, kind: type[P]) -> P:
    """A part of the answer, which is there in every one."""
    part = answer.get(name)
    if not isinstance(part, kind):
        raise NotAnAnswerError(f"an answer without {name}")
    return part


def _count(one: Mapping[str, Any], name: str) -> int:
    count = _part(one, name, int)
    if count < 0:
        raise NotAnAnswerError(f"{name} is {count}")
    return count


def _made_for(server: Mapping[str, Any], request: Request) -> bool:
    return bool(server.get("metadata", {}).get(_TOKEN) == request.token)


def _machine(server: Mapping[str, Any]) -> Machine:
    try:
        state, task = str(server["status"]), server.get("OS-EXT-STS:task_state")
        fault = (server.get("fault") or {}).get("message")
        words = state + (f", {task}" if task else "") + (f": {fault}" if fault else "")
        every = [one for part in server.get("addresses", {}).values() for one in part]
        shown = [
            (str(one["addr"]), one.get("OS-EXT-IPS:type")) for one in every if one["version"] == 4
        ]
        return Machine(
            id=str(server["id"]),
            name=str(server.get("name", "")),
            tag=str(server.get("metadata", {}).get(_TAG, "")),
            state=_STATES.get(state, "pending"),
            words=printable(words, 300),
            placed=state != "BUILD" or task not in {"scheduling", None},
            crowded_out=bool(_NO_ROOM.search(str(fault))),
            private=next((address for address, kind in shown if kind != "floating"), None),
            public=next((address for address, kind in shown if kind == "floating"), None),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise NotAnAnswerError(f"an instance that cannot be read: {error!r}") from error


def _seconds(action: Mapping[str, Any]) -> dict[str, str]:
    """Until a host was chosen, and what that one took: its image, its network, the start."""
    built = [one for one in action["events"] if one["event"].endswith("build_and_run_instance")]
    if not built or built[-1]["finish_time"] is None:
        return {}
    requested, began, ended = (
        datetime.strptime(text, _TIME)
        for text in (action["start_time"], built[-1]["start_time"], built[-1]["finish_time"])
    )
    seconds = {"cloud_scheduling_s": began - requested, "cloud_building_s": ended - began}
    return {name: f"{length.total_seconds():.0f}" for name, length in seconds.items()}


def _quoted(text: str) -> str:
    return urllib.parse.quote(text, safe="")


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode("ascii")
