"""The `cloudstack` provider: an instance of an Apache CloudStack, by its signed HTTP interface."""

from __future__ import annotations

import base64
import configparser
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, Literal

from pydantic import Field

from ullage.common.errors import CLOUD_CREDENTIALS, CLOUD_LACKS, HOST_MISSING, UllageError
from ullage.common.text import printable
from ullage.environments.base import Options
from ullage.environments.clouds.driver import (
    ApiFault,
    Driver,
    Flavor,
    LookingDriver,
    Machine,
    NotAnAnswerError,
    Request,
    State,
    Trouble,
)
from ullage.environments.clouds.http import answer_fault, sending_fault
from ullage.environments.clouds.options import CloudOptions, Endpoint
from ullage.environments.clouds.provider import CloudProvider
from ullage.environments.clouds.tags import check_key

_STATES: Final[Mapping[str, State]] = {
    "Starting": "pending",
    "Running": "running",
    "Migrating": "running",
    "Stopping": "failed",
    "Stopped": "failed",
    "Error": "failed",
    "Destroyed": "gone",
    "Expunging": "gone",
}
_CODES: Final[Mapping[int, Trouble]] = {
    401: "credentials",
    429: "again",
    431: "refused",
    432: "refused",
    530: "again",
    531: "credentials",
    532: "quota",
    533: "quota",
    534: "again",
    535: "quota",
    536: "again",
}
"""CloudStack's own, of its ApiErrorCode: they are the HTTP status too."""
_NO_SUCH: Final = ("does not exist", "unable to find", "can't find", "cannot find")
_PARAMETER, _PERMISSION = 431, 531
_JOB_FAILED: Final = 2
_INSTANCES: Final = 0
"""The resource type."""
_SETTINGS: Final = ("endpoint", "key", "secret", "verify", "cert", "cert_key", "expiration")
_ANSWER_S: Final = 60
_PAGE, _MOST_PAGES = 500, 100
_ID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class CloudStackOptions(CloudOptions):
    """Fields of a `cloudstack` environment in the plan."""

    cloud: str | None = Field(
        None,
        pattern=r"^[^\x00-\x1f\x7f]{1,255}$",
        description="a section of ~/.cloudstack.ini; left out: cs's default",
    )
    region: None = Field(None, description="CloudStack has none: say `endpoint`")
    host_key: Literal["inject"] = Field(
        "inject", description="`inject` only: its interface shows no console"
    )
    endpoint: Endpoint | None = Field(
        None,
        description="`https://cloud.example/client/api`; left out: what ~/.cloudstack.ini or"
        " CLOUDSTACK_ENDPOINT says",
    )


class CloudStack(CloudProvider):
    """An instance of an Apache CloudStack, by its signed HTTP interface and asynchronous jobs.

    `flavor` is a service offering, `boot_image` a template, `zone` a zone, left out where there is
    only one; the run's tag is the instance's group. cs asks, with the key and the secret that it
    finds by itself (`~/.cloudstack.ini`, CLOUDSTACK_KEY and CLOUDSTACK_SECRET). The host key goes
    in as user data, for cloud-init. The plan's image is unpacked inside, as with `ec2`. CloudStack
    cannot pause: what is idle runs on, with nothing of ours in it. An instance is expunged where we
    may do that, and else destroyed, and then counts against the account until the cloud expunges
    it. Needs `pip install 'ullage[clouds]'`. Seen on a fake that speaks its wire protocol, with
    real processes behind it, never on a real CloudStack.
    """

    name: ClassVar[str] = "cloudstack"
    options_model: ClassVar[type[Options]] = CloudStackOptions
    last_seen: ClassVar[str] = "never: a fake that speaks its API, with real machines behind it"

    def __init__(self, options: Options) -> None:
        assert isinstance(options, CloudStackOptions)
        super().__init__(options)
        self._options = options

    def driver(self) -> Driver:
        return CloudStackDriver(self._options)


