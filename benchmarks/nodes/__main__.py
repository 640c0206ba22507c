"""Runs every benchmark of nodes, one after the other."""

from __future__ import annotations

from benchmarks.figures import main_of_all
from benchmarks.nodes import clock_links, fleet, image_copy, many_nodes, start_spread, trial_cost

BENCHMARKS = {
    "trial_cost": trial_cost.measure,
    "start_spread": start_spread.measure,
    "clock_links": clock_links.measure,
    "image_copy": image_copy.measure,
    "fleet": fleet.measure,
    "many_nodes": many_nodes.measure,
}

if __name__ == "__main__":
    main_of_all(BENCHMARKS, __doc__ or "")
