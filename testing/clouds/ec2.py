"""EC2's API by moto, with a real machine behind each instance: a plan really runs there.

moto makes instances up at once and takes no notice of a client token; here `run_instances` boots a
machine, and does so once for each token. What it cannot do is taken from the real API's documents:
errors are put in front of it by `trouble`.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import io
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final
from unittest import mock
from urllib.parse import parse_qs

import boto3
import moto.ec2.models.instance_types as moto_types
import moto.ec2.models.instances as moto_instances
from moto.core.responses import ActionResult
from moto.ec2.models import EC2Backend
from moto.ec2.responses import EC2Response
from moto.server import ThreadedMotoServer

from testing.clouds import machine
from testing.clouds.fake import FLAVOR, Answer, Refusal, Trouble
from ullage.common.quantities import memory_bytes

_StateReason: Final = moto_instances.StateReason
_REFUSALS: Final = {
    "credentials": ("AuthFailure", 401),
    "quota": ("VcpuLimitExceeded", 400),
    "lacks": ("InvalidAMIID.NotFound", 400),
    "refused": ("InvalidParameterCombination", 400),
}


@dataclass
class Ec2Double:
    """A cloud, while it stands."""

    LAUNCH: ClassVar[str] = "RunInstances"
    SIZES: ClassVar[str] = "DescribeInstanceTypes"

    endpoint: str
    image: str
    cpus: int
    machines: dict[str, machine.CloudMachine] = field(default_factory=dict)
    """Instance → its machine."""
    calls: list[str] = field(default_factory=list)
    """Actions, in their order."""
    trouble: Trouble | None = None
    lost: int = 0
    """So many answers to RunInstances get lost after it has been done."""
    dead: bool = False
    """What is launched now never boots."""
    on_launch: Callable[[], object] | None = None
    """Called when an instance is there and nobody has been answered."""
    impostor: bool = False
    """What answers at an instance's address has another host key than the instance."""
    stillborn: bool = False
    """Instances end as soon as they are made."""
    wired: bool = False
    """Each instance has a network of its own."""
    room: int | None = None
    """So many instances at most; None: any number."""
    groups: frozenset[str] = frozenset()
    """Placement groups: moto has none, and takes no notice of one that is asked for."""
    wanted: dict[str, str] = field(default_factory=dict)
    """Parameters of the last RunInstances, as they came."""
    tokens: dict[str, Any] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def plan(self, **more: Any) -> dict[str, Any]:
        """An environment of a plan."""
        return {
            "provider": "ec2",
            "endpoint": self.endpoint,
            "region": "us-east-1",
            "flavor": FLAVOR,
            "boot_image": self.image,
            "user": "root",
            "deadline_s": 120,
            **more,
        }

    def run(self, original: Callable[..., Any], backend: Any, *args: Any, **kwargs: Any) -> Any:
        """In place of moto's `run_instances`."""
        with self._lock:
            token = str(kwargs.get("client_token"))
            if token in self.tokens:
                return self.tokens[token]
            reservation = original(backend, *args, **kwargs)
            for instance in reservation.instances:
                key = backend.key_pairs[instance.key_name].public_key
                text = base64.b64decode(str(instance.user_data or "")).decode()
                booted = machine.boot(
                    instance.id, key, "" if self.impostor else text, wired=self.wired
                )
                if self.dead:
                    booted.unplug()
                self.machines[instance.id] = booted
                instance.nics[0].private_ip_address = booted.address
                if self.stillborn:
                    backend.terminate_instances([instance.id])
            self.tokens[token] = reservation
            if self.on_launch is not None:
                self.on_launch()
            return reservation

    def end(self, identifiers: list[str]) -> None:
        """Their machines go."""
        for identifier in identifiers:
            if ended := self.machines.pop(identifier, None):
                ended.end()

    def console(self, response: Any) -> Any:
        """In place of moto's, which prints the same of all."""
        identifier = response._get_param("InstanceId")
        text = self.machines[identifier].console
        encoded = base64.b64encode(text.encode()).decode()
        return ActionResult({"InstanceId": identifier, "Output": encoded})

    def full(self, action: str) -> Answer | None:
        """A `trouble`: it refuses one more once all its room is taken."""
        taken = self.room is not None and len(self.machines) >= self.room
        return self.refusal("quota") if action == self.LAUNCH and taken else None

    def unknown_group(self) -> Answer | None:
        """EC2's answer to a request for a placement group that is not there."""
        group = self.wanted.get("Placement.GroupName")
        if group is None or group in self.groups:
            return None
        return an_error(
            "InvalidPlacementGroup.Unknown", 400, f"The Placement Group '{group}' is unknown."
        )

    def vanish(self) -> None:
        """All instances are taken back by the cloud, as spot instances are."""
        client = self.client()
        with mock.patch.object(moto_instances, "StateReason", _taken_back):
            client.terminate_instances(InstanceIds=list(self.machines))

    def refusal(self, why: Refusal) -> Answer:
        """How this cloud says that."""
        code, status = _REFUSALS[why]
        return an_error(code, status)

    def left(self) -> list[str]:
        """Instances and key pairs that are still there."""
        client = self.client()
        pages = client.describe_instances()["Reservations"]
        instances = [i for page in pages for i in page["Instances"]]
        return [
            *(i["InstanceId"] for i in instances if i["State"]["Name"] != "terminated"),
            *(pair["KeyName"] for pair in client.describe_key_pairs()["KeyPairs"]),
        ]

    def empty(self) -> None:
        """Moto's server outlives this cloud, and the next one begins with nothing."""
        self.trouble = None
        client, gone = self.client(), ("shutting-down", "terminated")
        for page in client.describe_instances()["Reservations"]:
            ids = [i["InstanceId"] for i in page["Instances"] if i["State"]["Name"] not in gone]
            if ids:
                client.terminate_instances(InstanceIds=ids)
        for pair in client.describe_key_pairs()["KeyPairs"]:
            client.delete_key_pair(KeyName=pair["KeyName"])

    def client(self) -> Any:
        return _client(self.endpoint)


