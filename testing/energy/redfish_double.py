"""A Redfish service over HTTP or HTTPS, with the resources and fields of DMTF's own example.

The chassis `1U` is of DMTF DSP2043 (public-rackmount1, release 2022.3), less what has nothing to do
with power. (OpenStack's sushy-emulator has chassis, but neither Power nor EnvironmentMetrics.)
"""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from testing.energy.tlskit import Server, over_tls

USER, PASSWORD = "watcher", "correct horse"
ROOT = "/redfish/v1"
CHASSIS = f"{ROOT}/Chassis/1U"
SESSIONS = f"{ROOT}/SessionService/Sessions"


def linked(path: str) -> dict[str, str]:
    """A link as Redfish writes it."""
    return {"@odata.id": path}


def resources() -> dict[str, Any]:
    return {
        f"{ROOT}/": {
            "@odata.type": "#ServiceRoot.v1_14_0.ServiceRoot",
            "RedfishVersion": "1.15.0",
            "Chassis": linked(f"{ROOT}/Chassis"),
            "Links": {"Sessions": linked(SESSIONS)},
        },
        f"{ROOT}/Chassis": {"Members@odata.count": 1, "Members": [linked(CHASSIS)]},
        CHASSIS: {
            "@odata.type": "#Chassis.v1_22_0.Chassis",
            "Id": "1U",
            "ChassisType": "RackMount",
            "PowerState": "On",
            "Status": {"State": "Enabled", "Health": "OK"},
            "EnvironmentMetrics": linked(f"{CHASSIS}/EnvironmentMetrics"),
            "Power": linked(f"{CHASSIS}/Power"),
            "Links": {"ManagedBy": [linked(f"{ROOT}/Managers/BMC")]},
        },
        f"{CHASSIS}/EnvironmentMetrics": {
            "@odata.type": "#EnvironmentMetrics.v1_3_0.EnvironmentMetrics",
            "Name": "Chassis Environment Metrics",
            "PowerWatts": {
                "Reading": 374,
                "DataSourceUri": f"{CHASSIS}/Sensors/TotalPower",
            },
            "PowerLimitWatts": {"SetPoint": 500, "ControlMode": "Automatic"},
            "Oem": {},
        },
        f"{CHASSIS}/Power": {
            "@odata.type": "#Power.v1_7_1.Power",
            "Id": "Power",
            "PowerControl": [
                {
                    "@odata.id": f"{CHASSIS}/Power#/PowerControl/0",
                    "MemberId": "0",
                    "Name": "System Input Power",
                    "PowerConsumedWatts": 344,
                    "PowerRequestedWatts": 800,
                    "PowerCapacityWatts": 800,
                    "PowerMetrics": {"IntervalInMin": 30, "AverageConsumedWatts": 319},
                    "Status": {"State": "Enabled", "Health": "OK"},
                    "Oem": {},
                }
            ],
            "PowerSupplies": [{"MemberId": "0", "LastPowerOutputWatts": 325}],
        },
    }


class RedfishDouble:
    """What it has, what it was asked, and how it misbehaves."""

    def __init__(self) -> None:
        self.resources = resources()
        self.url = ""
        self.requests: list[str] = []
        """`METHOD PATH` of each request."""
        self.connections = 0
        self.tokens: set[str] = set()
        self.locked = True
        """Everything but the root needs a session or the password."""
        self.raw: bytes | None = None
        """Sent instead of a resource, with its length."""
        self.claimed: int | None = None
        """Content-Length, where it is a lie."""
        self.status: tuple[int, dict[str, str]] | None = None
        """Sent instead of any resource."""
        self.location = f"{SESSIONS}/"
        self.hangs = threading.Event()
        """While it is set, nothing is answered."""
        self.drips = False
        self.over = threading.Event()

    @property
    def metrics(self) -> dict[str, Any]:
        return dict_of(self.resources[f"{CHASSIS}/EnvironmentMetrics"])

    @property
    def control(self) -> dict[str, Any]:
        return dict_of(self.resources[f"{CHASSIS}/Power"]["PowerControl"][0])

    def old(self) -> None:
        """No EnvironmentMetrics, as before 2021."""
        del self.resources[CHASSIS]["EnvironmentMetrics"]

    def add(self, name: str, watts: float, contained: bool = False) -> None:
        path = f"{ROOT}/Chassis/{name}"
        self.resources[f"{ROOT}/Chassis"]["Members"].append(linked(path))
        links = {"ContainedBy": linked(CHASSIS)} if contained else {}
        self.resources[path] = {"Id": name, "Links": links, "Power": linked(f"{path}/Power")}
        self.resources[f"{path}/Power"] = {"PowerControl": [{"PowerConsumedWatts": watts}]}


def dict_of(resource: object) -> dict[str, Any]:
    assert isinstance(resource, dict)
    return resource


def handler(double: RedfishDouble) -> type[BaseHTTPRequestHandler]:
    basic = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def setup(self) -> None:
            double.connections += 1
            super().setup()

        def do_GET(self) -> None:
            if not self._begun():
                return
            allowed = self.headers.get("X-Auth-Token") in double.tokens
            allowed = allowed or self.headers.get("Authorization") == basic
            if double.status is not None:
                self._send(double.status[0], b"{}", double.status[1])
            elif double.locked and self.path != f"{ROOT}/" and not allowed:
                self._send(401, b'{"error": {"code": "Base.1.15.NoValidSession"}}')
            elif self.path not in double.resources:
                self._send(404, b'{"error": {"code": "Base.1.15.ResourceMissingAtURI"}}')
            elif double.raw is not None:
                self._send(200, double.raw)
            else:
                self._send(200, json.dumps(double.resources[self.path]).encode())

        def do_POST(self) -> None:
            login = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if not self._begun():
                return
            if self.path != SESSIONS or login != {"UserName": USER, "Password": PASSWORD}:
                self._send(401, b"{}")
                return
            number = str(len(double.requests))
            double.tokens.add(f"token-{number}")
            headers = {"X-Auth-Token": f"token-{number}", "Location": double.location + number}
            self._send(201, b"{}", headers)

        def do_DELETE(self) -> None:
            if not self._begun():
                return
            double.tokens.discard(self.headers.get("X-Auth-Token", ""))
            self._send(204, b"")

        def log_message(self, *_: object) -> None:
            pass

        def _begun(self) -> bool:
            double.requests.append(f"{self.command} {self.path}")
            while double.hangs.is_set():
                if double.over.wait(0.02):
                    self.close_connection = True
                    return False
            return True

        def _send(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
            try:
                self.send_response(status)
                for name, value in (headers or {}).items():
                    self.send_header(name, value)
                if status != 204:
                    self.send_header("Content-Length", str(double.claimed or len(body)))
                self.end_headers()
                while double.drips and not double.over.wait(0.02):
                    self.wfile.write(b" ")
                self.wfile.write(body)
            except OSError:
                pass  # the meter gave up
            self.close_connection |= double.claimed is not None

    return Handler


@contextmanager
def serving(certificate: Path | None = None) -> Iterator[RedfishDouble]:
    """On the loopback; with a certificate over HTTPS."""
    double = RedfishDouble()
    server = Server(("127.0.0.1", 0), handler(double))
    if certificate is not None:
        server.socket = over_tls(server.socket, certificate)
    scheme = "https" if certificate else "http"
    double.url = f"{scheme}://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield double
    finally:
        double.over.set()
        server.shutdown()
        server.server_close()
        thread.join(60)
