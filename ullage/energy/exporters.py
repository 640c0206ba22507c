"""Which series of well-known Prometheus exporters tell power or energy, and of what."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

from ullage.energy.exposition import Sample
from ullage.readings import Method, Scope

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
        """With further labels."""
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