def an_error(code: str, status: int, message: str = "as it says") -> Answer:
    """As EC2 words it."""
    body = f"<Response><Errors><Error><Code>{code}</Code><Message>{message}</Message></Error>"
    body += "</Errors><RequestID>1</RequestID></Response>"
    return status, {"Content-Type": "text/xml", "Content-Length": str(len(body))}, body


def _taken_back(*_: str) -> Any:
    """In place of the reason that moto gives: the user's own."""
    code = "Server.SpotInstanceTermination"
    return _StateReason(f"{code}: Spot instance termination", code)


class _Gate:
    """Stands before moto, as a WSGI application: answers in its place, or loses its answer."""

    def __init__(self, application: Any) -> None:
        self._application = application
        self.double: Ec2Double | None = None
        """Of the cloud that stands now."""

    def __call__(self, environ: Any, start: Any) -> Any:
        double = self.double
        if double is None:
            start("503 No cloud", [])
            return [b""]
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        environ["wsgi.input"] = io.BytesIO(body)
        parameters = {name: texts[0] for name, texts in parse_qs(body.decode()).items()}
        action = parameters.get("Action", "?")
        double.calls.append(action)
        answer = double.trouble(action) if double.trouble else None
        if action == double.LAUNCH:
            double.wanted = parameters
            answer = answer or double.unknown_group()
        if answer:
            status, headers, text = answer
            start(f"{status} Trouble", list(headers.items()))
            return [text.encode()]
        answered = list(self._application(environ, start))
        if action == "RunInstances" and double.lost:
            double.lost -= 1
            return [b"".join(answered)[:40]]  # shorter than it says: the connection is cut
        return answered


@functools.cache
def _client(endpoint: str) -> Any:
    return boto3.client("ec2", endpoint_url=endpoint, region_name="us-east-1")


@functools.cache
def _moto() -> tuple[_Gate, str]:
    """The server and where it listens: one for all clouds, as its first answer takes a second."""
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    assert server._server is not None
    gate = server._server.app = _Gate(server._server.app)
    host, port = server.get_host_and_port()
    return gate, f"http://{host}:{port}"


@functools.cache
def _image(endpoint: str) -> str:
    """Any that moto has."""
    return str(_client(endpoint).describe_images()["Images"][0]["ImageId"])


@contextlib.contextmanager
def cloud() -> Iterator[Ec2Double]:
    """Up, and gone at the end with all its machines."""
    size = {
        "VCpuInfo": {"DefaultVCpus": len(os.sched_getaffinity(0))},
        "MemoryInfo": {"SizeInMiB": memory_bytes() >> 20},
    }
    kind = {**moto_types.INSTANCE_TYPES["t3.micro"], **size, "InstanceType": FLAVOR}
    double = Ec2Double("", "", len(os.sched_getaffinity(0)))
    run, terminate = EC2Backend.run_instances, EC2Backend.terminate_instances

    def ended(backend: Any, instance_ids: list[str]) -> Any:
        double.end(list(instance_ids))
        return terminate(backend, instance_ids)

    def booting(backend: Any, *args: Any, **kwargs: Any) -> Any:
        return double.run(run, backend, *args, **kwargs)

    def printed(response: Any) -> Any:
        return double.console(response)

    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.dict(moto_types.INSTANCE_TYPES, {FLAVOR: kind}))
        kinds = [*moto_types.InstanceTypeBackend.instance_types, moto_types.InstanceType(FLAVOR)]
        sizes = mock.patch.object(moto_types.InstanceTypeBackend, "instance_types", kinds)
        stack.enter_context(sizes)
        stack.enter_context(mock.patch.object(EC2Backend, "run_instances", booting))
        stack.enter_context(mock.patch.object(EC2Backend, "terminate_instances", ended))
        stack.enter_context(mock.patch.object(EC2Response, "get_console_output", printed))
        stack.callback(lambda: double.end(list(double.machines)))
        gate, double.endpoint = _moto()
        gate.double = double
        stack.callback(lambda: setattr(gate, "double", None))
        stack.callback(double.empty)
        double.image = _image(double.endpoint)
        double.calls.clear()
        yield double
