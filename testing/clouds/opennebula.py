"""A fake of OpenNebula: its XML-RPC interface, with a real machine behind each VM.

States, their order, what is refused in which of them, and the words of errors are those of
OpenNebula 7's documents and sources; delays are much shorter. Elements of answers are those of its
published schemas, in their order.
"""

from __future__ import annotations

import base64
import itertools
import xmlrpc.client
from dataclasses import dataclass, field
from typing import ClassVar, Final
from xml.etree import ElementTree
from xml.parsers.expat import ExpatError

from testing.clouds.fake import FLAVOR, IMAGE, SMALL, Answer, CloudFake, Refusal, Since

SESSION: Final = "oneuser:s3cret-s3cret"
_AUTHENTICATION, _AUTHORIZATION, _NO_EXISTS, _ACTION, _API = 0x100, 0x200, 0x400, 0x800, 0x1000
_UP: Final = (("PENDING", 0.05), ("PROLOG", 0.1), ("BOOT", 0.1))
_DOWN: Final = (("SHUTDOWN", 0.1), ("EPILOG", 0.1))
_ACTIVE: Final = {
    "PROLOG": 1,
    "BOOT": 2,
    "RUNNING": 3,
    "EPILOG": 11,
    "SHUTDOWN": 12,
    "BOOT_FAILURE": 36,
}
_OWNER: Final = "<UID>2</UID><GID>1</GID><UNAME>oneuser</UNAME><GNAME>users</GNAME>"
_RIGHTS: Final = "".join(
    f"<{who}_{what}>{int(who == 'OWNER' and what != 'A')}</{who}_{what}>"
    for who in ("OWNER", "GROUP", "OTHER")
    for what in "UMA"
)
_QUOTA: Final = "limit of {} reached for VMS quota in VM"


@dataclass
class OneVm:
    """One VM. It moves from state to state by itself."""

    id: int
    name: str
    template: ElementTree.Element
    stages: Since
    address: str = ""
    failure: str = ""

    @property
    def context(self) -> dict[str, str]:
        return {one.tag: one.text or "" for one in self.template.iterfind("CONTEXT/*")}


@dataclass
class _RefusedError(Exception):
    code: int
    words: str


@dataclass
class _Thing:
    """A VM template, an image or a network."""

    id: int
    name: str
    template: dict[str, str] = field(default_factory=dict)
    state: int = 1


