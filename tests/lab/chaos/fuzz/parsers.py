"""Every parser in Python of what guests, folders, networks and plans say: bytes in, no crash."""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import TypeAdapter, ValidationError

from tests.host.container_image import imagekit
from ullage.analysis.tables import forms
from ullage.common.archives.headers import ArchiveError
from ullage.common.errors import UllageError
from ullage.common.faults import first_fault
from ullage.common.sums import BrokenSumError, Chain
from ullage.environments.agent import client
from ullage.environments.agent.clock import ClockClaims, own_line, reasons
from ullage.environments.agent.frames import FrameError, FrameReader, Message
from ullage.experiments.elastic.folder import ELASTIC
from ullage.experiments.studies.clockfile import ClockRecord
from ullage.host import clock
from ullage.host.container_image import archive
from ullage.host.container_image.archive import ImageSettings
from ullage.host.container_image.layers import Tree
from ullage.host.container_image.user import configured
from ullage.meters.energy import apcupsd, ipmi, perf, prometheus, redfish, wattsup
from ullage.meters.energy.base import FaultError
from ullage.meters.perf import elf
from ullage.meters.perf.mappings import OwnFiles
from ullage.meters.perf.script import ScriptReader, TrialWindow
from ullage.plan import matrix, schema
from ullage.runs.reader import ORDINARY
from ullage.workloads import WORKLOADS
from ullage.workloads.base import InvalidTrialError, Output
from ullage.workloads.own_metrics import OwnMetric, Printout

T = TypeVar("T")

_REFUSALS: Final = (
    UllageError,
    FrameError,
    FaultError,
    InvalidTrialError,
    ValidationError,
    ArchiveError,
    archive.ForeignError,
)
"""Ways to say no. Whatever else a parser raises is a crash."""
_NOWHERE: Final = Path("/nonexistent")
_PARAMETERS: Final[dict[str, dict[str, Any]]] = {"command": {"argv": ["true"]}}
"""Of workloads that have no default for all."""


@dataclass(frozen=True)
class Parser:
    """What is fuzzed."""

    name: str
    read: Callable[[bytes], object]
    seeds: tuple[bytes, ...]
    """Inputs from which others are made."""

    def __call__(self, data: bytes) -> None:
        """Read it, or refuse it."""
        try:
            self.read(data)
        except _REFUSALS:
            return


def _text(read: Callable[[str], object], data: bytes) -> object:
    return read(data.decode("utf-8", "replace"))


def _frames(data: bytes) -> None:
    """In two parts: the first byte says where the cut is."""
    reader = FrameReader()
    cut = data[0] if data else 0
    for part in (data[1 : 1 + cut], data[1 + cut :]):
        for frame in reader.feed(part):
            if isinstance(frame, Message):
                _words_of_an_agent(frame)


def _words_of_an_agent(message: Message) -> None:
    """All that the client asks a message for."""
    for ask in (ClockClaims.read, own_line, reasons):
        try:
            ask(message)
        except FrameError:
            continue
    facts = message.fields.get("facts")
    if facts is not None:
        client.AgentFacts.model_validate(facts)


def _journal(line: TypeAdapter[Any], data: bytes) -> None:
    chain = Chain()
    for written in data.splitlines():
        try:
            line.validate_json(chain.opened(written))
        except (ValidationError, BrokenSumError) as error:
            first_fault(error)
            return


def _datagrams(data: bytes) -> None:
    """RGAP, as the server and as the client of a clock."""
    token = bytes(16)
    pending = clock.Server(token).receive(data, 1)
    if pending is not None:
        pending.answer(2)
    of_client = clock.Client(token, 1)
    of_client.poll(1)
    of_client.receive(data, 2, False)
    of_client.poll(2)


def _perf_script(data: bytes) -> None:
    reader = ScriptReader([TrialWindow(0, 10**12, {})], 4000, OwnFiles(None))
    for line in data.decode("utf-8", "replace").splitlines():
        reader.take(line)
    for window in reader.windows:
        window.table()


def _elf(data: bytes) -> None:
    functions = elf.functions(io.BytesIO(data))
    if functions is not None:
        functions.at(0)
        functions.at(2**63)


