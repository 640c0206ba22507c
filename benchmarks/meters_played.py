"""What answers each energy meter while its cost is measured: the doubles of its tests."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from importlib import import_module
from itertools import repeat
from pathlib import Path
from typing import Any

from tests.energy import exporterkit, perfkit, powercapkit

Options = Mapping[str, Any]
PROCESSES = 2000


@dataclass(frozen=True)
class Played:
    """A meter, what plays its hardware, and how: a folder → the meter's options, while it plays."""

    meter: str
    what: str
    ready: Callable[[Path], AbstractContextManager[Options]]


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
    kit = import_module("tests.energy.nut_double")
    with kit.started(folder) as double:
        yield {"ups": double.ups, "rating": 865}


@contextmanager
def apcupsd(folder: Path) -> Iterator[Options]:
    """The real apcupsd, with a UPS on a pseudo-terminal."""
    kit = import_module("tests.energy.apcupsd_double")
    with kit.running(folder) as double:
        yield {"server": double.server, "rating": 865}


@contextmanager
def wattsup(folder: Path) -> Iterator[Options]:
    """A pseudo-terminal that sends a packet each second."""
    kit = import_module("tests.energy.wattsup_double")
    with kit.plugged(folder, repeat(kit.packet(1234)), period_s=1.0):
        yield {"device": str(folder / "ttyUSB0")}


@contextmanager
def ipmi(folder: Path) -> Iterator[Options]:
    """The real ipmitool, and a BMC that speaks RMCP+ with it."""
    kit = import_module("tests.energy.ipmi_double")
    if shutil.which("ipmitool") is None:
        raise OSError("no ipmitool")
    with kit.serving(folder) as double:
        yield {
            "bmc": double.address,
            "username": kit.USER,
            "password_file": str(double.password_file),
        }


@contextmanager
def redfish(folder: Path) -> Iterator[Options]:
    """A service with the resources of DMTF's example, over HTTPS."""
    kit = import_module("tests.energy.redfish_double")
    password, trusted = folder / "password", kit.certificate(folder)
    password.write_text(f"{kit.PASSWORD}\n")
    with kit.serving(trusted) as double:
        yield {
            "url": double.url,
            "username": kit.USER,
            "password_file": str(password),
            "ca_file": str(trusted),
        }


PLAYED = (
    Played("rapl", "files in place of the kernel's", rapl),
    Played("perf", "real perf, CPU time in place of energy", perf),
    Played("prometheus", "real node_exporter", node_exporter),
    Played("prometheus", f"a page of {PROCESSES:,} processes", scaphandre),
    Played("model", "real", model),
    Played("wattsup", "a pseudo-terminal that speaks as it does", wattsup),
    Played("nut", "real upsd, simulated UPS", nut),
    Played("apcupsd", "real apcupsd, simulated UPS", apcupsd),
    Played("ipmi", "real ipmitool, a BMC played", ipmi),
    Played("redfish", "a service played, HTTPS", redfish),
)
