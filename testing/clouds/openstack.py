"""Keystone, Nova, Glance and Neutron as far as a client of theirs needs them, with a real machine
behind each instance: a plan really runs there.

Paths, bodies, states and errors are those of the published APIs (Identity v3, Compute 2.1,
Image v2, Networking v2.0); a real cloud is in tests/lab/real_openstack.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import threading
import time
import urllib.parse
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

from testing.clouds import machine
from ullage.common.quantities import memory_bytes

PASSWORD: Final = "s3cret-s3cret"
FLAVOR: Final = "lab.host"
"""A size of instance that has all that this host has."""
NOWHERE: Final = "192.0.2.1"
"""An address of documents, which nobody has."""
BUILD_S: Final = 0.3
"""Until an instance runs, stands still, or is gone."""

Answer = tuple[int, dict[str, str], str]
Trouble = Callable[[str], Answer | None]
"""`POST /servers` → what is answered in place of the right answer; None: that."""


@dataclass
class Server:
    """One instance."""

    id: str
    wanted: Mapping[str, Any]
    booted: machine.CloudMachine
    status: str = "BUILD"
    task: str | None = "spawning"
    turns_at: float = 0.0
    turns_to: str = "ACTIVE"
    fault: str = ""
    created: str = ""

    def turn(self, status: str, task: str) -> None:
        """It will be in that state."""
        self.task, self.turns_to, self.turns_at = task, status, time.monotonic() + BUILD_S

    def look(self) -> None:
        """As it is by now."""
        if self.task and time.monotonic() >= self.turns_at:
            self.task, self.status = None, self.turns_to

    def shown(self, double: OpenStackDouble) -> dict[str, Any]:
        """As Nova shows it."""
        address = {"addr": self.booted.address, "version": 4, "OS-EXT-IPS:type": "fixed"}
        every = [address]
        if double.floating:
            own = {**address, "addr": NOWHERE}
            every = [own, {**address, "OS-EXT-IPS:type": "floating"}]
        there = self.status not in {"BUILD", "ERROR"}
        shown: dict[str, Any] = {
            "id": self.id,
            "name": self.wanted["name"],
            "created": self.created,
            "status": self.status,
            "metadata": self.wanted.get("metadata", {}),
            "key_name": self.wanted.get("key_name"),
            "addresses": {"prov": every} if there else {},
            "OS-EXT-STS:task_state": self.task,
        }
        if self.status == "ERROR":
            shown["fault"] = {"code": 500, "message": self.fault}
        if double.admin:
            shown["OS-EXT-SRV-ATTR:hypervisor_hostname"] = "compute-1"
        return shown


@dataclass
class OpenStackDouble:
    """A cloud, while it stands."""

    endpoint: str = ""
    cpus: int = 0
    servers: dict[str, Server] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    """Method and path of each, without its query; ids are `ID`."""
    trouble: Trouble | None = None
    late: int = 0
    """So many requests for an instance are cut off, and done when the next one has come."""
    late_s: float | None = None
    """They are done after so many seconds in place of that, whoever comes or does not."""
    cut_off: list[Any] = field(default_factory=list)
    asked_for: list[Any] = field(default_factory=list)
    """The bodies of the requests for an instance that were answered with one."""
    lost: int = 0
    """So many answers to `POST /servers` get lost after it has been done."""
    dead: bool = False
    """What is launched now never boots."""
    on_launch: Callable[[], object] | None = None
    """Called when an instance is there and nobody has been answered."""
    impostor: bool = False
    """What answers at an instance's address has another host key than the instance."""
    wired: bool = False
    """Each instance has a network of its own."""
    full: bool = False
    """No host has room: instances end in ERROR."""
    fault: str = "No valid host was found. There are not enough hosts available."
    """Why they do."""
    floating: bool = False
    """An instance's own address leads nowhere from here, a floating one to its machine."""
    disk_bytes: int | None = None
    """So much fits on an instance's disk; None: as on this host's."""
    quota: int = 100
    admin: bool = False
    pauses: bool = True
    """Else its policy forbids it."""
    tokens: set[str] = field(default_factory=set)
    lock: threading.RLock = field(default_factory=threading.RLock)

    def plan(self, **more: Any) -> dict[str, Any]:
        """An environment of a plan."""
        return {
            "provider": "openstack",
            "cloud": "double",
            "flavor": FLAVOR,
            "boot_image": "debian12",
            "user": "root",
            "deadline_s": 120,
            **more,
        }

    def clouds_yaml(self, password: str = PASSWORD) -> str:
        """The file that a client reads."""
        auth = {
            "auth_url": f"{self.endpoint}/identity/v3",
            "username": "guest",
            "password": password,
            "project_name": "guests",
            "user_domain_name": "Default",
            "project_domain_name": "Default",
        }
        return json.dumps({"clouds": {"double": {"auth": auth, "region_name": "RegionOne"}}})

    @property
    def machines(self) -> dict[str, machine.CloudMachine]:
        """Instance → its machine."""
        return {identifier: one.booted for identifier, one in list(self.servers.items())}

    def vanish(self) -> None:
        """All instances are deleted by somebody else."""
        with self.lock:
            for server in list(self.servers.values()):
                server.booted.end()
            self.servers.clear()

    def left(self) -> list[str]:
        """Instances and key pairs that are still there."""
        return [*self.servers, *self.keys]

    def sweep(self) -> None:
        """What was to be deleted is."""
        for server in list(self.servers.values()):
            server.look()
            if server.status == "DELETED":
                del self.servers[server.id]


