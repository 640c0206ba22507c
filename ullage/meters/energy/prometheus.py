"""Meter `prometheus`."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from threading import Timer
from typing import ClassVar, Final, Literal, NamedTuple, Self
from urllib.parse import urlsplit

from prometheus_client.parser import text_string_to_metric_families
from pydantic import Field, field_validator, model_validator

from ullage.common.text import clean
from ullage.meters.energy.base import READ_DEADLINE_S, FaultError
from ullage.meters.energy.remote import OutsideMeter, OutsideOptions, faults, trust
from ullage.runs.readings import Channel, Method, Observer, Scope

# Samples from a page in Prometheus's text exposition format.


class Sample(NamedTuple):
    """What tells one series from the others."""

    metric: str
    labels: tuple[tuple[str, str], ...]
    """In the order of their names."""


def samples(page: str, metrics: Collection[str]) -> dict[Sample, float]:
    """The samples of these metrics; FaultError (`nonsense`) when they do not stand in the format.

    Other lines are left unread: a page has thousands of them, one for each process.
    """
    if not page.endswith("\n"):
        raise FaultError("nonsense", "the page ends in the middle of a line")
    lines = [line for line in page.split("\n") if _metric(line) in metrics]
    values: dict[Sample, float] = {}
    try:
        for family in text_string_to_metric_families("\n".join([*lines, ""])):
            for each in family.samples:
                sample = Sample(each.name, tuple(sorted(each.labels.items())))
                if sample in values:
                    raise FaultError("nonsense", f"{each.name} stands twice with equal labels")
                values[sample] = float(each.value)
    except (ValueError, IndexError, KeyError) as error:
        raise FaultError("nonsense", "a line that is not of the exposition format") from error
    return values


def _metric(line: str) -> str:
    """What the line begins with, up to its labels or value."""
    return line.partition("{")[0].split(" ", 1)[0].split("\t", 1)[0]


# Which series of well-known Prometheus exporters tell power or energy, and of what.

Unit = Literal["joules", "microjoules", "watts", "microwatts"]
Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Series:
    """Series of one metric, what they tell, and the labels by which they are chosen."""

    metric: str
    unit: Unit
    channel: str
    """What the channel is called; with a number where several series match."""
    scope: Scope
    method: Method
    labels: Labels = ()
    usual: bool = True
    """Taken when the plan names the preset alone."""

    def has(self, sample: Sample) -> bool:
        """True when the sample is one of them.

        The kernel shows some packages again under `intel-rapl-mmio`, and node_exporter shows both.
        """
        if sample.metric != self.metric or not set(self.labels) <= set(sample.labels):
            return False
        return "intel-rapl-mmio" not in dict(sample.labels).get("path", "")

    def narrowed(self, labels: Labels) -> Series:
        return replace(self, labels=self.labels + labels)

    def method_of(self, sample: Sample) -> Method:
        """Kepler before 0.10 says in `source` when it had no counter and took a model."""
        source = dict(sample.labels).get("source", "rapl")
        if self.method == "measured" and self.metric.startswith("kepler_") and "rapl" not in source:
            return "estimated"
        return self.method


def _kepler_attributed(of: str, zone: str, scope: Scope = "guest") -> Series:
    metric = f"kepler_{of}_cpu_joules_total"
    return Series(metric, "joules", of, scope, "attributed", (("zone", zone),), usual=False)


PRESETS: Final[dict[str, tuple[Series, ...]]] = {
    # docs_src/references/metrics.md of scaphandre. The host is the sum of the packages and, where
    # RAPL counts it, their memory; or `psys` (docs_src/explanations/host_metrics.md).
    "scaphandre": (
        Series("scaph_host_energy_microjoules", "microjoules", "host", "package", "measured"),
        Series(
            "scaph_host_power_microwatts", "microwatts", "host", "package", "measured", usual=False
        ),
        Series(
            "scaph_process_power_consumption_microwatts",
            "microwatts",
            "process",
            "guest",
            "attributed",
            usual=False,
        ),
    ),
    # docs/user/metrics.md of Kepler 0.10; before it: pkg/metrics of release-0.7.
    "kepler": (
        Series(
            "kepler_node_cpu_joules_total",
            "joules",
            "package",
            "package",
            "measured",
            (("zone", "package"),),
        ),
        Series(
            "kepler_node_cpu_joules_total",
            "joules",
            "memory",
            "memory",
            "measured",
            (("zone", "dram"),),
        ),
        Series("kepler_node_package_joules_total", "joules", "package", "package", "measured"),
        Series("kepler_node_dram_joules_total", "joules", "memory", "memory", "measured"),
        _kepler_attributed("vm", "package"),
        _kepler_attributed("container", "package"),
        _kepler_attributed("process", "package"),
    ),
    # collector/rapl_linux.go of node_exporter.
    "node-exporter": (
        Series("node_rapl_package_joules_total", "joules", "package", "package", "measured"),
        Series("node_rapl_dram_joules_total", "joules", "memory", "memory", "measured"),
    ),
}


# One page from a web server, with limits.

MOST_BYTES: Final = 1 << 24
_HEADERS: Final = {
    "Accept": "text/plain;version=0.0.4",
    "Accept-Encoding": "identity",
    "Connection": "close",
    "User-Agent": "ullage",
}
_DENIED: Final = {401, 403, 407}


class Scrape:
    """Gets the page anew each time, by a connection of its own, with no proxy and no redirect."""

    def __init__(self, url: str, ca_file: Path | None = None) -> None:
        """`ca_file`: whose certificates are trusted over HTTPS; else those of the system."""
        self._parts = urlsplit(url)
        self._ca_file = ca_file
        self._trust: ssl.SSLContext | None = None
        self._socket: socket.socket | None = None
        self._late = False

    def text(self) -> str:
        """The page. FaultError: `gone`, `silent`, `denied`, `nonsense`."""
        self._late = False
        # A wait that ends with each byte is no limit for a server that sends one now and then.
        timer = Timer(READ_DEADLINE_S, self._hang_up)
        timer.start()
        try:
            with faults():
                return self._text()
        except (HTTPException, UnicodeDecodeError) as error:
            reason = f"no whole answer of HTTP ({type(error).__name__})"
            raise FaultError("nonsense", reason) from error
        finally:
            timer.cancel()
            if self._late:  # whatever else it looked like, when the connection was cut
                raise FaultError("silent", f"no answer within {READ_DEADLINE_S:g} s")

    def _hang_up(self) -> None:
        self._late = True
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def _text(self) -> str:
        connection = self._connection()
        try:
            connection.connect()
            connection.sock.settimeout(2 * READ_DEADLINE_S)  # the timer ends it before that
            self._socket = connection.sock
            if self._late:  # the timer found nothing to hang up
                raise TimeoutError
            target = self._parts._replace(scheme="", netloc="", fragment="").geturl() or "/"
            connection.request("GET", target, headers=_HEADERS)
            with connection.getresponse() as response:
                return _body(response)
        finally:
            self._socket = None
            connection.close()

    def _connection(self) -> HTTPConnection:
        host, port = self._parts.hostname or "", self._parts.port
        if self._parts.scheme == "http":
            return HTTPConnection(host, port, timeout=READ_DEADLINE_S)
        if self._trust is None:
            self._trust = trust(self._ca_file)
        return HTTPSConnection(host, port, timeout=READ_DEADLINE_S, context=self._trust)


def _body(response: HTTPResponse) -> str:
    if response.status != 200:
        code = "denied" if response.status in _DENIED else "nonsense"
        to = f" to {response.headers['Location']}" if 300 <= response.status < 400 else ""
        raise FaultError(code, clean(f"status {response.status} {response.reason}{to}", 200))
    kind = response.headers.get_content_type()
    if response.headers.get("Content-Type") and kind != "text/plain":
        raise FaultError("nonsense", clean(f"a page of {kind}, not of metrics", 200))
    body = response.read(MOST_BYTES + 1)
    if len(body) > MOST_BYTES:
        raise FaultError("nonsense", f"a page over {MOST_BYTES >> 20} MiB")
    if response.length:
        raise FaultError("nonsense", f"{response.length} bytes of the page did not come")
    return body.decode("utf-8")


_MOST: Final = 16
_TELLING: Final = ("zone", "index", "path", "package", "mode", "source", "socket_id")
"""Labels that say which part of the machine it is; others may hold whole command lines."""
_POWER_OR_ENERGY: Final[dict[Unit, tuple[Literal["power", "energy"], float]]] = {
    "joules": ("energy", 1.0),
    "microjoules": ("energy", 1e-6),
    "watts": ("power", 1.0),
    "microwatts": ("power", 1e-6),
}


class PrometheusOptions(OutsideOptions):
    """What a plan may say of `prometheus`."""

    url: str = Field(description="of the page, `http://127.0.0.1:8080/metrics`; no user in it")
    preset: Literal["scaphandre", "kepler", "node-exporter"] | None = Field(
        None, description="whose page it is: knows the metrics, units, scopes and methods"
    )
    metric: str | None = Field(
        None,
        pattern=r"^[a-zA-Z_:][a-zA-Z0-9_:]*$",
        description="the metric; with a preset: another of those that it knows",
    )
    ca_file: Path | None = Field(
        None, description="certificates to trust over HTTPS, PEM; without it those of the system"
    )
    labels: dict[str, str] = Field({}, description="labels that a series must have, with values")
    unit: Unit | None = Field(None, description="of the metric, without a preset")
    scope: Scope | None = Field(None, description="of what it is, without a preset")
    method: Method | None = Field(None, description="how it comes about, without a preset")
    observer: Observer = Field("host", description="who looked: where the exporter runs")

    @field_validator("url")
    @classmethod
    def _plain(cls, url: str) -> str:
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.port == 0:
            raise ValueError("an address such as http://127.0.0.1:8080/metrics")
        if parts.username is not None or parts.password is not None:
            raise ValueError("no user and password, which would stand in the run folder")
        if not (url.isascii() and url.isprintable() and " " not in url):
            raise ValueError("an address without spaces and other signs")
        return url

    @model_validator(mode="after")
    def _preset_or_all(self) -> Self:
        if self.ca_file is not None and urlsplit(self.url).scheme == "http":
            raise ValueError("`ca_file` is for https:")
        own = (self.unit, self.scope, self.method)
        if self.preset is None and (self.metric is None or None in own):
            raise ValueError("needs `preset`, or `metric` with `unit`, `scope` and `method`")
        if self.preset is not None and own != (None, None, None):
            raise ValueError("`preset` knows `unit`, `scope` and `method`")
        metrics = [series.metric for series in PRESETS.get(self.preset or "", ())]
        if metrics and self.metric is not None and self.metric not in metrics:
            raise ValueError(f"{self.preset} has {', '.join(sorted(set(metrics)))}")
        return self


class Prometheus(OutsideMeter):
    """A figure of power or energy from the page of a Prometheus exporter.

    Made for [scaphandre](https://github.com/hubblo-org/scaphandre) (`preset: scaphandre`: energy
    of the host; `metric: scaph_process_power_consumption_microwatts` with `labels` for what it
    attributes to a process or guest), [Kepler](https://github.com/sustainable-computing-io/kepler)
    (`preset: kepler`, packages and memory, of version 0.10 and those before; also what it
    attributes to VMs and containers) and node_exporter (`preset: node-exporter`). Any other needs
    `metric`, `unit`, `scope` and `method`. Each series that matches is a channel, 16 at most; what
    Kepler takes from a model is marked as estimated. A figure is as old as the exporter's own last
    look (Kepler: 5 s, scaphandre: 2 s), so read no more often than that. The counters of
    node_exporter and scaphandre wrap with the processor's without saying where: the reading in
    which one does is lost. Over HTTPS the certificate must be trusted, by the system or by
    `ca_file`. No proxy is used, no redirect followed, and a page over 16 MiB refused.
    """

    name = "prometheus"
    Options = PrometheusOptions
    fixes: ClassVar[Mapping[str, str]] = {
        "gone": "start the exporter, and look at the page with `curl`",
        "denied": "let the exporter be read from here without a password, on the loopback; a"
        " certificate that it signed itself is trusted by `ca_file:` with that certificate",
        "nonsense": "`url`, `metric` and `labels` must name series that are on the page; compare"
        " with what `curl` shows",
    }

    def __init__(self, options: PrometheusOptions) -> None:
        super().__init__(options)
        self._scrape = Scrape(options.url, options.ca_file)
        self._wanted = _wanted(options)
        self._channels: dict[Sample, tuple[str, float]] = {}

    def where(self) -> str:
        return clean(self.options.url)

    def describe(self) -> tuple[Channel, ...]:
        """Read the page once; each series that matches is a channel."""
        values, matched = self._page(), dict[Sample, tuple[str, float]]()
        channels: list[Channel] = []
        for series in self._wanted:
            matching = sorted(sample for sample in values if series.has(sample))
            for number, sample in enumerate(matching):
                name = f"{series.channel}-{number}" if len(matching) > 1 else series.channel
                matched[sample] = (name, _POWER_OR_ENERGY[series.unit][1])
                channels.append(self._channel(name, series, sample))
        if not channels:
            names = " or ".join(dict.fromkeys(series.metric for series in self._wanted))
            raise FaultError("nonsense", f"it has no {names}{self._narrowed()}")
        if len(channels) > _MOST:
            raise FaultError("nonsense", f"{len(channels)} series match; `labels` can name fewer")
        _values(values, matched)
        self._channels = matched
        return tuple(channels)

    def ask(self) -> Mapping[str, float]:
        return _values(self._page(), self._channels)

    def close(self) -> None:
        """Nothing is held between two requests."""

    def _page(self) -> dict[Sample, float]:
        return samples(self._scrape.text(), {s.metric for s in self._wanted})

    def _channel(self, name: str, series: Series, sample: Sample) -> Channel:
        labels = [f"{key}={value}" for key, value in sample.labels if key in _TELLING]
        return Channel(
            name=name,
            kind=_POWER_OR_ENERGY[series.unit][0],
            method=series.method_of(sample),
            scope=series.scope,
            observer=self.options.observer,
            resolution=0,
            accuracy=self.options.accuracy,
            source=clean(f"{self.options.url} {' '.join([series.metric, *labels])}", 400),
        )

    def _narrowed(self) -> str:
        labels = self.options.labels.items()
        return clean(" with " + ", ".join(f"{k}={v}" for k, v in labels), 200) if labels else ""


def _values(
    values: Mapping[Sample, float], channels: Mapping[Sample, tuple[str, float]]
) -> dict[str, float]:
    for sample, (name, _) in channels.items():
        if sample not in values:
            raise FaultError("gone", f"{name} is no longer on the page")
    return {name: values[sample] * factor for sample, (name, factor) in channels.items()}


def _wanted(options: PrometheusOptions) -> Sequence[Series]:
    """The series of the preset that are asked for, or the one that the plan describes."""
    asked = tuple(sorted(options.labels.items()))
    if options.preset is None:
        assert options.metric and options.unit and options.scope and options.method
        channel = options.scope if options.scope != "wall" else "wall"
        return (
            Series(options.metric, options.unit, channel, options.scope, options.method, asked),
        )
    known = PRESETS[options.preset]
    chosen = [s for s in known if (s.metric == options.metric if options.metric else s.usual)]
    return tuple(series.narrowed(asked) for series in chosen)
