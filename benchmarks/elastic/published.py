"""The published shares of blocked viewers (ElasticMovie, 2015), simulated anew.

The text has the arrivals (Poisson: 200 viewers at 0.1 a second, 400 at 0.2), the video (30 min),
the patience, the room of a node, and the time to allocate one by platform (mean, deviation). It
does not say three things, and each way to read them is simulated:

* what a viewer does that comes while a node is being allocated: it waits in line (*line*); it makes
  the front allocate one more, for itself (*own node*); or it is turned away at once, and only the
  one for whom the allocation began waits (*turned away*);
* whether a node is there when the first viewer comes (*warm*) or not (*cold*);
* whether OpenStack's 30 s of network contextualisation, left out of the printed times, were waited
  for (*with 30 s*).

The figures of a reading are means over seeds, each beside the published one; its distance is the
mean over the ten experiments of |simulated − published|, in percentage points. Which reading is
nearest is found, not chosen: nothing is fitted. The published figures are of 2015 and of other
machines; they are in `benchmarks/elastic/published/`, as they were transcribed.
"""

from __future__ import annotations

import csv
import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from benchmarks.figures import Figure, main, mean_interval
from ullage import _elastic

FACTS: Final = Path(__file__).parent / "published"
VIDEO_S: Final = 1800.0
CONTEXTUALISATION_S: Final = 30.0
ARRIVING: Final[dict[str, dict[str, Any]]] = {
    "line": {"allocation": "one_at_a_time"},
    "own node": {"allocation": "one_per_request"},
    "turned away": {"allocation": "one_at_a_time", "waiting_room": 1},
}


@dataclass(frozen=True)
class Experiment:
    """One row of the published table."""

    platform: str
    hypervisor: str
    patience_s: float
    clients: int
    rate_hz: float
    room: int
    blocked: float
    """As a share."""
    note: str

    @property
    def name(self) -> str:
        """`openstack kvm, 400 viewers, patience 60 s`."""
        head = f"{self.platform} {self.hypervisor}, {self.clients} viewers"
        return f"{head}, patience {self.patience_s:g} s"


@dataclass(frozen=True)
class Reading:
    """A way to read what the text leaves open."""

    arriving: str
    warm: bool
    contextualised: bool

    @property
    def name(self) -> str:
        """`line, cold, with 30 s`."""
        start = "warm" if self.warm else "cold"
        return f"{self.arriving}, {start}" + (", with 30 s" if self.contextualised else "")


READINGS: Final = tuple(
    Reading(*answers) for answers in itertools.product(ARRIVING, (False, True), (False, True))
)


def experiments() -> list[Experiment]:
    """The ten that were published."""
    with (FACTS / "elastic2015_blocking.csv").open(encoding="utf-8", newline="") as file:
        return [
            Experiment(
                row["platform"],
                row["hypervisor"],
                float(row["patience_s"]),
                int(row["clients"]),
                1 / float(row["interarrival_s"]),
                int(row["clients_per_vm"]),
                float(row["blocked_pct"]) / 100,
                row["note"],
            )
            for row in csv.DictReader(file)
        ]


def allocations() -> dict[tuple[str, str], tuple[float, float]]:
    """(platform, hypervisor) → mean and deviation of the time to allocate, seconds."""
    with (FACTS / "elastic2015_allocation.csv").open(encoding="utf-8", newline="") as file:
        return {
            (row["platform"], row["hypervisor"]): (float(row["mean_s"]), float(row["stddev_s"]))
            for row in csv.DictReader(file)
        }


def specification(
    experiment: Experiment, reading: Reading, times: dict[tuple[str, str], tuple[float, float]]
) -> dict[str, Any]:
    """What the simulator is given, without a seed."""
    mean, deviation = times[experiment.platform, experiment.hypervisor]
    stages = [{"name": "TaR", "time": {"kind": "normal", "mean_s": mean, "sd_s": deviation}}]
    if reading.contextualised and experiment.platform == "openstack":
        late = {"kind": "fixed", "s": CONTEXTUALISATION_S}
        stages.append({"name": "contextualisation", "time": late})
    application = {"room": experiment.room, "min_nodes": int(reading.warm)}
    return {
        "application": application | ARRIVING[reading.arriving],
        "policy": {"name": "elastic-movie"},
        "arrivals": {"kind": "poisson", "rate_hz": experiment.rate_hz},
        "sessions": experiment.clients,
        "watch": {"kind": "fixed", "s": VIDEO_S},
        "patience": {"kind": "fixed", "s": experiment.patience_s},
        "allocation": {"rows": [{"concurrent": 1, "stages": stages}]},
        "points": 0,
    }


def blocked(spec: dict[str, Any], seeds: int) -> list[float]:
    """The share of viewers who were not served, seed by seed."""
    shares = []
    for seed in range(1, seeds + 1):
        viewers = json.loads(_elastic.simulate(json.dumps(spec | {"seed": seed})))["viewers"]
        shares.append((viewers["blocked"] + viewers["turned_away"]) / viewers["requests"])
    return shares


def measure(quick: bool) -> list[Figure]:
    """How far each reading is, the nearest first, and then every experiment by every reading."""
    seeds = 10 if quick else 200
    published, times = experiments(), allocations()
    shares = {
        reading: [
            blocked(specification(experiment, reading, times), seeds) for experiment in published
        ]
        for reading in READINGS
    }
    return rows(published, shares)


def rows(
    published: Sequence[Experiment], shares: Mapping[Reading, Sequence[Sequence[float]]]
) -> list[Figure]:
    """Of the shares of each seed, by reading and experiment."""
    distances = {
        reading: 100 * fmean(map(_distance, published, results))
        for reading, results in shares.items()
    }
    nearest = sorted(shares, key=lambda reading: distances[reading])
    name = "PcBl, distance from the published"
    return [
        *(Figure(f"{name}: {reading.name}", distances[reading], "pp") for reading in nearest),
        *(
            _row(experiment, reading, values)
            for reading in nearest
            for experiment, values in zip(published, shares[reading], strict=True)
        ),
    ]


def _distance(experiment: Experiment, values: Sequence[float]) -> float:
    return abs(fmean(values) - experiment.blocked)


def _row(experiment: Experiment, reading: Reading, values: Sequence[float]) -> Figure:
    mean, low, high = mean_interval([100 * value for value in values])
    return Figure(
        f"PcBl, {reading.name}: {experiment.name}",
        mean,
        "%",
        None if low is None else max(0.0, low),
        high,
        peer="published",
        peer_value=100 * experiment.blocked,
        note=experiment.note,
    )


if __name__ == "__main__":
    main(measure, __doc__ or "")
