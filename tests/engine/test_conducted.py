"""A trial that the controller conducts: what its time is, and what is made before."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from ullage.engine.trial import Attempt
from ullage.host import clock
from ullage.workloads.base import Conducted


def test_what_is_made_ready_is_not_in_a_trials_time(tmp_path: Path) -> None:
    instants: list[int] = []
    places: list[object] = []

    async def make_ready(_: object, place: object) -> None:
        instants.append(clock.ordered_ns())
        places.append(place)

    async def conduct(_: object, place: object, label: str) -> str:
        places.append(place)
        return label

    workload = SimpleNamespace(make_ready=make_ready, conduct=conduct)
    attempt = Attempt(
        cast(Any, SimpleNamespace(node=lambda _: object())),
        cast(Any, SimpleNamespace(workload=workload, parameters=None)),
        cast(Any, SimpleNamespace(environment="lxc", trial="b000-t000")),
        tmp_path,
        seed=1,
        iterations=1,
    )
    asyncio.run(attempt._conduct(cast(Conducted[Any], workload)))
    ((began, ended), output) = attempt.conducted[0]
    assert instants[0] < began <= ended, "meters and energy are of what lies between"
    assert output.stdout == "b000-t000i0"
    assert places[0] is places[1], "what was made is known where it is used"