class CloudStackDriver(LookingDriver):
    """By cs."""

    def __init__(self, options: CloudStackOptions, *, answer_s: int = _ANSWER_S) -> None:
        """answer_s: so long we wait for an answer. HOST_MISSING, CLOUD_CREDENTIALS."""
        super().__init__()
        try:
            import cs  # noqa: PLC0415 - an extra: who has no cloud need not have it
        except ImportError as error:
            command = "pip install 'ullage[clouds]'"
            raise UllageError(HOST_MISSING, what="cs", command=command) from error
        self._cs: Any = cs
        settings = self._settings(options)
        self._endpoint = str(settings["endpoint"])
        # POST: user data does not fit into a URL. Never a trace: it would show our signatures.
        self._client: Any = cs.CloudStack(**settings, timeout=answer_s, method="post", trace=False)
        self._jobs: dict[str, str] = {}
        """Instance → the job that makes it."""
        self._ends: dict[str, str] = {}
        """Instance → the job that ends it."""

    def _settings(self, options: CloudStackOptions) -> dict[str, Any]:
        """Where it is and who we are. CLOUD_CREDENTIALS."""
        names = ("key", "secret", "endpoint")
        given: dict[str, Any] = {n: os.environ.get(f"CLOUDSTACK_{n.upper()}") for n in names}
        given["endpoint"] = options.endpoint or given["endpoint"]
        if options.cloud or not all(given.values()):
            try:
                read = self._cs.read_config(options.cloud)
            except (SystemExit, ValueError, KeyError, configparser.Error) as error:
                reason = printable(str(error), 300)
                raise UllageError(CLOUD_CREDENTIALS, cloud="CloudStack", reason=reason) from error
            endpoint = options.endpoint or read.get("endpoint")
            given = {n: read[n] for n in _SETTINGS if read.get(n)} | {"endpoint": endpoint}
        for name in names:
            if not given.get(name):
                raise UllageError(CLOUD_CREDENTIALS, cloud="CloudStack", reason=f"no {name}")
        return given

    @property
    def title(self) -> str:
        return f"CloudStack at {self._endpoint}"

    def fault(self, error: Exception) -> ApiFault | None:
        answer = getattr(error, "response", None)
        if isinstance(error, self._cs.CloudStackApiException):
            code, words = _words_of(error)
            trouble = _CODES.get(code)
            if trouble is None:
                return answer_fault(code, answer.headers if answer is not None else {}, words)
            lacking = code == _PARAMETER and any(w in words.lower() for w in _NO_SUCH)
            return ApiFault("lacks" if lacking else trouble, words)
        if isinstance(error, self._cs.CloudStackException) and answer is not None:
            return answer_fault(answer.status_code, answer.headers, printable(str(error), 400))
        if isinstance(error, NotAnAnswerError | self._cs.CloudStackException):
            return ApiFault("again", printable(str(error), 400))
        return sending_fault(error)

    def flavor(self, name: str) -> Flavor:
        offering = self._named("listServiceOfferings", "serviceoffering", name, "service offering")
        try:
            return Flavor(int(offering["cpunumber"]), int(offering["memory"]) << 20)
        except (KeyError, TypeError, ValueError) as error:
            reason = f"service offering {name!r} has no size of its own"
            raise self._lacks("listServiceOfferings", reason) from error

    def find_image(self, name: str) -> str:
        template = self._named(
            "listTemplates", "template", name, "template", templatefilter="executable"
        )
        if template.get("isready") is False:
            raise self._lacks("listTemplates", f"template {name!r} is not ready")
        return str(template["id"])

    def limits(self) -> str:
        every = self._list("listResourceLimits", "resourcelimit", resourcetype=_INSTANCES)
        most = [limit["max"] for limit in every if isinstance(limit.get("max"), int)]
        return ", ".join(f"at most {number} instances" for number in most if number >= 0)

    def launch_anew(self, request: Request) -> Machine:
        self._import_key(request)
        answer = self._client.deployVirtualMachine(**self._wanted(request))
        identifier = str(self._part(answer, "id"))
        self._jobs[identifier] = str(self._part(answer, "jobid"))
        return self.machine(identifier)

    def made_for(self, request: Request) -> list[Machine]:
        ours = [vm for vm in self._vms(request.tag) if _titled(vm)[1] == request.token]
        ours.sort(key=lambda vm: (str(vm.get("created")), str(vm.get("id"))))
        return [self._machine(vm) for vm in ours]

    def _import_key(self, request: Request) -> None:
        try:
            self._client.registerSSHKeyPair(name=request.name, publickey=request.public_key)
        except self._cs.CloudStackApiException as error:
            if "already exists" not in _words_of(error)[1]:
                raise
            (pair,) = self._list("listSSHKeyPairs", "sshkeypair", name=request.name)
            check_key(self.title, request, self._part(pair, "fingerprint"))

    def _wanted(self, request: Request) -> dict[str, Any]:
        offering = self._named(
            "listServiceOfferings", "serviceoffering", request.flavor, "service offering"
        )
        by_id = [group for group in request.security_groups if _ID.fullmatch(group)]
        by_name = [group for group in request.security_groups if group not in by_id]
        network = request.network
        wanted = {
            "serviceofferingid": offering["id"],
            "templateid": request.image,
            "zoneid": self._zone(request.zone),
            "networkids": network
            and self._named("listNetworks", "network", network, "network")["id"],
            "securitygroupids": by_id,
            "securitygroupnames": by_name,
            "name": _host_name(request),
            "displayname": f"{request.name} {request.token}",
            "group": request.tag,
            "keypair": request.name,
            "userdata": base64.b64encode(request.user_data.encode()).decode(),
        }
        return {name: value for name, value in wanted.items() if value}

    def _zone(self, name: str | None) -> str:
        if name is not None:
            return str(self._named("listZones", "zone", name, "zone", available=True)["id"])
        zones = self._list("listZones", "zone", available=True)
        if len(zones) != 1:
            raise self._lacks("listZones", f"there are {len(zones)} zones; say `zone:`")
        return str(zones[0]["id"])

    def machine(self, identifier: str) -> Machine:
        try:
            vms = self._list("listVirtualMachines", "virtualmachine", id=identifier)
        except self._cs.CloudStackApiException as error:
            if _words_of(error)[0] != _PARAMETER:
                raise
            vms = []
        if vms and _STATES.get(str(vms[0].get("state"))) != "failed":
            return self._machine(vms[0])
        words = self._why(identifier)
        if not vms:
            return Machine(identifier, "", "", "gone", words or "not known any more")
        return self._machine(vms[0], words)

    def _why(self, identifier: str) -> str:
        """What the job that makes it says, once it has failed."""
        if identifier not in self._jobs:
            return ""
        job = self._client.queryAsyncJobResult(jobid=self._jobs[identifier])
        failed = self._part(job, "jobstatus") == _JOB_FAILED
        result = job.get("jobresult")
        return str(result.get("errortext", "")) if failed and isinstance(result, Mapping) else ""

    def machines(self, tag: str | None = None) -> list[Machine]:
        machines = [self._machine(vm) for vm in self._vms(tag)]
        return [one for one in machines if one.state != "gone"]

    def console(self, identifier: str) -> str:
        return ""

    def remove(self, name: str, tag: str) -> bool:
        ours = [one for one in self.machines(tag) if one.name == name]
        for machine in ours:
            self.end(machine.id)
        if not ours:
            try:
                self._client.deleteSSHKeyPair(name=name)
            except self._cs.CloudStackApiException as error:
                if _words_of(error)[0] != _PARAMETER:
                    raise  # else there is none
        return not ours

    def end(self, identifier: str) -> None:
        """One job at a time: each is a piece of work for the cloud."""
        if identifier in self._ends:
            job = self._client.queryAsyncJobResult(jobid=self._ends[identifier])
            if self._part(job, "jobstatus") != _JOB_FAILED:
                return
        try:
            answer = self._client.destroyVirtualMachine(id=identifier, expunge=True)
        except self._cs.CloudStackApiException as error:
            code, words = _words_of(error)
            if code == _PARAMETER and any(w in words.lower() for w in _NO_SUCH):
                return
            if code != _PERMISSION:
                raise
            answer = self._client.destroyVirtualMachine(id=identifier)
        self._ends[identifier] = str(self._part(answer, "jobid"))

    def _vms(self, tag: str | None) -> Sequence[Mapping[str, Any]]:
        """Ours, or those of one run."""
        word = f"ullage-{tag}-" if tag else "ullage-"
        vms = self._list("listVirtualMachines", "virtualmachine", keyword=word)
        return [vm for vm in vms if vm.get("group") and tag in {None, vm["group"]}]

    def _list(self, call: str, part: str, **arguments: Any) -> Sequence[Mapping[str, Any]]:
        """All pages. CloudStack leaves an empty list out."""
        every: list[Mapping[str, Any]] = []
        for number in range(1, _MOST_PAGES + 1):
            page = {"page": number, "pagesize": _PAGE}
            answer: object = getattr(self._client, call)(**page, **arguments)
            ones = answer.get(part, []) if isinstance(answer, Mapping) else None
            if not isinstance(ones, list) or not all(isinstance(one, Mapping) for one in ones):
                raise NotAnAnswerError(f"an answer to {call} without {part}")
            every += ones
            if not ones or len(every) >= self._part(answer, "count"):
                return every
        raise NotAnAnswerError(f"an answer to {call} without an end")

    def _named(
        self, call: str, part: str, name: str, what: str, **arguments: Any
    ) -> Mapping[str, Any]:
        """By its id or its name. CLOUD_LACKS."""
        for one in self._list(call, part, **arguments):
            if name in {one.get("id"), one.get("name")}:
                return one
        raise self._lacks(call, f"no {what} {name!r}")

    def _part(self, answer: object, name: str) -> Any:
        if not isinstance(answer, Mapping) or name not in answer:
            raise NotAnAnswerError(f"an answer without {name}")
        return answer[name]

    def _lacks(self, call: str, reason: str) -> UllageError:
        return UllageError(CLOUD_LACKS, cloud=self.title, call=call, reason=reason)

    def _machine(self, vm: Mapping[str, Any], why: str = "") -> Machine:
        try:
            nics = vm.get("nic") or [{}]
            state = str(vm["state"])
            return Machine(
                id=str(vm["id"]),
                name=_titled(vm)[0],
                tag=str(vm.get("group") or ""),
                state=_STATES.get(state, "pending"),
                words=printable(f"{state}: {why}" if why else state, 300),
                private=nics[0].get("ipaddress"),
                public=vm.get("publicip"),
            )
        except (KeyError, TypeError, AttributeError, IndexError) as error:
            raise NotAnAnswerError(f"an instance that cannot be read: {error!r}") from error


def _words_of(error: Any) -> tuple[int, str]:
    """CloudStack's own code and text."""
    about = error.error if isinstance(error.error, Mapping) else {}
    code, text = about.get("errorcode"), about.get("errortext") or str(error)
    status: int = getattr(error.response, "status_code", 0)
    return code if isinstance(code, int) else status, printable(str(text), 400)


def _titled(vm: Mapping[str, Any]) -> tuple[str, str]:
    """Our name for it, and the token of its request."""
    name, _, token = str(vm.get("displayname") or "").partition(" ")
    return name, token


def _host_name(request: Request) -> str:
    """No two of a network may have the same, also while one of them is still going."""
    word = re.sub(r"[^a-z0-9-]", "-", request.name.lower())
    return f"{word[:50].rstrip('-')}-{request.token[:8]}"
