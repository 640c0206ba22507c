"""Can a VM run VMs of its own? What QEMU is told of the CPU, and what this host's KVM allows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from ullage.environments.qemu.command_line import Accelerator

NestingFlag = Literal["vmx", "svm"]
"""What a CPU's own support of VMs is called: Intel's, AMD's."""

FLAGS: Final[dict[NestingFlag, str]] = {"vmx": "kvm_intel", "svm": "kvm_amd"}
"""Flag → KVM's module for it."""

_CPUINFO: Final = Path("/proc/cpuinfo")
_MODULES: Final = Path("/sys/module")


def host_flag() -> NestingFlag | None:
    """This host's."""
    for line in _CPUINFO.read_text(encoding="utf-8", errors="replace").splitlines():
        if line.startswith("flags"):
            flags = line.split()
            return next((flag for flag in FLAGS if flag in flags), None)
    return None


def nesting(accelerator: Accelerator, able: bool) -> str:
    """What is added to QEMU's `-cpu`. Emulation knows AMD's way alone."""
    flag = "svm" if accelerator == "tcg" else host_flag() or "vmx"
    return f"{flag}={'on' if able else 'off'}"


def no_nesting() -> str | None:
    """Why no guest with KVM can run VMs here; None: it can."""
    flag = host_flag()
    if flag is None:
        return "the CPU of this host tells of neither vmx nor svm"
    file = _MODULES / FLAGS[flag] / "parameters/nested"
    try:
        text = file.read_text(encoding="ascii").strip()
    except OSError as error:
        return f"{file}: {error.strerror}"
    return None if text in {"1", "Y"} else f"{file} says {text}"
