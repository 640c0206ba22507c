"""The `opennebula` provider: an instance of an OpenNebula, by its XML-RPC interface."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, Final, Literal
from xml.etree import ElementTree
from xml.parsers.expat import ExpatError
from xmlrpc.client import ProtocolError, ResponseError

from pydantic import Field

from ullage.common.errors import CLOUD_CREDENTIALS, CLOUD_LACKS, HOST_MISSING, UllageError
from ullage.common.text import printable
from ullage.environments.base import Options
from ullage.environments.clouds import keys
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

_TAG: Final = "ULLAGE_TAG"
_TOKEN: Final = "ULLAGE_TOKEN"  # noqa: S105 - a name
_ACTIVE, _DONE = 3, 6
_RUNNING: Final = 3
_COPYING: Final = (0, 1)
"""LCM_INIT and PROLOG: the image is not on the host yet."""
_MINE, _WHAT_I_MAY_USE = -3, -2
_ALL: Final = (-1, -1)
_NOT_DONE: Final = -1
_READY_IMAGES: Final = frozenset({1, 2, 8})
"""READY, USED, USED_PERS."""
_FAILED: Final = frozenset({"FAILED", "STOPPED", "SUSPENDED", "POWEROFF", "UNDEPLOYED"})
_BUSY: Final = ("is locked", "replicating log entry", "no leader", "leader not found")
_ENDPOINT: Final = "http://localhost:2633/RPC2"
"""Where OpenNebula's own tools look when nobody says where."""
_CONNECT_S: Final = 10
_ANSWER_S: Final = 60


class OpenNebulaOptions(CloudOptions):
    """Fields of an `opennebula` environment in the plan."""

    cloud: None = Field(None, description="OpenNebula has none: say `endpoint`")
    region: None = Field(None, description="OpenNebula has none: say `endpoint`")
    host_key: Literal["inject"] = Field(
        "inject", description="`inject` only: its interface shows no console"
    )
    endpoint: Endpoint | None = Field(
        None,
        description="`http://cloud.example:2633/RPC2`; left out: ONE_XMLRPC, ~/.one/one_endpoint,"
        " or this host",
    )


class OpenNebula(CloudProvider):
    """An instance of an OpenNebula: a VM template instantiated, by its XML-RPC interface.

    `flavor` is the VM template: its VCPU and MEMORY count. `boot_image` takes the place of its
    disks, `network` that of its interfaces, `zone` is a cluster. pyone asks, as whoever stands in
    the file that ONE_AUTH names (`~/.one/one_auth`), as OpenNebula's own tools do. The key and the
    host key go in by contextualisation: as user data for cloud-init, and as a start script for
    OpenNebula's own packages. The plan's image is unpacked inside, as with `ec2`. A suspended VM's
    memory is written to a disk, which is no pause: what is idle runs on, with nothing of ours in
    it. Needs `pip install 'ullage[clouds]'`. Seen on a fake that speaks its wire protocol, with
    real processes behind it, never on a real OpenNebula.
    """

    name: ClassVar[str] = "opennebula"
    options_model: ClassVar[type[Options]] = OpenNebulaOptions
    last_seen: ClassVar[str] = "never: a fake that speaks its XML-RPC, with real machines behind it"

    def __init__(self, options: Options) -> None:
        assert isinstance(options, OpenNebulaOptions)
        super().__init__(options)
        self._options = options

    def driver(self) -> Driver:
        return OpenNebulaDriver(self._options)


