"""Root in an instance turns on its agent: the instance is removed all the same, and all of it."""

from __future__ import annotations

import asyncio

import pytest

from tests.environments import containerkit
from tests.support.peer import FLOOD
from ullage import environments
from ullage.common.errors import UllageError
from ullage.environments.agent.client import Command

pytestmark = pytest.mark.root


@pytest.mark.parametrize("provider", ["oci", "lxc"])
def test_a_stopped_agent_with_a_flooded_pipe_is_removed(provider: str) -> None:
    provider_type = environments.get(provider)

    async def scenario() -> None:
        async with containerkit.running(provider_type(provider_type.options_model())) as run:
            instance = await run.create()
            flood = await instance.agent.spawn(Command(("sh", "-c", FLOOD)))
            with pytest.raises(UllageError):
                await asyncio.wait_for(flood.wait(), 60)
            assert not instance.alive
            await asyncio.wait_for(instance.destroy(), 120)

    asyncio.run(scenario())
