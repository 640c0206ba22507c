"""Hyper-V's cmdlets, and the few others that ullage's script calls, on a host that is a folder.

What they hold is in a file, so that each call may be a process of its own. A virtual machine is a
machine of `testing/clouds/machine.py`: a real sshd in namespaces of its own, which stands still
when it is suspended.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import shutil
import signal
import sys
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from testing.clouds import machine
from testing.hyperv.powershell import PsError
from testing.hyperv.published import PARAMETERS

_SSHD: Final = (
    f"ForceCommand sh {Path(__file__).parents[1] / 'ssh/windows.sh'}\n"
    "Subsystem sftp /usr/lib/openssh/sftp-server\n"
)
_VM: Final = "Microsoft.HyperV.PowerShell.Commands."


class Host:
    """The cmdlets, as the interpreter calls them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.state: dict[str, Any] = {}
        self._load()

    def _load(self) -> None:
        self.state = json.loads((self._folder / "state.json").read_text())

    def save(self) -> None:
        """Whole, or as it was."""
        temporary = self._folder / f"state.{os.getpid()}"
        temporary.write_text(json.dumps(self.state))
        temporary.rename(self._folder / "state.json")

    def call(self, name: str, named: dict[str, Any], piped: list[Any]) -> list[Any]:
        """One cmdlet; others of other calls may come between two."""
        with (self._folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._load()
            slow_s = self.state["slow"].pop(name, 0)
            if not slow_s:
                return self._called(name, named, piped)
            self.save()
        time.sleep(slow_s)
        return self.call(name, named, piped)

    def _called(self, name: str, named: dict[str, Any], piped: list[Any]) -> list[Any]:
        if name in PARAMETERS:
            _check(name, named)
            self.state["calls"].append(name)
        if trouble := self.state["trouble"].get(name):
            raise PsError(trouble["id"], trouble["category"], trouble["words"])
        handler: Callable[..., list[Any]] | None = getattr(
            self, "_" + name.lower().replace("-", "_"), None
        )
        if handler is None:
            words = f"The term '{name}' is not recognized as the name of a cmdlet"
            raise PsError("CommandNotFoundException", "ObjectNotFound", words)
        try:
            return handler(piped, **{key.lower(): value for key, value in named.items()})
        finally:
            self.save()

    def static(self, kind: str, member: str, arguments: list[Any]) -> Any:
        """Members of .NET's types."""
        if member == "WriteLine":
            sys.stdout.write(f"{arguments[0]}\r\n")
            return []
        return _STATIC[f"{kind}.{member}"](*arguments)

    def real(self, path: str) -> Path:
        """`C:\\a\\b` is a file of ours."""
        drive, _, rest = path.partition(":\\")
        if not rest or len(drive) != 1 or ".." in rest:
            raise PsError("DriveNotFound", "ObjectNotFound", f"Cannot find drive: {path}")
        return self._folder / drive.lower() / rest.replace("\\", "/")

    def _import_module(self, _: list[Any], **named: Any) -> list[Any]:
        return []

    def _out_null(self, _: list[Any]) -> list[Any]:
        return []

    def _convertto_json(self, _: list[Any], **named: Any) -> list[Any]:
        return [json.dumps(named["inputobject"], ensure_ascii=False)]

    def _convertfrom_json(self, _: list[Any], **named: Any) -> list[Any]:
        return [json.loads(named["inputobject"])]

    def _get_ciminstance(self, _: list[Any], **named: Any) -> list[Any]:
        assert named["classname"] == "Win32_OperatingSystem"
        return [{"Caption": self.state["system"], "Version": self.state["version"]}]

    def _test_path(self, _: list[Any], **named: Any) -> list[Any]:
        path = self.real(named["literalpath"])
        return [path.is_file() if named.get("pathtype") == "Leaf" else path.exists()]

    def _new_item(self, _: list[Any], **named: Any) -> list[Any]:
        path = self.real(named["path"])
        if path.exists():
            words = f"An item with the specified name {named['path']} already exists."
            raise PsError("DirectoryExist,NewItemCommand", "ResourceExists", words)
        path.mkdir(parents=True)
        return [{"FullName": named["path"]}]

    def _remove_item(self, _: list[Any], **named: Any) -> list[Any]:
        shutil.rmtree(self.real(named["literalpath"]))
        return []

    def _get_childitem(self, _: list[Any], **named: Any) -> list[Any]:
        return [{"Name": path.name} for path in self.real(named["literalpath"]).iterdir()]

    def _get_vmhost(self, _: list[Any]) -> list[Any]:
        return [
            {
                "Name": "HV1",
                "LogicalProcessorCount": self.state["cpus"],
                "MemoryCapacity": self.state["memory"],
            }
        ]

    def _get_vmswitch(self, _: list[Any]) -> list[Any]:
        return [{"Name": name} for name in self.state["switches"]]

    def _get_vhd(self, _: list[Any], **named: Any) -> list[Any]:
        disk = json.loads(self.real(named["path"]).read_text())
        return [{"VhdFormat": "VHDX", "VhdType": disk["kind"]}]

    def _new_vhd(self, _: list[Any], **named: Any) -> list[Any]:
        parent, path = self.real(named["parentpath"]), self.real(named["path"])
        if not parent.is_file():
            raise PsError(f"ObjectNotFound,{_VM}NewVhd", "ObjectNotFound", "no such parent")
        path.write_text(json.dumps({**json.loads(parent.read_text()), "kind": "Differencing"}))
        return [{"Path": named["path"]}]

    def _new_vm(self, _: list[Any], **named: Any) -> list[Any]:
        if named["switchname"] not in self.state["switches"]:
            words = f"Hyper-V was unable to find a switch {named['switchname']}"
            raise PsError(f"InvalidParameter,{_VM}NewVM", "InvalidArgument", words)
        number = len(self.state["calls"])
        vm = {
            "Id": str(uuid.uuid4()),
            "Name": named["name"],
            "Notes": "",
            "State": "Off",
            "Heartbeat": "",
            "ProcessorCount": 1,
            "MemoryStartup": named["memorystartupbytes"],
            "disk": named["vhdpath"],
            "address": f"127.{self.state['group']}.{number >> 8}.{number & 255}",
        }
        self.state["vms"][vm["Id"]] = vm
        return [vm]

    def _get_vm(self, _: list[Any]) -> list[Any]:
        shown = []
        for vm in self.state["vms"].values():
            up = vm["State"] == "Running"
            silent = self.state["no_integration"]
            beat = "Disabled" if silent else "OkApplicationsUnknown"
            addresses = [] if silent or not up else ["fe80::1", vm["address"]]
            adapters = [{"IPAddresses": addresses}]
            seen = {"Heartbeat": beat if up else None, "NetworkAdapters": adapters}
            shown.append({**vm, **seen})
        return shown

    def _set_vm(self, _: list[Any], **named: Any) -> list[Any]:
        self._own(named)["Notes"] = named["notes"]
        return []

    def _set_vmprocessor(self, _: list[Any], **named: Any) -> list[Any]:
        own = self._own(named)
        own["ProcessorCount"] = named["count"] - self.state["stingy"]
        own["percent"] = named["maximum"]
        return []

    def _set_vmfirmware(self, _: list[Any], **named: Any) -> list[Any]:
        secure = [named["enablesecureboot"], named.get("secureboottemplate", "")]
        self._own(named)["secure"] = secure
        return []

    def _start_vm(self, _: list[Any], **named: Any) -> list[Any]:
        own = self._own(named)
        disk = json.loads(self.real(own["disk"]).read_text())
        settings = {"ssh_keys": {"ed25519_private": disk["host"], "ed25519_public": disk["shown"]}}
        text = f"#cloud-config\n{json.dumps(settings)}"
        if not self.state["dead"]:
            more = _SSHD if disk.get("windows") else ""
            booted = machine.boot(own["Name"], disk["authorized"], text, own["address"], more)
            own.update(pid=booted.process.pid, dir=str(booted.dir))
        own["State"] = "Running"
        return []

    def _suspend_vm(self, _: list[Any], **named: Any) -> list[Any]:
        self._signal(named, signal.SIGSTOP)
        self._own(named)["State"] = self.state["suspended"]
        return []

    def _resume_vm(self, _: list[Any], **named: Any) -> list[Any]:
        self._signal(named, signal.SIGCONT)
        self._own(named)["State"] = "Running"
        return []

    def _stop_vm(self, _: list[Any], **named: Any) -> list[Any]:
        assert named["turnoff"]
        end(self._own(named))
        self._own(named)["State"] = "Off"
        return []

    def _remove_vm(self, _: list[Any], **named: Any) -> list[Any]:
        own = self._own(named)
        if own["State"] != "Off":
            raise PsError(f"InvalidState,{_VM}RemoveVM", "InvalidOperation", "it runs")
        del self.state["vms"][own["Id"]]
        return []

    def _own(self, named: Mapping[str, Any]) -> dict[str, Any]:
        own: dict[str, Any] = self.state["vms"][named["vm"]["Id"]]
        return own

    def _signal(self, named: Mapping[str, Any], number: signal.Signals) -> None:
        for pid in inside(self._own(named)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)


def inside(vm: Mapping[str, Any]) -> list[int]:
    """All processes of its machine: they share the namespace of the first that it made."""
    try:
        room = Path(f"/proc/{vm['pid']}/ns/pid_for_children").readlink()
    except (KeyError, OSError):
        return []
    pids = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (process / "ns/pid").readlink() == room:
                pids.append(int(process.name))
    return pids


def end(vm: Mapping[str, Any]) -> None:
    """As if its plug had been pulled."""
    if "pid" not in vm:
        return
    with contextlib.suppress(ProcessLookupError):
        os.kill(vm["pid"], signal.SIGKILL)
    for _ in range(200):
        if not inside(vm):
            break
        time.sleep(0.02)
    shutil.rmtree(vm["dir"], ignore_errors=True)


def _check(name: str, named: Mapping[str, Any]) -> None:
    """As PowerShell binds parameters: a name that is none, or a value of another kind."""
    for parameter, value in named.items():
        if parameter not in PARAMETERS[name]:
            words = f"A parameter cannot be found that matches parameter name '{parameter}'."
            raise PsError(f"NamedParameterNotFound,{_VM}{name}", "InvalidArgument", words)
        wanted = PARAMETERS[name][parameter]
        right = (
            value is True
            if wanted is None
            else value in wanted
            if isinstance(wanted, tuple)
            else isinstance(value, wanted)
        )
        if not right:
            words = f"Cannot bind parameter '{parameter}': {value!r}"
            raise PsError(f"CannotConvertArgument,{_VM}{name}", "InvalidArgument", words)


_STATIC: Final[Mapping[str, Callable[..., Any]]] = {
    "Text.Encoding.UTF8": lambda: "utf8",
    "Console.Out": lambda: "out",
    "ScriptBlock.Create": lambda source: source,
    "Convert.FromBase64String": base64.b64decode,
    "Convert.ToBase64String": lambda data: base64.b64encode(data).decode(),
    "utf8.GetString": lambda data: data.decode(),
    "utf8.GetBytes": lambda text: text.encode(),
}
