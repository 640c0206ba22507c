"""Meter `prometheus`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from ullage.energy.base import FaultError
from ullage.energy.exporters import PRESETS, Series, Unit
from ullage.energy.exposition import Sample, samples
from ullage.energy.outside import OutsideMeter, OutsideOptions
from ullage.energy.scraping import Scrape
from ullage.printable import clean
from ullage.readings import Channel, Method, Observer, Scope

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
        known = [series.metric for series in PRESETS.get(self.preset or "", ())]
        if known and self.metric is not None and self.metric not in known:
            raise ValueError(f"{self.preset} has {', '.join(sorted(set(known)))}")
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
        """The address."""
        return clean(self.options.url)

    def describe(self) -> tuple[Channel, ...]:
        """Read the page once; each series that matches is a channel."""
        found, matched = self._page(), dict[Sample, tuple[str, float]]()
        channels: list[Channel] = []
        for series in self._wanted:
            matching = sorted(sample for sample in found if series.has(sample))
            for number, sample in enumerate(matching):
                name = f"{series.channel}-{number}" if len(matching) > 1 else series.channel
                matched[sample] = (name, _POWER_OR_ENERGY[series.unit][1])
                channels.append(self._channel(name, series, sample))
        if not channels:
            names = " or ".join(dict.fromkeys(series.metric for series in self._wanted))
            raise FaultError("nonsense", f"it has no {names}{self._narrowed()}")
        if len(channels) > _MOST:
            raise FaultError("nonsense", f"{len(channels)} series match; `labels` can name fewer")
        _values(found, matched)
        self._channels = matched
        return tuple(channels)

    def ask(self) -> Mapping[str, float]:
        """Read the page again."""
        return _values(self._page(), self._channels)

    def close(self) -> None:
        """Nothing is held between two requests."""

    def _page(self) -> dict[Sample, float]:
        return samples(self._scrape.text(), {s.metric for s in self._wanted})

    def _channel(self, name: str, series: Series, sample: Sample) -> Channel:
        told = [f"{key}={value}" for key, value in sample.labels if key in _TELLING]
        return Channel(
            name=name,
            kind=_POWER_OR_ENERGY[series.unit][0],
            method=series.method_of(sample),
            scope=series.scope,
            observer=self.options.observer,
            resolution=0,
            accuracy=self.options.accuracy,
            source=clean(f"{self.options.url} {' '.join([series.metric, *told])}", 400),
        )

    def _narrowed(self) -> str:
        labels = self.options.labels.items()
        return clean(" with " + ", ".join(f"{k}={v}" for k, v in labels), 200) if labels else ""


def _values(
    found: Mapping[Sample, float], channels: Mapping[Sample, tuple[str, float]]
) -> dict[str, float]:
    for sample, (name, _) in channels.items():
        if sample not in found:
            raise FaultError("gone", f"{name} is no longer on the page")
    return {name: found[each] * factor for each, (name, factor) in channels.items()}


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
