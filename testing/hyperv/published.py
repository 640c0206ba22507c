"""What Microsoft's command help says of the cmdlets that ullage calls: the names that it uses.

From the SYNTAX sections of MicrosoftDocs/windows-powershell-docs, docset/winserver2022-ps/Hyper-V/
NAME.md (and 2019, 2025; 2016 too, but for Set-VM's `AutomaticCheckpointsEnabled`, which is newer),
commit f113d6bda7df4bf60fb213c320c12678b40ae571 (CC BY 4.0, MIT): the parameter set in which we call
each, as far as we use it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

ON_OFF: Final = ("On", "Off")

PARAMETERS: Final[Mapping[str, Mapping[str, type | tuple[str, ...] | None]]] = {
    "Get-VM": {},
    "Get-VMHost": {},
    "Get-VMSwitch": {},
    "Get-VHD": {"Path": str},
    "New-VHD": {"Path": str, "ParentPath": str, "Differencing": None},
    "New-VM": {
        "Name": str,
        "Generation": int,
        "MemoryStartupBytes": int,
        "VHDPath": str,
        "Path": str,
        "SwitchName": str,
    },
    "Set-VM": {
        "VM": dict,
        "Notes": str,
        "StaticMemory": None,
        "AutomaticCheckpointsEnabled": bool,
        "AutomaticStartAction": ("Nothing", "StartIfRunning", "Start"),
        "AutomaticStopAction": ("TurnOff", "Save", "ShutDown"),
    },
    "Set-VMProcessor": {"VM": dict, "Count": int, "Maximum": int},
    "Set-VMFirmware": {"VM": dict, "EnableSecureBoot": ON_OFF, "SecureBootTemplate": str},
    "Start-VM": {"VM": dict},
    "Suspend-VM": {"VM": dict},
    "Resume-VM": {"VM": dict},
    "Stop-VM": {"VM": dict, "TurnOff": None, "Force": None},
    "Remove-VM": {"VM": dict, "Force": None},
}
"""Cmdlet → parameter → its type, or the values that it accepts; None: a switch."""
