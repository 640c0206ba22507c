"""An instance that is gone, and a cloud that shows it later than we see it."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.environments import containerkit as kit
from ullage.common import errors
from ullage.common.cleanup import Undo
from ullage.environments.clouds import provider
from ullage.environments.clouds.calls import Calls
from ullage.environments.clouds.driver import Machine, State
from ullage.environments.clouds.provider import CloudInstance, NewInstance


def instance(states: list[State], *, alive: bool) -> CloudInstance:
    """The cloud says these of it, one after another, and the last for good."""

    def machine(identifier: str) -> Machine:
        state = states.pop(0) if len(states) > 1 else states[0]
        return Machine(identifier, "", "", state, f"{state}, as it says")

    driver: Any = SimpleNamespace(machine=machine, launch=None, title="a cloud")
    agent: Any = SimpleNamespace(clock_claims=SimpleNamespace(shared=False), closed=not alive)
    new = NewInstance(Machine("1", "", "", "running", ""), "127.0.0.1", agent, None)
    return CloudInstance(kit.bare_spec(), Calls(cast("Any", driver), "c-0"), new, Undo())


def test_it_is_shown_late() -> None:
    """EC2's double ended a machine before it said so, and the trial was told of a lost agent."""
    error = asyncio.run(instance(["running", "running", "failed"], alive=False).why_gone())
    assert error is not None
    assert error.kind is errors.CLOUD_VANISHED
    assert "failed, as it says" in error.message


def test_it_is_not_shown_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provider, "_SHOWN_S", 0.3)
    assert asyncio.run(instance(["running"], alive=False).why_gone()) is None


def test_whose_agent_lives_is_looked_at_once() -> None:
    states: list[State] = ["running", "failed"]
    assert asyncio.run(instance(states, alive=True).why_gone()) is None
    assert states == ["failed"]
