"""What each policy buys, and what it costs: viewers blocked and waiting, and nodes paid for.

Every policy meets the same seeds, and so the same viewers, in the simulator. A node has room for 40
viewers and takes 40 s to come; there is none at first. There are two demands:

* *steady*: a viewer each 5 s for four hours (Poisson);
* *flash crowd*: a viewer each 10 s for two hours, but two a second in five minutes of them.

They watch for 30 min and wait for 30 s. Where those who wait need several nodes, these come at the
same time (`one_per_need`). The figures are means over the seeds with t intervals; in the
note is the policy's less `elastic-movie`'s, seed by seed. Node time is of all nodes, from asked for
until gone, for each viewer that was served.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from benchmarks.figures import Figure, main, mean_interval
from ullage import _elastic

Json = Mapping[str, Any]

BASELINE: Final = "elastic-movie"
POLICIES: Final[dict[str, Json]] = {
    BASELINE: {"name": "elastic-movie"},
    "elastic-movie, unused: release": {"name": "elastic-movie", "unused": "release"},
    "spare, 1 node": {"name": "spare", "nodes": 1},
    "spare, 2 nodes": {"name": "spare", "nodes": 2},
    "hysteresis, 5 min": {"name": "hysteresis", "idle_s": 300},
    "threshold, 0.4 to 0.8": {"name": "threshold"},
    "predictor, 60 s ahead": {"name": "predictor"},
}
HOUR_S: Final = 3600.0
DEMANDS: Final[dict[str, Json]] = {
    "steady": {"arrivals": {"kind": "poisson", "rate_hz": 0.2}, "duration_s": 4 * HOUR_S},
    "flash crowd": {
        "arrivals": {
            "kind": "surge",
            "rate_hz": 0.1,
            "peak_hz": 2.0,
            "from_s": HOUR_S,
            "for_s": 300.0,
        },
        "duration_s": 2 * HOUR_S,
    },
}
COMING: Final = {"name": "TaR", "time": {"kind": "fixed", "s": 40.0}}
FIGURES: Final[dict[str, tuple[str, Callable[[Json], float]]]] = {
    "PcBl": ("%", lambda outcome: 100 * outcome["blocked"]),
    "wait, mean of all served": ("s", lambda outcome: _waited_s(outcome) / _served(outcome)),
    "node time of a served viewer": (
        "node·s",
        lambda outcome: outcome["whole"]["node_s"] / _served(outcome),
    ),
    "nodes asked for": ("1", lambda outcome: outcome["nodes"]["asked"]),
}


def specification(policy: Json, demand: Json) -> dict[str, Any]:
    """What the simulator is given, without a seed."""
    return {
        "application": {"room": 40, "allocation": "one_per_need"},
        "policy": dict(policy),
        "watch": {"kind": "fixed", "s": HOUR_S / 2},
        "patience": {"kind": "fixed", "s": 30.0},
        "allocation": {"rows": [{"concurrent": 1, "stages": [COMING]}]},
        "points": 0,
        **demand,
    }


def _served(outcome: Json) -> int:
    return int(outcome["viewers"]["at_once"] + outcome["viewers"]["waited"])


def _waited_s(outcome: Json) -> float:
    waited = outcome["viewers"]["waited"]
    return float(waited * outcome["wait"]["mean_s"]) if waited else 0.0


def simulated(policy: Json, demand: Json, seeds: int) -> dict[str, list[float]]:
    """Figure → its value for each seed."""
    spec = specification(policy, demand)
    outcomes = [
        json.loads(_elastic.simulate(json.dumps(spec | {"seed": seed})))
        for seed in range(1, seeds + 1)
    ]
    return {name: [of(outcome) for outcome in outcomes] for name, (_, of) in FIGURES.items()}


def measure(quick: bool) -> Iterator[Figure]:
    """A row for each figure of each policy, by demand."""
    seeds = 10 if quick else 200
    for demand, parameters in DEMANDS.items():
        every = {name: simulated(policy, parameters, seeds) for name, policy in POLICIES.items()}
        for figure, (unit, _) in FIGURES.items():
            base = every[BASELINE][figure]
            for name, values in every.items():
                of = f"{figure}, {demand}: {name}"
                yield _row(of, unit, values[figure], None if name == BASELINE else base)


def _row(name: str, unit: str, values: Sequence[float], base: Sequence[float] | None) -> Figure:
    mean, low, high = mean_interval(values)
    low = None if low is None else max(0.0, low)
    if base is None:
        return Figure(name, mean, unit, low, high)
    more, least, most = mean_interval([a - b for a, b in zip(values, base, strict=True)])
    between = "all equal" if least is None or most is None else f"{least:+.4g} to {most:+.4g}"
    return Figure(
        name,
        mean,
        unit,
        low,
        high,
        peer=BASELINE,
        peer_value=mean_interval(base)[0],
        note=f"{more:+.4g} {'pp' if unit == '%' else unit} ({between})",
    )


if __name__ == "__main__":
    main(measure, __doc__ or "")
