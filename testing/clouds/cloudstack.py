"""A fake of Apache CloudStack: its signed HTTP interface, with a real machine behind each instance.

Commands, parameters, fields of answers, states, codes and words of errors are those that the
published descriptions of CloudStack 4's interface tell; delays are much shorter. A parameter that
those do not know is refused here, where a CloudStack would take no notice of it.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, ClassVar, Final
from urllib.parse import parse_qsl, quote

from testing.clouds.fake import FLAVOR, IMAGE, SMALL, Answer, CloudFake, Refusal, Since

KEY: Final = "the-key-of-nobody"
SECRET: Final = "s3cret-s3cret"
_UP: Final = (("Starting", 0.25),)
_DOWN: Final = (("Stopping", 0.2),)
_COMMON: Final = frozenset(
    {"command", "apikey", "response", "signature", "signatureversion", "expires", "page"}
    | {"pagesize", "listall"}
)
PARAMETERS: Final[Mapping[str, tuple[frozenset[str], frozenset[str]]]] = {
    "listServiceOfferings": (frozenset(), frozenset({"id", "name", "keyword"})),
    "listTemplates": (frozenset({"templatefilter"}), frozenset({"id", "name", "zoneid"})),
    "listZones": (frozenset(), frozenset({"available", "id", "name"})),
    "listNetworks": (frozenset(), frozenset({"id", "keyword", "zoneid"})),
    "listVirtualMachines": (frozenset(), frozenset({"id", "keyword", "name", "state"})),
    "listResourceLimits": (frozenset(), frozenset({"resourcetype"})),
    "registerSSHKeyPair": (frozenset({"name", "publickey"}), frozenset()),
    "listSSHKeyPairs": (frozenset(), frozenset({"name"})),
    "deleteSSHKeyPair": (frozenset({"name"}), frozenset()),
    "queryAsyncJobResult": (frozenset({"jobid"}), frozenset()),
    "deployVirtualMachine": (
        frozenset({"serviceofferingid", "templateid", "zoneid"}),
        frozenset({"displayname", "group", "keypair", "name", "networkids", "userdata"})
        | frozenset({"securitygroupids", "securitygroupnames"}),
    ),
    "destroyVirtualMachine": (frozenset({"id"}), frozenset({"expunge"})),
}
"""Command → what must be there, and what may."""


@dataclass
class OneInstance:
    """One virtual machine. It moves from state to state by itself."""

    id: str
    job: str
    wanted: dict[str, str]
    public_key: str
    created: str
    stages: Since
    address: str = ""
    failure: str = ""


@dataclass
class _RefusedError(Exception):
    code: int
    words: str


@dataclass
class CloudStackFake(CloudFake):
    """One management server."""

    PROVIDER: ClassVar[str] = "cloudstack"
    PATH: ClassVar[str] = "/client/api"
    LAUNCH: ClassVar[str] = "deployVirtualMachine"
    SIZES: ClassVar[str] = "listServiceOfferings"
    IMAGES: ClassVar[str] = "listTemplates"
    SIGNED: ClassVar[tuple[str, ...]] = (SECRET,)

    instances: dict[str, OneInstance] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    ends: dict[str, str] = field(default_factory=dict)
    """Job → the instance that it ends."""
    may_expunge: bool = False
    zones: tuple[str, ...] = ("lab-zone",)

    def __post_init__(self) -> None:
        super().__init__()
        size = {"cpunumber": self.cpus, "memory": self.memory_bytes >> 20}
        self._offerings = [
            {"id": _id(FLAVOR), "name": FLAVOR, "iscustomized": False, **size},
            {"id": _id(SMALL), "name": SMALL, "iscustomized": False, "cpunumber": 1, "memory": 64},
            {"id": _id("custom"), "name": "custom", "iscustomized": True},
        ]

    def action(self, path: str, body: bytes) -> str:
        return dict(parse_qsl(body.decode())).get("command", "?")

    def answer(self, path: str, body: bytes) -> Answer:
        given = dict(parse_qsl(body.decode(), keep_blank_values=True))
        command = given.get("command", "?")
        try:
            _check_signature(given)
            with self.lock:
                return _json(200, command, self._called(command)(_checked(command, given)))
        except _RefusedError as refused:
            return _refusal(command, refused.code, refused.words)

    def _called(self, command: str) -> Callable[[dict[str, str]], dict[str, Any]]:
        methods = {
            "listServiceOfferings": self._list_service_offerings,
            "listTemplates": self._list_templates,
            "listZones": self._list_zones,
            "listResourceLimits": self._list_resource_limits,
            "listNetworks": self._list_networks,
            "listVirtualMachines": self._list_machines,
            "registerSSHKeyPair": self._register_ssh_key_pair,
            "listSSHKeyPairs": self._list_ssh_key_pairs,
            "deleteSSHKeyPair": self._delete_ssh_key_pair,
            "deployVirtualMachine": self._deploy_machine,
            "destroyVirtualMachine": self._destroy_machine,
            "queryAsyncJobResult": self._query_async_job_result,
        }
        if command not in methods:
            words = "The given command does not exist or it is not available for user"
            raise _RefusedError(432, words)
        return methods[command]

    def refusal(self, why: Refusal) -> Answer:
        verify = "unable to verify user credentials and/or request signature"
        limit = "Maximum number of resources of type 'user_vm' for account name=oneuser in"
        code, words = {
            "credentials": (401, verify),
            "quota": (535, f"{limit} domain id=1 has been exceeded."),
            "lacks": (431, _no_such("templateid", "77")),
            "refused": (431, "Can't specify network Ids in Basic zone"),
        }[why]
        return _refusal(self.LAUNCH, code, words)

    def left(self) -> list[str]:
        there = [one.wanted["displayname"] for one in self.instances.values() if self._there(one)]
        return [*there, *self.keys]

    def vanish(self) -> None:
        with self.lock:
            for one in self.instances.values():
                one.stages = Since((), "Destroyed")
                self.end(one.id)

    def _there(self, one: OneInstance) -> bool:
        return self._state(one) not in {"Destroyed", "Expunging"}

    def _list_service_offerings(self, given: dict[str, str]) -> dict[str, Any]:
        return _listed("serviceoffering", self._offerings)

    def _list_templates(self, given: dict[str, str]) -> dict[str, Any]:
        lab = {"id": _id(IMAGE), "name": IMAGE, "isready": True}
        broken = {"id": _id("broken-image"), "name": "broken-image", "isready": False}
        return _listed("template", [lab, broken])

    def _list_zones(self, given: dict[str, str]) -> dict[str, Any]:
        return _listed("zone", [{"id": _id(zone), "name": zone} for zone in self.zones])

    def _list_networks(self, given: dict[str, str]) -> dict[str, Any]:
        return _listed("network", [{"id": _id("lab-network"), "name": "lab-network"}])

    def _list_resource_limits(self, given: dict[str, str]) -> dict[str, Any]:
        most = -1 if self.room is None else self.room
        return _listed("resourcelimit", [{"resourcetype": "0", "max": most}])

    def _list_machines(self, given: dict[str, str]) -> dict[str, Any]:
        if "id" in given and given["id"] not in self.instances:
            raise _RefusedError(431, _no_such("id", given["id"]))
        every = [one for one in self.instances.values() if given.get("id") in {None, one.id}]
        word = given.get("keyword", "")
        shown = [self._vm(one) for one in every if word in one.wanted["displayname"]]
        start = (int(given.get("page", 1)) - 1) * int(given.get("pagesize", 500))
        page = shown[start : start + int(given.get("pagesize", 500))]
        return {"count": len(shown), "virtualmachine": page} if page else {}

    def _register_ssh_key_pair(self, given: dict[str, str]) -> dict[str, Any]:
        if given["name"] in self.keys:
            words = f"A key pair with name '{given['name']}' already exists for this account."
            raise _RefusedError(431, words)
        self.keys[given["name"]] = given["publickey"]
        return {"keypair": _shown(given["name"], given["publickey"])}

    def _list_ssh_key_pairs(self, given: dict[str, str]) -> dict[str, Any]:
        name = given["name"]
        pairs = [_shown(name, self.keys[name])] if name in self.keys else []
        return _listed("sshkeypair", pairs)

    def _delete_ssh_key_pair(self, given: dict[str, str]) -> dict[str, Any]:
        if self.keys.pop(given["name"], None) is None:
            words = f"A key pair with name '{given['name']}' does not exist for account oneuser"
            raise _RefusedError(431, words)
        return {"success": True}

    def _deploy_machine(self, given: dict[str, str]) -> dict[str, Any]:
        for name, known in (("templateid", _id(IMAGE)), ("networkids", _id("lab-network"))):
            if given.get(name, known) != known:
                raise _RefusedError(431, _no_such(name, given[name]))
        if given["keypair"] not in self.keys:
            words = f"A key pair with name '{given['keypair']}' was not found."
            raise _RefusedError(431, words)
        there = [one for one in self.instances.values() if self._there(one)]
        if self.room is not None and len(there) >= self.room:
            words = "Maximum number of resources of type 'user_vm' has been exceeded."
            raise _RefusedError(535, words)
        if any(one.wanted["name"] == given["name"] for one in there):
            words = "There already exists a VM by the name: " + given["name"]
            raise _RefusedError(431, words)
        stages = Since(_UP, "Error" if self.stillborn else "Running")
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f+0000")
        key = self.keys[given["keypair"]]
        one = OneInstance(str(uuid.uuid4()), str(uuid.uuid4()), given, key, now, stages)
        one.failure = "Unable to create a deployment for VM" if self.stillborn else ""
        self.instances[one.id] = one
        self.requests.append(given["displayname"])
        if self.on_launch is not None:
            self.on_launch()
        return {"id": one.id, "jobid": one.job}

    def _destroy_machine(self, given: dict[str, str]) -> dict[str, Any]:
        if given.get("expunge") == "true" and not self.may_expunge:
            words = "Parameter expunge can be passed by Admin only. Or when the allow.user."
            raise _RefusedError(531, f"{words}expunge.recover.vm key is set.")
        if given["id"] not in self.instances:
            raise _RefusedError(431, _no_such("id", given["id"]))
        job = str(uuid.uuid4())
        self.ends[job] = given["id"]
        one = self.instances[given["id"]]
        if self._there(one):  # jobs of one instance wait for each other
            last = "Expunging" if self.may_expunge else "Destroyed"
            rest = _UP if self._state(one) == "Starting" else ()
            one.stages = Since((*rest, *_DOWN), last)
            self.end(one.id)
        return {"id": one.id, "jobid": job}

    def _query_async_job_result(self, given: dict[str, str]) -> dict[str, Any]:
        job = given["jobid"]
        making = next((one for one in self.instances.values() if one.job == job), None)
        if making is None and job not in self.ends:
            raise _RefusedError(431, _no_such("jobid", job))
        one = making or self.instances[self.ends[job]]
        busy = self._state(one) == ("Starting" if making else "Stopping")
        status = 0 if busy else 2 if making and one.failure else 1
        answer = {"jobid": job, "jobstatus": status, "jobprocstatus": 0, "jobresultcode": 0}
        if status == 2:
            return answer | {
                "jobresultcode": 530,
                "jobresulttype": "object",
                "jobresult": {"errorcode": 533, "errortext": one.failure},
            }
        return answer | ({"jobresult": {"virtualmachine": self._vm(one)}} if status else {})

    def _state(self, one: OneInstance) -> str:
        """And boot its machine, if that is due."""
        stage = one.stages.stage
        if stage == "Running" and not one.address:
            user_data = base64.b64decode(one.wanted.get("userdata", "")).decode()
            one.address = self.boot(one.id, one.public_key, user_data)
        return stage

    def _vm(self, one: OneInstance) -> dict[str, Any]:
        state = self._state(one)
        return {
            "id": one.id,
            "name": one.wanted["name"],
            "displayname": one.wanted["displayname"],
            "group": one.wanted.get("group", ""),
            "created": one.created,
            "state": state,
            "keypairs": one.wanted["keypair"],
            "serviceofferingid": one.wanted["serviceofferingid"],
            "templateid": one.wanted["templateid"],
            "zoneid": one.wanted["zoneid"],
            "nic": [{"id": _id(one.id), "ipaddress": one.address}] if one.address else [],
        }


def _check_signature(given: Mapping[str, str]) -> None:
    """As CloudStack's documents tell to sign."""
    rest = {name: text for name, text in given.items() if name.lower() != "signature"}
    words = "&".join(f"{n}={quote(rest[n], safe='*')}" for n in sorted(rest, key=str.lower))
    digest = hmac.new(SECRET.encode(), words.lower().encode(), hashlib.sha1).digest()
    signature = base64.b64encode(digest).decode()
    key = {name.lower(): text for name, text in given.items()}
    words = "unable to verify user credentials and/or request signature"
    if key.get("apikey") != KEY or not hmac.compare_digest(signature, key.get("signature", "")):
        raise _RefusedError(401, words)
    if datetime.fromisoformat(key["expires"]) < datetime.now(UTC):
        raise _RefusedError(401, words)