class OneFake(CloudFake):
    """One front end."""

    PROVIDER: ClassVar[str] = "opennebula"
    PATH: ClassVar[str] = "/RPC2"
    LAUNCH: ClassVar[str] = "one.template.instantiate"
    SIZES: ClassVar[str] = "one.templatepool.info"
    IMAGES: ClassVar[str] = "one.imagepool.info"
    SIGNED: ClassVar[tuple[str, ...]] = ("s3cret-s3cret",)

    def __init__(self) -> None:
        super().__init__()
        size = {"CPU": "1", "VCPU": str(self.cpus), "MEMORY": str(self.memory_bytes >> 20)}
        small = {"CPU": "1", "MEMORY": "64"}
        self.templates = [_Thing(0, FLAVOR, size), _Thing(1, SMALL, small)]
        self.images = [_Thing(0, IMAGE), _Thing(1, "broken-image", state=5)]
        self.networks = [_Thing(0, "lab-network")]
        self.vms: dict[int, OneVm] = {}
        self._numbers = itertools.count(1)

    def action(self, path: str, body: bytes) -> str:
        try:
            return xmlrpc.client.loads(body)[1] or "?"
        except ExpatError:  # no XML
            return "?"

    def answer(self, path: str, body: bytes) -> Answer:
        parameters, method = xmlrpc.client.loads(body)
        session, *arguments = parameters
        try:
            if session != SESSION:
                raise _RefusedError(
                    _AUTHENTICATION, "User couldn't be authenticated, aborting call."
                )
            called = getattr(self, "_" + str(method).removeprefix("one.").replace(".", "_"), None)
            if called is None:
                fault = xmlrpc.client.Fault(-506, f"Method '{method}' not defined")
                return _xml(xmlrpc.client.dumps(fault, methodresponse=True))
            with self.lock:
                return _success(called(*arguments))
        except _RefusedError as refused:
            return _failure(f"[{method}] {refused.words}", refused.code)

    def refusal(self, why: Refusal) -> Answer:
        words, code = {
            "credentials": ("User couldn't be authenticated, aborting call.", _AUTHENTICATION),
            "quota": (f"User [2] : {_QUOTA.format(3)}.", _AUTHORIZATION),
            "lacks": ("Error getting image [77].", _NO_EXISTS),
            "refused": ("VM Template includes a restricted attribute NIC/MAC", _API),
        }[why]
        return _failure(f"[{self.LAUNCH}] {words}", code)

    def left(self) -> list[str]:
        return [vm.name for vm in self.vms.values() if self._state(vm) != "DONE"]

    def vanish(self) -> None:
        with self.lock:
            for vm in self.vms.values():
                vm.stages = Since((), "DONE")
                self.end(str(vm.id))

    def _templatepool_info(self, who: int, start: int, end: int) -> str:
        inner = "".join(_template(one) for one in self.templates)
        return f"<VMTEMPLATE_POOL>{inner}</VMTEMPLATE_POOL>"

    def _imagepool_info(self, who: int, start: int, end: int) -> str:
        inner = "".join(_image(one) for one in self.images)
        return f"<IMAGE_POOL>{inner}</IMAGE_POOL>"

    def _vnpool_info(self, who: int, start: int, end: int) -> str:
        inner = "".join(_network(one) for one in self.networks)
        return f"<VNET_POOL>{inner}</VNET_POOL>"

    def _vmpool_infoextended(self, who: int, start: int, end: int, state: int) -> str:
        if state < -2 or state > 11:
            raise _RefusedError(_API, f"Incorrect state filter {state}")
        there = [vm for vm in self.vms.values() if state == -2 or self._state(vm) != "DONE"]
        return f"<VM_POOL>{''.join(self._vm(vm) for vm in there)}</VM_POOL>"

    def _user_info(self, who: int) -> str:
        most = -2 if self.room is None else self.room
        quota = f"<VMS>{most}</VMS><VMS_USED>{len(self.left())}</VMS_USED>"
        return f"<USER><ID>2</ID><NAME>oneuser</NAME><VM_QUOTA><VM>{quota}</VM></VM_QUOTA></USER>"

    def _vm_info(self, identifier: int) -> str:
        return self._vm(self._known(identifier))

    def _template_instantiate(
        self, identifier: int, name: str, hold: bool, extra: str, persistent: bool
    ) -> int:
        if not any(one.id == identifier for one in self.templates):
            raise _RefusedError(_NO_EXISTS, f"Error getting vm template [{identifier}].")
        if self.room is not None and len(self.left()) >= self.room:
            raise _RefusedError(_AUTHORIZATION, f"User [2] : {_QUOTA.format(self.room)}.")
        template = ElementTree.fromstring(extra)
        image = template.findtext("DISK/IMAGE_ID")
        if not any(str(one.id) == image for one in self.images):
            raise _RefusedError(_NO_EXISTS, f"Error getting image [{image}].")
        number = next(self._numbers)
        last = "BOOT_FAILURE" if self.stillborn else "RUNNING"
        vm = OneVm(number, name, template, Since(_UP, last))
        vm.failure = "Error booting VM: no such device" if self.stillborn else ""
        self.vms[number] = vm
        self.requests.append(template.findtext("ULLAGE_TOKEN", ""))
        if self.on_launch is not None:
            self.on_launch()
        return number

    def _vm_action(self, action: str, identifier: int) -> int:
        vm = self._known(identifier)
        if action != "terminate-hard":
            raise _RefusedError(_ACTION, f'Action "{action}" is not supported')
        match self._state(vm):
            case "PENDING" | "BOOT_FAILURE":
                vm.stages = Since((), "DONE")
            case "RUNNING":
                vm.stages = Since(_DOWN, "DONE")
            case "DONE":
                pass
            case state:
                words = f"Could not terminate VM {identifier}, wrong state {state}."
                raise _RefusedError(_ACTION, f'Error performing action "{action}": {words}')
        self.end(str(identifier))
        return identifier

    def _known(self, identifier: int) -> OneVm:
        if identifier not in self.vms:
            raise _RefusedError(_NO_EXISTS, f"Error getting virtual machine [{identifier}].")
        return self.vms[identifier]

    def _state(self, vm: OneVm) -> str:
        """And boot its machine, if that is due."""
        stage = vm.stages.stage
        if stage in {"BOOT", "RUNNING"} and not vm.address:
            context = vm.context
            user_data = base64.b64decode(context.get("USER_DATA", "")).decode()
            vm.address = self.boot(str(vm.id), context["SSH_PUBLIC_KEY"], user_data)
        return stage

    def _vm(self, vm: OneVm) -> str:
        stage = self._state(vm)
        state = {"PENDING": 1, "DONE": 6}.get(stage, 3)
        nic = f"<NIC><IP>{vm.address}</IP><NIC_ID>0</NIC_ID></NIC>" if vm.address else ""
        context = "".join(_element(key, text) for key, text in vm.context.items())
        own = {one.tag: one.text or "" for one in vm.template if not len(one)}
        if vm.failure and stage == "BOOT_FAILURE":
            own["ERROR"] = vm.failure
        elements = (
            f"<ID>{vm.id}</ID>{_OWNER}{_element('NAME', vm.name)}",
            f"<PERMISSIONS>{_RIGHTS}</PERMISSIONS><LAST_POLL>0</LAST_POLL>",
            f"<STATE>{state}</STATE><LCM_STATE>{_ACTIVE.get(stage, 0)}</LCM_STATE>",
            f"<PREV_STATE>{state}</PREV_STATE><PREV_LCM_STATE>0</PREV_LCM_STATE>",
            "<RESCHED>0</RESCHED><STIME>0</STIME><ETIME>0</ETIME><DEPLOY_ID/>",
            "<MONITORING/><SCHED_ACTIONS/>",
            f"<TEMPLATE><CONTEXT>{context}</CONTEXT>{nic}",
            f"<TM_MAD_SYSTEM>ssh</TM_MAD_SYSTEM><VMID>{vm.id}</VMID></TEMPLATE>",
            f"<USER_TEMPLATE>{''.join(_element(*item) for item in own.items())}</USER_TEMPLATE>",
            "<HISTORY_RECORDS/><BACKUPS><BACKUP_CONFIG/><BACKUP_IDS/></BACKUPS>",
        )
        return f"<VM>{''.join(elements)}</VM>"