def _error(status: int, kind: str, message: str) -> Answer:
    return _json(status, {kind: {"code": status, "message": message}})


def _json(status: int, body: Any) -> Answer:
    return status, {"Content-Type": "application/json"}, json.dumps(body)


def identifier(name: str) -> str:
    """Of the image or the network of that name."""
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, name))


def _at(second: int) -> str:
    return f"2026-11-28T22:31:{second:02}.000000"


class Cloud:
    """Answers one request after the other."""

    def __init__(self, double: OpenStackDouble) -> None:
        self.double = double

    def answer(self, call: str, path: str, query: Mapping[str, str], body: Any) -> Answer:
        """Of all services but the one that lets in."""
        if (reply := _ROUTES.get(call)) is None:
            return _error(404, "itemNotFound", f"no {call}")
        return reply(self, query, body, *(p for p in path.split("/") if p in self._ids()))

    def _ids(self) -> set[str]:
        return {*self.double.servers, *self.double.keys}

    def flavors(self, *_: Any) -> Answer:
        host = {"id": "1", "name": FLAVOR, "vcpus": self.double.cpus}
        small = {"id": "2", "name": "small", "vcpus": 1, "ram": 128}
        return _json(200, {"flavors": [host | {"ram": memory_bytes() >> 20}, small]})

    def named(self, kind: str, query: Mapping[str, str], *names: str) -> Answer:
        """A list that looks for names and ids."""
        every = [{"id": identifier(name), "name": name} for name in names]
        chosen = [one for one in every if all(one[key] == text for key, text in query.items())]
        return _json(200, {kind: chosen})

    def images(self, query: Mapping[str, str], *_: Any) -> Answer:
        return self.named("images", query, "debian12", "twice", "twice")

    def networks(self, query: Mapping[str, str], *_: Any) -> Answer:
        return self.named("networks", query, "prov")

    def groups(self, *_: Any) -> Answer:
        return _json(200, {"server_groups": [{"id": "g-1", "name": "apart"}]})

    def limits(self, *_: Any) -> Answer:
        used = {"totalInstancesUsed": len(self.double.servers)}
        absolute = {"maxTotalInstances": self.double.quota, **used}
        return _json(200, {"limits": {"rate": [], "absolute": absolute}})

    def hypervisors(self, *_: Any) -> Answer:
        if not self.double.admin:
            return _error(403, "forbidden", "Policy doesn't allow it to be performed.")
        one = {"hypervisor_hostname": "compute-1", "hypervisor_type": "QEMU"}
        return _json(200, {"hypervisors": [one]})

    def import_key(self, _: Mapping[str, str], body: Any, *__: str) -> Answer:
        pair = body["keypair"]
        if pair["name"] in self.double.keys:
            return _error(409, "conflictingRequest", f"Key pair '{pair['name']}' already exists.")
        self.double.keys[pair["name"]] = pair["public_key"]
        return _json(200, {"keypair": pair})

    def key(self, *rest: Any) -> Answer:
        if not (names := rest[2:]):
            return _error(404, "itemNotFound", "Keypair not found for user")
        pair = {"name": names[0], "public_key": self.double.keys[names[0]]}
        return _json(200, {"keypair": pair})

    def delete_key(self, *rest: Any) -> Answer:
        return self._deleted(self.double.keys, rest[2:])

    def _deleted(self, of: dict[str, str], names: tuple[str, ...]) -> Answer:
        if not names:
            return _error(404, "itemNotFound", "Keypair not found for user")
        del of[names[0]]
        return 202, {}, ""

    def launch(self, _: Mapping[str, str], body: Any, *__: str) -> Answer:
        double, wanted = self.double, body["server"]
        if double.late:
            double.late -= 1
            self._later(body)
            return _error(504, "gatewayTimeout", "The gateway waits no longer.")
        while double.cut_off:
            self.launch({}, double.cut_off.pop(0))
        if len(double.servers) >= double.quota:
            used = f"already used {len(double.servers)} of {double.quota} instances"
            return _error(
                403, "forbidden", f"Quota exceeded for instances: Requested 1, but {used}"
            )
        double.asked_for.append(body)
        return self._make(wanted, double.keys[wanted["key_name"]])

    def _make(self, wanted: Mapping[str, Any], key: str) -> Answer:
        double, identifier = self.double, str(uuid.uuid4())
        text = base64.b64decode(wanted.get("user_data", "")).decode()
        user_data = "" if double.impostor else text
        booted = machine.boot(
            identifier[:8], key, user_data, wired=double.wired, disk_bytes=double.disk_bytes
        )
        if double.dead:
            booted.unplug()
        server = Server(identifier, wanted, booted)
        server.turn("ERROR" if double.full else "ACTIVE", "spawning")
        server.fault = double.fault
        server.created = _at(len(double.servers))
        double.servers[identifier] = server
        if double.on_launch is not None:
            double.on_launch()
        return _json(202, {"server": {"id": identifier, "links": []}})

    def _later(self, body: Any) -> None:
        """What was cut off is still on its way."""
        double = self.double
        if double.late_s is None:
            double.cut_off.append(body)
            return

        key = double.keys[body["server"]["key_name"]]

        def carry_out() -> None:
            with double.lock:
                self._make(body["server"], key)

        timer = threading.Timer(double.late_s, carry_out)
        timer.daemon = True
        timer.start()

    def servers(self, query: Mapping[str, str], *_: Any) -> Answer:
        """Of two, one a page."""
        known = list(self.double.servers.values())
        ours = [s for s in known if re.search(query.get("name", ""), s.wanted["name"])]
        first = int(query.get("marker", 0))
        answer: dict[str, Any] = {"servers": [s.shown(self.double) for s in ours[first:][:1]]}
        if len(ours) > first + 1:
            more = urllib.parse.urlencode({**query, "marker": first + 1})
            href = f"{self.double.endpoint}/compute/v2.1/servers/detail?{more}"
            answer["servers_links"] = [{"rel": "next", "href": href}]
        return _json(200, answer)

    def server(self, _: Mapping[str, str], __: Any, *ids: str) -> Answer:
        if not ids:
            return _error(404, "itemNotFound", "Instance could not be found.")
        return _json(
            200,
            {"server": self.double.servers[ids[0]].shown(self.double)},
        )

    def actions(self, _: Mapping[str, str], __: Any, *ids: str) -> Answer:
        if not ids:
            return _error(404, "itemNotFound", "Instance could not be found.")
        create = {"action": "create", "request_id": "req-1", "start_time": _at(0)}
        return _json(200, {"instanceActions": [create]})

    def action(self, *_: Any) -> Answer:
        """Nova's clock has whole seconds."""
        times = {"start_time": _at(2), "finish_time": _at(7), "result": "Success"}
        events = [{"event": "compute__do_build_and_run_instance", **times}]
        create = {"action": "create", "request_id": "req-1", "start_time": _at(0)}
        return _json(200, {"instanceAction": {**create, "events": events}})

    def delete(self, _: Mapping[str, str], __: Any, *ids: str) -> Answer:
        if not ids:
            return _error(404, "itemNotFound", "Instance could not be found.")
        server = self.double.servers[ids[0]]
        if server.task != "deleting":
            server.booted.end()
            server.turn("DELETED", "deleting")
        return 204, {}, ""

    def act(self, _: Mapping[str, str], body: Any, *ids: str) -> Answer:
        if not ids:
            return _error(404, "itemNotFound", "Instance could not be found.")
        server, (action,) = self.double.servers[ids[0]], body
        if action == "os-getConsoleOutput":
            if server.status == "BUILD":
                return _error(409, "conflictingRequest", "Instance is not ready")
            return _json(200, {"output": server.booted.console})
        if not self.double.pauses:
            return _error(403, "forbidden", "Policy doesn't allow os-pause to be performed.")
        needs = {"pause": "ACTIVE", "unpause": "PAUSED"}[action]
        if server.status != needs or server.task:
            words = (
                f"Cannot '{action}' instance {server.id} while it is in vm_state {server.status}"
            )
            return _error(409, "conflictingRequest", words)
        server.booted.hold(action == "pause")
        server.turn("PAUSED" if action == "pause" else "ACTIVE", f"{action[:-1]}ing")
        return 202, {}, ""


