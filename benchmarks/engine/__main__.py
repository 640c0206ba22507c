"""Runs every benchmark of what ullage itself takes, one after the other."""

from __future__ import annotations

from benchmarks.engine import (
    agent_cost,
    agent_under_wine,
    analysis_speed,
    causes_cost,
    demo_time,
    first_answer,
    footprint,
    guest_causes_cost,
    live_strangers,
    own_image_time,
    scale,
    startup,
    trial_cost,
)
from benchmarks.figures import main_of_all

BENCHMARKS = {
    "footprint": footprint.measure,
    "startup": startup.measure,
    "trial_cost": trial_cost.measure,
    "analysis_speed": analysis_speed.measure,
    "agent_cost": agent_cost.measure,
    "agent_under_wine": agent_under_wine.measure,
    "demo_time": demo_time.measure,
    "first_answer": first_answer.measure,
    "own_image_time": own_image_time.measure,
    "causes_cost": causes_cost.measure,
    "guest_causes_cost": guest_causes_cost.measure,
    "live_strangers": live_strangers.measure,
    "scale": scale.measure,
}

if __name__ == "__main__":
    main_of_all(BENCHMARKS, __doc__ or "")