def _plan(data: bytes) -> None:
    matrix.resolve(*schema.loads(data.decode("utf-8", "replace")))


def _prometheus(data: bytes) -> None:
    page = data.decode("utf-8", "replace")
    prometheus.samples(page, {"kepler_node_cpu_joules_total", "scaph_host_power_microwatts"})


def _apcupsd(data: bytes) -> None:
    lines = (line.partition(":") for line in data.decode("utf-8", "replace").splitlines())
    status = {name.strip(): value.strip() for name, _, value in lines}
    apcupsd._reached(status)
    apcupsd._age_s(status)
    apcupsd._load(status)
    apcupsd._unit(status, "NOMPOWER", "Watts")


def _redfish(data: bytes) -> None:
    resource = redfish.resource_of(data)
    redfish.link(resource, "Power")
    redfish._energy(resource)
    for modern in (True, False):
        redfish._power(resource, modern)


def _image_layer(data: bytes) -> None:
    """A layer of a container image, merged and written; then whom its program runs as."""
    tree = Tree()
    tree.add(io.BytesIO(data))
    tree.empty_file("ullage", "agent")
    tree.write(Path(os.devnull))
    configured(ImageSettings(User="app:more"), tree)


def _image(data: bytes) -> None:
    """An archive of one, up to its layers."""
    with tempfile.NamedTemporaryFile(dir="/dev/shm") as file:
        file.write(data)
        file.flush()
        with archive.opened(Path(file.name), None) as image:
            image.configuration.model_dump()


_FIGURES: Final = {
    "path": {"json": "$..results[?@.name == 'x'].mean"},
    "regex": {"regex": r"(?m)^rate ([0-9.]+)"},
    "last": {"line": "last"},
}


def _own_metric(place: dict[str, str], data: bytes) -> object:
    metric = OwnMetric.model_validate({"unit": "ms", "better": "lower", **place})
    return metric.read(Printout(data.decode("utf-8", "replace"))).value


def _table(data: bytes) -> object:
    """JSON of another tool, for `ullage compare`."""
    with tempfile.NamedTemporaryFile(dir="/dev/shm") as file:
        file.write(data)
        file.flush()
        return forms.read(Path(file.name))


def _workload(workload: Any, data: bytes) -> None:
    """What its programs print, on both streams; a NUL byte stands between them."""
    parameters = workload.parameters_model(**_PARAMETERS.get(workload.name, {}))
    stdout, _, stderr = data.decode("utf-8", "replace").partition("\0")
    output = Output(0, None, stdout, stderr, 1.0)
    outputs: Mapping[str, Output] = _Everyone(output)
    workload.check(parameters, outputs)
    workload.parse(parameters, outputs)
    workload.facts(parameters, outputs)


class _Everyone(dict[str, Output]):
    """Whatever role is asked for, it has printed this."""

    def __init__(self, output: Output) -> None:
        super().__init__(main=output, server=output, client=output)
        self._output = output

    def __missing__(self, role: str) -> Output:
        return self._output

    def __contains__(self, role: object) -> bool:
        return True


def _printed(name: str) -> tuple[bytes, ...]:
    """Real outputs of the tool, which its tests have."""
    data = Path(__file__).resolve().parents[3] / "workloads" / "data"
    folders = [data / word for word in (name, name.replace("-", "_"), name.partition("-")[0])]
    files = [file for folder in folders if folder.is_dir() for file in sorted(folder.iterdir())]
    return tuple(file.read_bytes() for file in files if file.is_file())[:20] or (b"1.0 s\n",)