class OpenNebulaDriver(LookingDriver):
    """By pyone."""

    def __init__(self, options: OpenNebulaOptions, *, answer_s: float = _ANSWER_S) -> None:
        """answer_s: so long we wait for an answer. HOST_MISSING, CLOUD_CREDENTIALS."""
        super().__init__()
        try:
            import pyone  # noqa: PLC0415 - an extra: who has no cloud need not have it
            from lxml.etree import LxmlError  # noqa: PLC0415
            from pyone.bindings.supbind import GDSParseError  # noqa: PLC0415
        except ImportError as error:
            command = "pip install 'ullage[clouds]'"
            raise UllageError(HOST_MISSING, what="pyone", command=command) from error
        self._pyone: Any = pyone
        self._unreadable = (
            ExpatError,
            ResponseError,
            LxmlError,
            GDSParseError,
            NotAnAnswerError,
        )
        self._endpoint = options.endpoint or _configured_endpoint()
        self._one: Any = pyone.OneServer(self._endpoint, _session(), protocol="xmlrpc")
        self._one._ServerProxy__transport = _transport(self._endpoint, answer_s)

    @property
    def title(self) -> str:
        return f"OpenNebula at {self._endpoint}"

    def fault(self, error: Exception) -> ApiFault | None:
        one, reason = self._pyone, printable(str(error), 400)
        if isinstance(error, one.OneException):
            return ApiFault(self._trouble(error), reason)
        if isinstance(error, ProtocolError):
            return answer_fault(error.errcode, error.headers, reason)
        if isinstance(error, self._unreadable):
            return ApiFault("again", reason or "an answer without words")
        return sending_fault(error)

    def _trouble(self, error: Exception) -> Trouble:
        one, words = self._pyone, str(error).lower()
        if "quota" in words and "limit" in words:
            return "quota"
        if isinstance(error, one.OneAuthenticationException | one.OneAuthorizationException):
            return "credentials"
        if isinstance(error, one.OneNoExistsException):
            return "lacks"
        if isinstance(error, one.OneInternalException) or any(w in words for w in _BUSY):
            return "again"
        return "refused"

    def flavor(self, name: str) -> Flavor:
        pool = self._ask("templatepool.info", "VMTEMPLATE", _WHAT_I_MAY_USE, *_ALL)
        template = _part(self._named(pool, name, "flavor", "VM template"), "TEMPLATE")
        try:
            memory = float(template["MEMORY"])
            return Flavor(int(template.get("VCPU") or 1), int(memory) << 20)
        except (KeyError, TypeError, ValueError) as error:
            raise self._lacks("flavor", f"template {name!r} has no MEMORY and VCPU") from error

    def find_image(self, name: str) -> str:
        pool = self._ask("imagepool.info", "IMAGE", _WHAT_I_MAY_USE, *_ALL)
        image = self._named(pool, name, "find_image", "image")
        if image.STATE not in _READY_IMAGES:
            words = self._pyone.IMAGE_STATES(image.STATE).name
            raise self._lacks("find_image", f"image {name!r} is {words}")
        return str(image.ID)

    def limits(self) -> str:
        quota = getattr(self._call("user.info", -1), "VM_QUOTA", None)
        every = getattr(quota, "VM", None) or []
        first = every[0] if isinstance(every, list) else every
        most, used = getattr(first, "VMS", None), getattr(first, "VMS_USED", None)
        if most is None or int(most) < 0:  # -1: the default's; -2: no limit
            return ""
        return f"at most {most} VMs, {used} are used"

    def launch_anew(self, request: Request) -> Machine:
        pool = self._ask("templatepool.info", "VMTEMPLATE", _WHAT_I_MAY_USE, *_ALL)
        template = self._named(pool, request.flavor, "launch", "VM template")
        wanted = self._wanted(request)
        number = self._call(
            "template.instantiate", int(template.ID), request.name, False, wanted, False
        )
        return self._machine(self._call("vm.info", number))

    def made_for(self, request: Request) -> list[Machine]:
        ours = [vm for vm in self._vms() if _words(vm.USER_TEMPLATE, _TOKEN) == request.token]
        return [self._machine(vm) for vm in sorted(ours, key=lambda vm: int(vm.ID))]

    def _wanted(self, request: Request) -> str:
        """What is laid over the VM template."""
        context = {
            "NETWORK": "YES",
            "SSH_PUBLIC_KEY": request.public_key,
            "USERDATA_ENCODING": "base64",
            "USER_DATA": _base64(request.user_data),
            "START_SCRIPT_BASE64": _base64(keys.boot_script(request.user_data)),
        }
        wanted: dict[str, object] = {
            _TAG: request.tag,
            _TOKEN: request.token,
            "DISK": {"IMAGE_ID": request.image},
            "CONTEXT": context,
        }
        if request.network:
            groups = ",".join(request.security_groups)
            wanted["NIC"] = {
                "NETWORK_ID": self._network(request.network),
                "SECURITY_GROUPS": groups,
            }
        if request.zone:
            by = "CLUSTER_ID" if request.zone.isdecimal() else "CLUSTER"
            wanted["SCHED_REQUIREMENTS"] = f'{by} = "{request.zone}"'
        return _xml("TEMPLATE", wanted)

    def _network(self, name: str) -> str:
        pool = self._ask("vnpool.info", "VNET", _WHAT_I_MAY_USE, *_ALL)
        return str(self._named(pool, name, "launch", "network").ID)

    def machine(self, identifier: str) -> Machine:
        try:
            return self._machine(self._call("vm.info", int(identifier)))
        except self._pyone.OneNoExistsException:
            return Machine(identifier, "", "", "gone", "not known any more")

    def machines(self, tag: str | None = None) -> list[Machine]:
        every = [self._machine(vm) for vm in self._vms()]
        return [one for one in every if one.tag and one.state != "gone" and tag in {None, one.tag}]

    def console(self, identifier: str) -> str:
        return ""

    def remove(self, name: str, tag: str) -> bool:
        ours = [vm for vm in self._vms() if _words(vm.USER_TEMPLATE, _TAG) == tag]
        ours = [vm for vm in ours if name == vm.NAME]
        for vm in ours:
            self.end(str(vm.ID))
        return not ours

    def end(self, identifier: str) -> None:
        one = self._pyone
        # On its way up or down it cannot; it is asked again.
        with suppress(one.OneActionException, one.OneNoExistsException):
            self._call("vm.action", "terminate-hard", int(identifier))

    def _vms(self) -> Sequence[Any]:
        """All of this user's that are not done."""
        return self._ask("vmpool.infoextended", "VM", _MINE, *_ALL, _NOT_DONE)

    def _ask(self, method: str, part: str, *arguments: object) -> Sequence[Any]:
        """A list of the answer, which is there in every one."""
        every = getattr(self._call(method, *arguments), part, None)
        if not isinstance(every, list):
            raise NotAnAnswerError(f"an answer to {method} without {part}")
        return every

    def _call(self, method: str, *arguments: object) -> Any:
        call: Callable[..., Any] = self._one
        for word in method.split("."):
            call = getattr(call, word)
        try:
            return call(*arguments)
        except (TypeError, IndexError, KeyError, AttributeError) as error:
            # pyone takes an answer apart without looking at it.
            raise NotAnAnswerError(f"an answer to {method} that cannot be read") from error

    def _named(self, pool: Sequence[Any], name: str, call: str, what: str) -> Any:
        """By its number or its name. CLOUD_LACKS."""
        for one in pool:
            if name in {str(one.ID), one.NAME}:
                return one
        raise self._lacks(call, f"no {what} {name!r}")

    def _lacks(self, call: str, reason: str) -> UllageError:
        return UllageError(CLOUD_LACKS, cloud=self.title, call=call, reason=reason)

    def _machine(self, vm: Any) -> Machine:
        try:
            nics = vm.TEMPLATE.get("NIC") or []
            first = (nics if isinstance(nics, list) else [nics])[0] if nics else {}
            state, words = self._state(int(vm.STATE), int(vm.LCM_STATE))
            why = _words(vm.USER_TEMPLATE, "ERROR") or _words(vm.USER_TEMPLATE, "SCHED_MESSAGE")
            return Machine(
                id=str(vm.ID),
                name=str(vm.NAME),
                tag=_words(vm.USER_TEMPLATE, _TAG),
                state=state,
                words=printable(f"{words}: {why}" if why and state != "running" else words, 300),
                private=first.get("IP"),
                public=first.get("EXTERNAL_IP") or first.get("IP"),
                placed=int(vm.STATE) == _ACTIVE,
                image_there=int(vm.STATE) == _ACTIVE and int(vm.LCM_STATE) not in _COPYING,
            )
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise NotAnAnswerError(f"a VM that cannot be read: {error!r}") from error

    def _state(self, number: int, detail: int) -> tuple[State, str]:
        """Of one VM, and its name."""
        word = self._pyone.VM_STATE(number).name
        if number == _DONE:
            return "gone", word
        if number != _ACTIVE:
            return ("failed" if word in _FAILED or word.endswith("FAILURE") else "pending"), word
        word = self._pyone.LCM_STATE(detail).name
        ending = word.startswith(("SHUTDOWN", "EPILOG", "CLEANUP", "CANCEL"))
        if ending or word.endswith("FAILURE"):
            return "failed", word
        return ("running" if detail == _RUNNING else "pending"), word