_ROUTES: Final[Mapping[str, Callable[..., Answer]]] = {
    "GET /flavors/detail": Cloud.flavors,
    "GET /images": Cloud.images,
    "GET /networks": Cloud.networks,
    "GET /os-server-groups": Cloud.groups,
    "GET /limits": Cloud.limits,
    "GET /os-hypervisors/detail": Cloud.hypervisors,
    "POST /os-keypairs": Cloud.import_key,
    "GET /os-keypairs/ID": Cloud.key,
    "DELETE /os-keypairs/ID": Cloud.delete_key,
    "POST /servers": Cloud.launch,
    "GET /servers/detail": Cloud.servers,
    "GET /servers/ID": Cloud.server,
    "DELETE /servers/ID": Cloud.delete,
    "POST /servers/ID/action": Cloud.act,
    "GET /servers/ID/os-instance-actions": Cloud.actions,
    "GET /servers/ID/os-instance-actions/req-1": Cloud.action,
}
_ROOMS: Final = {"compute": "/v2.1", "image": "/v2", "network": "/v2.0"}


def _versions(endpoint: str, service: str, path: str) -> Answer | None:
    """What a service says of itself at its root."""
    room = "/v3" if service == "identity" else _ROOMS[service]
    if path.rstrip("/") not in {"", room}:
        return None
    number = room.removeprefix("/")
    version = {
        "id": "v2.15" if service == "image" else "v3.14" if service == "identity" else number,
        "status": "CURRENT",
        "version": "2.90" if service == "compute" else "",
        "min_version": "2.1" if service == "compute" else "",
        "links": [{"rel": "self", "href": f"{endpoint}/{service}{room}/"}],
    }
    return _json(200, {"version": version} if path.rstrip("/") else {"versions": [version]})


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    double: OpenStackDouble

    def log_message(self, *_: object) -> None:
        """Nobody asks."""

    def _do(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        text = self.rfile.read(length).decode()
        url = urllib.parse.urlsplit(self.path)
        _, service, path = (url.path + "/").split("/", 2)
        path = "/" + path.strip("/")
        answer, call = self._answer(service, path, dict(urllib.parse.parse_qsl(url.query)), text)
        status, headers, body = answer
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if "Content-Length" not in headers and status != 204:
            self.send_header("Content-Length", str(len(body.encode())))
        self.end_headers()
        if call == "POST /servers" and status == 202 and self.double.lost:
            self.double.lost -= 1
            self.wfile.write(body[:10].encode())
            self.close_connection = True
            return
        self.wfile.write(body.encode())
        self.close_connection = "Content-Length" in headers

    do_GET = do_POST = do_DELETE = _do  # noqa: N815 - as the base calls them

    def _answer(
        self, service: str, path: str, query: dict[str, str], text: str
    ) -> tuple[Answer, str]:
        double = self.double
        if (about := _versions(double.endpoint, service, path)) is not None:
            return about, ""
        if service == "identity":
            call = "POST /auth/tokens"
            double.calls.append(call)
            return (double.trouble and double.trouble(call)) or self._let_in(text), call
        path = path.removeprefix(_ROOMS[service])
        call = f"{self.command} {re.sub(_ID, '/ID', path)}"
        double.calls.append(call)
        if double.trouble and (answer := double.trouble(call)):
            return answer, call
        if self.headers.get("X-Auth-Token") not in double.tokens:
            return _error(401, "error", "The request you have made requires authentication."), call
        with double.lock:
            double.sweep()
            return Cloud(double).answer(call, path, query, json.loads(text or "null")), call

    def _let_in(self, text: str) -> Answer:
        user = json.loads(text)["auth"]["identity"]["password"]["user"]
        if user["password"] != PASSWORD:
            return _error(401, "error", "The request you have made requires authentication.")
        token, end = uuid.uuid4().hex, "2099-01-01T00:00:00.000000Z"
        self.double.tokens.add(token)
        catalog = [
            {
                "type": kind,
                "name": kind,
                "endpoints": [
                    {
                        "interface": "public",
                        "region": "RegionOne",
                        "region_id": "RegionOne",
                        "url": f"{self.double.endpoint}/{kind}"
                        + ("/v2.1" if kind == "compute" else ""),
                    }
                ],
            }
            for kind in _ROOMS
        ]
        about = {"id": "p", "name": "guests", "domain": {"id": "default", "name": "Default"}}
        body = {"methods": ["password"], "expires_at": end, "project": about, "catalog": catalog}
        more = {"user": {**about, "name": "guest"}, "roles": [], "issued_at": end}
        status, headers, answer = _json(201, {"token": body | more})
        return status, {**headers, "X-Subject-Token": token}, answer


_ID: Final = r"/(?:[0-9a-f]{8}-[0-9a-f-]{27}|ullage-[^/]+)"


@contextlib.contextmanager
def cloud(directory: Path) -> Iterator[OpenStackDouble]:
    """Up, and gone at the end with all its machines; its `clouds.yaml` lies in the directory."""
    double = OpenStackDouble(cpus=len(os.sched_getaffinity(0)))
    handler = type("Handler", (_Handler,), {"double": double})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    double.endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    (directory / "clouds.yaml").write_text(double.clouds_yaml())
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield double
    finally:
        server.shutdown()
        server.server_close()
        double.vanish()
