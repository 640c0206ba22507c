"""Reasons why a clock promises less than it could: what they mean, and what to do about each."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Final

ADVICE: Final = MappingProxyType(
    {
        "no-counter": "see whether a seccomp filter, prctl(PR_SET_TSC) or the hypervisor keeps"
        " this process from its counter; until then the slower kernel clock is used",
        "not-invariant": "use a processor whose counter is invariant; in a virtual machine, let"
        " the hypervisor pass that on (QEMU: `-cpu host,+invtsc`)",
        "unsynchronised": "stay on the cores of one socket (`taskset`, `numactl`), or update the"
        " firmware; until then compare no two threads' values",
        "unmeasured": "let the process run on all the cores that it will use when it starts, and"
        " not under a CPU quota",
        "rate-unknown": "start again when the machine is quieter",
        "rate-disputed": "nothing, if the machine was moved here from another host; the measured"
        " rate is used",
        "distrusted": "see `dmesg | grep -i clocksource` for what the kernel has against the"
        " counter",
        "unpaired": "use a processor that has `rdtscp`, or stay on one core",
        "stepped": "see the kernel's log for what happened to the counter, and start again",
        "suspended": "start the program again after the machine was suspended, or synchronise"
        " again",
        "moved": "synchronise again; do not move the machine during a run",
        "moves-unseen": "let the hypervisor offer vmclock (QEMU: `-device vmclock`; the guest needs"
        " Linux 6.13), or see to it that the machine is not moved during a run",
        "distorted": "unset ULLAGE_CLOCK_DISTORT",
        "adrift": "synchronise again",
    }
)


def meanings() -> Mapping[str, str]:
    """Reason → meaning. Empty where the extension module, which has them, is not built."""
    try:
        return dict(import_module("ullage._clock").reason_meanings())
    except ImportError:
        return {}