def _configured_endpoint() -> str:
    file = Path.home() / ".one" / "one_endpoint"
    written = file.read_text(encoding="utf-8").strip() if file.is_file() else ""
    return os.environ.get("ONE_XMLRPC") or written or _ENDPOINT


def _session() -> str:
    """Who we are: name and secret, where OpenNebula's tools have them. CLOUD_CREDENTIALS."""
    file = Path(os.environ.get("ONE_AUTH") or Path.home() / ".one" / "one_auth")
    try:
        session = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = f"{file} cannot be read"
        raise UllageError(CLOUD_CREDENTIALS, cloud="OpenNebula", reason=reason) from error
    if ":" not in session or "\n" in session:
        reason = f"{file} is not `name:password`"
        raise UllageError(CLOUD_CREDENTIALS, cloud="OpenNebula", reason=reason)
    return session


def _transport(endpoint: str, answer_s: float) -> Any:
    """pyone's, which waits for an answer for ever by itself."""
    import requests  # noqa: PLC0415 - pyone has it
    from pyone.server_xrpc import RequestsTransport  # noqa: PLC0415

    class Transport(RequestsTransport):  # type: ignore[misc]
        def request(self, host: str, handler: str, request_body: Any, verbose: bool = False) -> Any:
            url = self._build_url(host, handler)
            with requests.post(
                url, data=request_body, headers=self.headers, timeout=(_CONNECT_S, answer_s)
            ) as answer:
                if answer.status_code >= 300:
                    raise ProtocolError(url, answer.status_code, answer.reason, answer.headers)  # type: ignore[arg-type]
                return self.parse_response(answer)

    transport = Transport()
    transport.set_https(endpoint.startswith("https"))
    return transport


def _words(attributes: object, name: str) -> str:
    """An attribute of a template, which may have none."""
    word = attributes.get(name) if isinstance(attributes, Mapping) else None
    return word if isinstance(word, str) else ""


def _part(one: Any, name: str) -> Mapping[str, Any]:
    part = getattr(one, name, None)
    if not isinstance(part, Mapping):
        raise NotAnAnswerError(f"an answer without {name}")
    return part


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _xml(name: str, attributes: Mapping[str, object]) -> str:
    """Templates may be XML, in which nothing needs OpenNebula's own quotes."""

    def add(to: ElementTree.Element, name: str, value: object) -> None:
        element = ElementTree.SubElement(to, name)
        if isinstance(value, Mapping):
            for inner, text in value.items():
                if text:
                    add(element, inner, text)
        else:
            element.text = str(value)

    root = ElementTree.Element(name)
    for key, value in attributes.items():
        add(root, key, value)
    return ElementTree.tostring(root, encoding="unicode")