def _checked(command: str, parameters: Mapping[str, str]) -> dict[str, str]:
    """The parameters, which are those that the command has."""
    needed, possible = PARAMETERS.get(command, (frozenset(), frozenset()))
    given = {name: text for name, text in parameters.items() if name.lower() not in _COMMON}
    for name in sorted(needed - set(given)):
        raise _RefusedError(
            431, f"Unable to execute API command {command.lower()} due to missing parameter {name}"
        )
    for name in sorted(set(given) - needed - possible):
        raise _RefusedError(431, f"{command} has no parameter {name}")
    paging = {name: text for name, text in parameters.items() if name in {"page", "pagesize"}}
    return given | paging


def _id(name: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, name))


def _no_such(name: str, value: str) -> str:
    words = f"Invalid parameter {name} value={value} due to incorrect long value format, or entity"
    return f"Unable to execute API command due to invalid value. {words} does not exist"


def _shown(name: str, public_key: str) -> dict[str, Any]:
    """A key pair: CloudStack does not show the key itself."""
    blob = base64.b64decode(public_key.split()[1])
    return {"name": name, "fingerprint": hashlib.md5(blob, usedforsecurity=False).digest().hex(":")}


def _listed(part: str, things: list[dict[str, Any]]) -> dict[str, Any]:
    return {"count": len(things), part: things}


def _json(status: int, command: str, answer: dict[str, Any]) -> Answer:
    text = json.dumps({f"{command.lower()}response": answer})
    return status, {"Content-Type": "application/json;charset=UTF-8"}, text


def _refusal(command: str, code: int, words: str) -> Answer:
    answer = {"uuidList": [], "errorcode": code, "cserrorcode": 4350, "errortext": words}
    return _json(code, command, answer)
