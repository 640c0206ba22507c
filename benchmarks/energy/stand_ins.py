"""What answers each energy meter while its cost is measured: real programs, or doubles of ours."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import Any

from testing.energy import (
    apcupsd_double,
    exporterkit,
    ipmi_double,
    nut_double,
    perfkit,
    powercapkit,
    redfish_double,
    tlskit,
    wattsup_double,
)

Options = Mapping[str, Any]
PROCESSES = 2000


@dataclass(frozen=True)
class StandIn:
    """What answers a meter in the place of its hardware."""

    meter: str
    description: str
    ready: Callable[[Path], AbstractContextManager[Options]]
    """From a folder of its own to the meter's options, while it answers."""


@contextmanager
def rapl(folder: Path) -> Iterator[Options]:
    """Files for two packages and their memory."""
    tree = powercapkit.server(folder)
    with tree.counting("intel-rapl:0", "intel-rapl:1", every_s=0.1):
        yield {"powercap": str(tree.path)}


@contextmanager
def perf(folder: Path) -> Iterator[Options]:
    """The real one, which counts CPU time here, with `sed` behind it that says joules."""
    if shutil.which("perf") is None:
        raise OSError("no linux-perf")
    yield {"program": perfkit.program(folder, perfkit.REAL)}


@contextmanager
def node_exporter(folder: Path) -> Iterator[Options]:
    """The real one, with all its collectors."""
    with exporterkit.node_exporter(powercapkit.server(folder).top, "--collector.rapl") as (url, _):
        yield {"url": url, "preset": "node-exporter"}


@contextmanager
def scaphandre(_: Path) -> Iterator[Options]:
    """A page with a line for each of many processes, as scaphandre's is."""
    line = (
        'scaph_process_power_consumption_microwatts{{exe="sh",cmdline="sh -c {n}",pid="{n}"}} 7\n'
    )
    with exporterkit.exporter(
        exporterkit.SCAPHANDRE + "".join(line.format(n=n) for n in range(PROCESSES))
    ) as served:
        yield {"url": served.url, "preset": "scaphandre"}


@contextmanager
def model(_: Path) -> Iterator[Options]:
    """Nobody: /proc/stat of this host."""
    yield {"idle_watts": 50, "core_watts": 10}


@contextmanager
def nut(folder: Path) -> Iterator[Options]:
    """The real `upsd`, with its `dummy-ups`."""
    with nut_double.started(folder) as double:
        yield {"ups": double.ups, "rating": 865}


@contextmanager
def apcupsd(folder: Path) -> Iterator[Options]:
    """The real apcupsd, with a UPS on a pseudo-terminal."""
    with apcupsd_double.running(folder) as double:
        yield {"server": double.server, "rating": 865}


@contextmanager
def wattsup(folder: Path) -> Iterator[Options]:
    """A pseudo-terminal that sends a packet each second."""
    with wattsup_double.plugged(folder, repeat(wattsup_double.packet(1234)), period_s=1.0):
        yield {"device": str(folder / "ttyUSB0")}


@contextmanager
def ipmi(folder: Path) -> Iterator[Options]:
    """The real ipmitool, and a BMC that speaks RMCP+ with it."""
    if shutil.which("ipmitool") is None:
        raise OSError("no ipmitool")
    with ipmi_double.serving(folder) as double:
        yield {
            "bmc": double.address,
            "username": ipmi_double.USER,
            "password_file": str(double.password_file),
        }


@contextmanager
def redfish(folder: Path) -> Iterator[Options]:
    """A service with the resources of DMTF's example, over HTTPS."""
    password, trusted = folder / "password", tlskit.certificate(folder)
    password.write_text(f"{redfish_double.PASSWORD}\n")
    with redfish_double.serving(trusted) as double:
        yield {
            "url": double.url,
            "username": redfish_double.USER,
            "password_file": str(password),
            "ca_file": str(trusted),
        }


STAND_INS = (
    StandIn("rapl", "files in place of the kernel's", rapl),
    StandIn("perf", "real perf, CPU time in place of energy", perf),
    StandIn("prometheus", "real node_exporter", node_exporter),
    StandIn("prometheus", f"a page of {PROCESSES:,} processes", scaphandre),
    StandIn("model", "real", model),
    StandIn("wattsup", "a pseudo-terminal that speaks as it does", wattsup),
    StandIn("nut", "real upsd, simulated UPS", nut),
    StandIn("apcupsd", "real apcupsd, simulated UPS", apcupsd),
    StandIn("ipmi", "real ipmitool, a BMC played", ipmi),
    StandIn("redfish", "a service played, HTTPS", redfish),
)