def _parsers() -> Iterator[Parser]:
    greeting = b"\x20ULLAGE-AGENT 2\n\xa1\x55\x00\x00\x00\x00\x00\x15"
    hello = b'{"op":"hello","id":1}' + b"\xa1\x55\x01\x00\x00\x00\x00\x05\x00\x00\x00\x01x"
    yield Parser("frames", _frames, (greeting + hello,))
    started = b'{"event":"started","epoch_ns":1,"start_ns":2,"pid":3,"tag":"u1234567",'
    line = started + b'"resumed":false,"boot_id":"x","clock":null}\n'
    yield Parser("journal", partial(_journal, ORDINARY.event), (line,))
    yield Parser("elastic-journal", partial(_journal, ELASTIC.event), (line,))
    resolved = b'{"format": 1, "kind": "elastic"}'
    yield Parser("resolved", partial(ORDINARY.parse_resolved, _NOWHERE), (resolved,))
    yield Parser("elastic-resolved", partial(ELASTIC.parse_resolved, _NOWHERE), (resolved,))
    yield Parser("clock-file", ClockRecord.model_validate_json, (b'{"format":1,"name":"x"}',))
    yield Parser("rgap", _datagrams, (bytes(80),))
    sample = b"sh 1/1 [000] 1.000000000:  ffffffff811bb98c do_idle ([kernel.kallsyms])\n"
    yield Parser("perf-script", _perf_script, (sample,))
    yield Parser("elf", _elf, (client.binary().read_bytes()[:4096],))
    yield Parser("plan", _plan, (_small_plan(),))
    page = b'# TYPE x counter\nkepler_node_cpu_joules_total{zone="package"} 1.5\n'
    yield Parser("prometheus", _prometheus, (page,))
    yield Parser("apcupsd", _apcupsd, (b"STATUS : ONLINE\nLOADPCT : 9.0 Percent\n",))
    power = b"Instantaneous power reading: 220 Watts\nPower reading state is: activated\n"
    yield Parser("ipmi", partial(_text, ipmi._power), (power,))
    joules = b'{"interval":1.0,"counter-value":"1.5","unit":"Joules","event":"power/energy-pkg/"}'
    yield Parser("perf-energy", perf.parse_line, (joules,))
    yield Parser("wattsup", partial(_text, wattsup._watts), (b"#d,-,18,1234,1,2,3",))
    control = b'{"PowerControl":[{"PowerConsumedWatts":1}],"EnergykWh":{"Reading":1}}'
    yield Parser("redfish", _redfish, (control,))
    yield from _of_a_users_own()
    for kind in WORKLOADS:
        workload = kind()
        name = f"workload-{workload.name}"
        yield Parser(name, partial(_workload, workload), _printed(workload.name))


def _of_a_users_own() -> Iterator[Parser]:
    """Images, programs and tables that a user brings."""
    people = imagekit.Entry("etc/passwd", b"app:x:1:2::/home:\n")
    layer = imagekit.layer(imagekit.Entry("\u00e9/a", b"1", xattrs={"user.a": "x"}), people)
    yield Parser("image-layer", _image_layer, (layer,))
    with tempfile.TemporaryDirectory() as place:
        image = imagekit.save(Path(place) / "image.tar", [], User="app", Env=["A=b"])
        yield Parser("image", _image, (image.read_bytes(),))
    printed = b'{"results":[{"name":"x","mean":1.5}]}\nrate 2.5\n7\n'
    for name, place_of_it in _FIGURES.items():
        yield Parser(f"own-metric-{name}", partial(_own_metric, place_of_it), (printed,))
    yield Parser("table-json", _table, _TABLES)


_TABLES: Final = (
    b'{"results":[{"command":"a","times":[1.0,2.0],"exit_codes":[0,1]}]}',
    b'{"machine_info":{},"benchmarks":[{"fullname":"x","group":"g","stats":{"data":[1.0]}}]}',
    b'{"context":{},"benchmarks":[{"name":"a","real_time":1.0,"time_unit":"ms"}]}',
    b'{"session_info":{},"runs":[{"testcases":[{"name":"a","system":"s","result":"fail",'
    b'"perfvars":[{"name":"v","value":1,"unit":"s"}]}]}]}',
)


def _small_plan() -> bytes:
    return (
        b"name: x\nbaseline: native\nimage: host\nenvironments: {native: {provider: native}}\n"
        b'workloads: [{name: command, argv: ["true"]}]\nblocks: {min: 1, max: 2}\n'
    )


PARSERS: Final = {parser.name: parser for parser in _parsers()}