def _template(one: _Thing) -> str:
    inner = "".join(_element(*item) for item in one.template.items())
    head = f"<ID>{one.id}</ID>{_OWNER}{_element('NAME', one.name)}"
    rights = f"<PERMISSIONS>{_RIGHTS}</PERMISSIONS><REGTIME>0</REGTIME>"
    return f"<VMTEMPLATE>{head}{rights}<TEMPLATE>{inner}</TEMPLATE></VMTEMPLATE>"


def _image(one: _Thing) -> str:
    head = f"<ID>{one.id}</ID>{_OWNER}{_element('NAME', one.name)}"
    numbers = {"TYPE": 0, "DISK_TYPE": 0, "PERSISTENT": 0, "REGTIME": 0, "MODTIME": 0}
    words = ("SOURCE", "PATH", "FORMAT", "FS")
    more = {"SIZE": 2048, "STATE": one.state, "PREV_STATE": one.state, "RUNNING_VMS": 0}
    more |= {"CLONING_OPS": 0, "CLONING_ID": -1, "TARGET_SNAPSHOT": -1, "DATASTORE_ID": 1}
    tail = "<DATASTORE>default</DATASTORE><VMS/><CLONES/><APP_CLONES/><TEMPLATE/>"
    tail += "<SNAPSHOTS><ALLOW_ORPHANS>NO</ALLOW_ORPHANS><CURRENT_BASE>-1</CURRENT_BASE>"
    tail += "<NEXT_SNAPSHOT>0</NEXT_SNAPSHOT></SNAPSHOTS><BACKUP_INCREMENTS/>"
    inner = f"{head}<PERMISSIONS>{_RIGHTS}</PERMISSIONS>{_numbers(numbers)}"
    return f"<IMAGE>{inner}{''.join(f'<{w}/>' for w in words)}{_numbers(more)}{tail}</IMAGE>"


def _network(one: _Thing) -> str:
    head = f"<ID>{one.id}</ID>{_OWNER}{_element('NAME', one.name)}"
    words = "<CLUSTERS/><BRIDGE>br0</BRIDGE><BRIDGE_TYPE>linux</BRIDGE_TYPE><STATE>1</STATE>"
    words += "<PREV_STATE>1</PREV_STATE><PARENT_NETWORK_ID/><TEMPLATE_ID/><VN_MAD>bridge</VN_MAD>"
    words += "<PHYDEV/><VLAN_ID_AUTOMATIC>0</VLAN_ID_AUTOMATIC>"
    words += "<OUTER_VLAN_ID_AUTOMATIC>0</OUTER_VLAN_ID_AUTOMATIC><USED_LEASES>0</USED_LEASES>"
    words += "<VROUTERS/><UPDATED_VMS/><OUTDATED_VMS/><UPDATING_VMS/><ERROR_VMS/><TEMPLATE/>"
    inner = f"{head}<PERMISSIONS>{_RIGHTS}</PERMISSIONS>{words}<AR_POOL/>"
    return f"<VNET>{inner}</VNET>"


def _numbers(numbers: dict[str, int]) -> str:
    return "".join(f"<{name}>{number}</{name}>" for name, number in numbers.items())


def _element(name: str, text: str) -> str:
    element = ElementTree.Element(name)
    element.text = text
    return ElementTree.tostring(element, encoding="unicode")


def _success(value: str | int) -> Answer:
    return _xml(xmlrpc.client.dumps(((True, value, 0),), methodresponse=True))


def _failure(words: str, code: int) -> Answer:
    return _xml(xmlrpc.client.dumps(((False, words, code, -1),), methodresponse=True))


def _xml(text: str) -> Answer:
    return 200, {"Content-Type": "text/xml; charset=utf-8"}, text
