"""Meter `prometheus`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from http.client import HTTPResponse
from pathlib import Path
from typing import ClassVar, Final, Literal, NamedTuple, Self
from urllib.parse import urlsplit

from prometheus_client.parser import text_string_to_metric_families
from pydantic import Field, field_validator, model_validator

from ullage.common.text import clean
from ullage.meters.energy.base import READ_DEADLINE_S, FaultError
from ullage.meters.energy.remote import OutsideMeter, OutsideOptions, WebServer, body, checked_url
from ullage.runs.readings import Channel, Method, Observer, Scope


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
            for name, labels, value, *_ in family.samples:
                sample = Sample(name, tuple(sorted(labels.items())))
                if sample in values:
                    raise FaultError("nonsense", f"{name} stands twice with equal labels")
                values[sample] = float(value)
    except (ValueError, IndexError, KeyError) as error:
        raise FaultError("nonsense", "a line that is not of the exposition format") from error
    return values


def _metric(line: str) -> str:
    """What the line begins with, up to its labels or value."""
    return line.partition("{")[0].split(" ", 1)[0].split("\t", 1)[0]


ScrapedUnit = Literal["joules", "microjoules", "watts", "microwatts"]
SeriesLabels = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class MetricSeries:
    """Series of one metric, what they tell, and the labels by which they are chosen."""

    metric: str
    unit: ScrapedUnit
    channel: str
    """What the channel is called; with a number where several series match."""
    scope: Scope
    method: Method
    labels: SeriesLabels = ()
    usual: bool = True
    """Taken when the plan names the preset alone."""

    def has(self, sample: Sample) -> bool:
        """True when the sample is one of them.

        The kernel shows some packages again under `intel-rapl-mmio`, and node_exporter shows both.
        """
        if sample.metric != self.metric or not set(self.labels) <= set(sample.labels):
            return False
        return "intel-rapl-mmio" not in dict(sample.labels).get("path", "")

    def narrowed(self, labels: SeriesLabels) -> MetricSeries:
        return replace(self, labels=self.labels + labels)

    def method_of(self, sample: Sample) -> Method:
        """Kepler before 0.10 says in `source` when it had no counter and took a model."""
        source = dict(sample.labels).get("source", "rapl")
        if self.method == "measured" and self.metric.startswith("kepler_") and "rapl" not in source:
            return "estimated"
        return self.method


def _kepler_attributed(of: str, zone: str, scope: Scope = "guest") -> MetricSeries:
    metric = f"kepler_{of}_cpu_joules_total"
    return MetricSeries(metric, "joules", of, scope, "attributed", (("zone", zone),), usual=False)


PRESETS: Final[dict[str, tuple[MetricSeries, ...]]] = {
    # docs_src/references/metrics.md of scaphandre. The host is the sum of the packages and, where
    # RAPL counts it, their memory; or `psys` (docs_src/explanations/host_metrics.md).
    "scaphandre": (
        MetricSeries("scaph_host_energy_microjoules", "microjoules", "host", "package", "measured"),
        MetricSeries(
            "scaph_host_power_microwatts", "microwatts", "host", "package", "measured", usual=False
        ),
        MetricSeries(
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
        MetricSeries(
            "kepler_node_cpu_joules_total",
            "joules",
            "package",
            "package",
            "measured",
            (("zone", "package"),),
        ),
        MetricSeries(
            "kepler_node_cpu_joules_total",
            "joules",
            "memory",
            "memory",
            "measured",
            (("zone", "dram"),),
        ),
        MetricSeries(
            "kepler_node_package_joules_total", "joules", "package", "package", "measured"
        ),
        MetricSeries("kepler_node_dram_joules_total", "joules", "memory", "memory", "measured"),
        _kepler_attributed("vm", "package"),
        _kepler_attributed("container", "package"),
        _kepler_attributed("process", "package"),
    ),
    # collector/rapl_linux.go of node_exporter.
    "node-exporter": (
        MetricSeries("node_rapl_package_joules_total", "joules", "package", "package", "measured"),
        MetricSeries("node_rapl_dram_joules_total", "joules", "memory", "memory", "measured"),
    ),
}


MOST_BYTES: Final = 1 << 24
_HEADERS: Final = {
    "Accept": "text/plain;version=0.0.4",
    "Accept-Encoding": "identity",
    "Connection": "close",
    "User-Agent": "ullage",
}
_DENIED: Final = {401, 403, 407}
_MOST: Final = 16
_TELLING: Final = ("zone", "index", "path", "package", "mode", "source", "socket_id")
"""Labels that say which part of the machine it is; others may hold whole command lines."""
_POWER_OR_ENERGY: Final[dict[ScrapedUnit, tuple[Literal["power", "energy"], float]]] = {
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
    unit: ScrapedUnit | None = Field(None, description="of the metric, without a preset")
    scope: Scope | None = Field(None, description="of what it is, without a preset")
    method: Method | None = Field(None, description="how it comes about, without a preset")
    observer: Observer = Field("host", description="who looked: where the exporter runs")

    @field_validator("url")
    @classmethod
    def _plain(cls, url: str) -> str:
        checked_url(
            url, "http://127.0.0.1:8080/metrics", "they would be written down beside the readings"
        )
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

    options: PrometheusOptions
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
        self._server = WebServer(options.url, options.ca_file)
        self._series = _series(options)
        self._channels: dict[Sample, tuple[str, float]] = {}

    def where(self) -> str:
        return clean(self.options.url)

    def describe(self) -> tuple[Channel, ...]:
        """Read the page once; each series that matches is a channel."""
        values, matched = self._page(), dict[Sample, tuple[str, float]]()
        channels: list[Channel] = []
        for series in self._series:
            matching = sorted(sample for sample in values if series.has(sample))
            for number, sample in enumerate(matching):
                name = f"{series.channel}-{number}" if len(matching) > 1 else series.channel
                matched[sample] = (name, _POWER_OR_ENERGY[series.unit][1])
                channels.append(self._channel(name, series, sample))
        if not channels:
            names = " or ".join(dict.fromkeys(series.metric for series in self._series))
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
        return samples(self._text(), {series.metric for series in self._series})

    def _text(self) -> str:
        """The page, got anew each time, by a connection of its own. FaultError."""
        parts = urlsplit(self.options.url)
        target = parts._replace(scheme="", netloc="", fragment="").geturl() or "/"
        try:
            with (
                self._server.deadline(READ_DEADLINE_S),
                self._server.ask("GET", target, _HEADERS) as response,
            ):
                return _page(response)
        finally:
            self._server.hang_up()

    def _channel(self, name: str, series: MetricSeries, sample: Sample) -> Channel:
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


def _page(response: HTTPResponse) -> str:
    if response.status != 200:
        code = "denied" if response.status in _DENIED else "nonsense"
        to = f" to {response.headers['Location']}" if 300 <= response.status < 400 else ""
        raise FaultError(code, clean(f"status {response.status} {response.reason}{to}", 200))
    kind = response.headers.get_content_type()
    if response.headers.get("Content-Type") and kind != "text/plain":
        raise FaultError("nonsense", clean(f"a page of {kind}, not of metrics", 200))
    try:
        return body(response, MOST_BYTES).decode("utf-8")
    except UnicodeDecodeError as error:
        raise FaultError("nonsense", "a page that is no UTF-8") from error


def _values(
    values: Mapping[Sample, float], channels: Mapping[Sample, tuple[str, float]]
) -> dict[str, float]:
    for sample, (name, _) in channels.items():
        if sample not in values:
            raise FaultError("gone", f"{name} is no longer on the page")
    return {name: values[sample] * factor for sample, (name, factor) in channels.items()}


def _series(options: PrometheusOptions) -> tuple[MetricSeries, ...]:
    """The series of the preset that are asked for, or the one that the plan describes."""
    labels = tuple(sorted(options.labels.items()))
    if options.preset is None:
        assert options.metric and options.unit and options.scope and options.method
        channel = options.scope if options.scope != "wall" else "wall"
        return (
            MetricSeries(
                options.metric, options.unit, channel, options.scope, options.method, labels
            ),
        )
    chosen = [
        s
        for s in PRESETS[options.preset]
        if (s.metric == options.metric if options.metric else s.usual)
    ]
    return tuple(series.narrowed(labels) for series in chosen)
