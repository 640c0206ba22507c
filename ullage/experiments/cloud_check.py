"""Does a cloud do what a plan wants of it? One instance is made, greeted, and removed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from ullage.environments.agent.client import binary
from ullage.environments.base import InstanceSpec, Stage
from ullage.environments.clouds.provider import CloudProvider
from ullage.environments.placement import elsewhere
from ullage.host import claims, leftovers, paths
from ullage.host.image import Image
from ullage.plan.matrix import Environment, Matrix
from ullage.runs.records import Price

_STAGES: Final[Mapping[Stage, str]] = {
    "requested": "asked for an instance",
    "addressed": "it runs, at {}",
    "reached": "ssh lets us in",
}


@dataclass(frozen=True)
class Step:
    """What was reached, and when."""

    seconds: float
    """Since the beginning of the check."""
    words: str


@dataclass
class CloudCheck:
    """What was seen of one environment."""

    environment: str
    label: str = ""
    steps: list[Step] = field(default_factory=list)
    limits: str = ""
    """How many instances we may have, in the cloud's words."""
    lived_s: float = 0.0
    """From the request until the cloud did not name it any more."""
    clock_bound_ns: int | None = None
    rtt_ns: int | None = None

    def cost(self, price: Price | None) -> float | None:
        """What the instance cost, billed as its cloud does; None without a price."""
        return None if price is None else price.bill(self.lived_s)


def in_clouds(matrix: Matrix) -> list[Environment]:
    """The plan's environments that are instances of clouds, each once."""
    return [
        environment
        for environment in matrix.environments
        if isinstance(environment.provider, CloudProvider) and environment.again_of is None
    ]


async def check(
    environment: Environment, image: Image, on_step: Callable[[Step], None]
) -> CloudCheck:
    """Make one, see that it is what the plan asks for, remove it. The errors of clouds."""
    provider, began = environment.provider, time.monotonic()
    seen = CloudCheck(environment.key)

    def reached(words: str) -> None:
        seen.steps.append(Step(time.monotonic() - began, words))
        on_step(seen.steps[-1])

    def on_stage(stage: Stage, address: str) -> None:
        if stage in _STAGES:
            reached(_STAGES[stage].format(address))

    await provider.check()
    seen.label = provider.label()
    reached("the cloud answers, and has the flavor and the image")
    assert isinstance(provider, CloudProvider)
    seen.limits = await provider.limits()
    reached(f"what we may have there: {seen.limits or 'it does not say'}")
    tag = paths.new_tag()
    claims.claim(tag, "cloud check")
    try:
        requested = time.monotonic()
        instance = await provider.create(_spec(environment, image, tag, on_stage))
        try:
            seen.clock_bound_ns = instance.agent.clock.bound_ns
            seen.rtt_ns = instance.agent.rtt_ns
            own = provider.userland()
            inside = f"its userland is that {own}" if own else "the plan's image is inside"
            reached(f"its agent answers, and {inside}{'' if own else ', byte by byte'}")
        finally:
            await instance.destroy()
        seen.lived_s = time.monotonic() - requested
        reached("it is gone, and its key with it")
    finally:
        await asyncio.to_thread(_remove, tag)
    return seen


def _spec(
    environment: Environment, image: Image, tag: str, on_stage: Callable[[Stage, str], None]
) -> InstanceSpec:
    cpu_ids, quota = elsewhere(environment.resources)
    state, data = paths.state_dir(tag) / "check-0", paths.data_dir(tag) / "check-0"
    for directory in (state, data):
        directory.mkdir(parents=True)
    return InstanceSpec(
        tag=tag,
        name="check-0",
        cpu_ids=cpu_ids,
        cpu_quota=quota,
        memory_bytes=environment.resources.memory,
        image=image,
        agent=binary(),
        state_dir=state,
        data_dir=data,
        network=None,
        on_stage=on_stage,
    )


def _remove(tag: str) -> None:
    leftovers.remove(leftovers.find(tag, own=True))
