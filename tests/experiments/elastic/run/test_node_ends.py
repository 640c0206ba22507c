"""Why a node that streamed does so no more, and whom it is asked of."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.experiments.elastic.run.nodes import StreamingNode

CLOSED = UllageError(errors.AGENT_LOST, agent="n-0", reason="it closed its channel")
GONE = UllageError(errors.NODE_LOST, node="a", reason="its cable was pulled")


class CutOff:
    """An instance, and the application in it, whose channel has closed."""

    looks = 0

    async def wait(self) -> None:
        raise CLOSED

    async def why_gone(self) -> UllageError:
        self.looks += 1
        return GONE


def ending(machine: str) -> tuple[str, int]:
    cut = CutOff()
    allocated: Any = SimpleNamespace(instance=cut, application=cut)
    node = StreamingNode(allocated, "10.213.1.2:8080", "http://10.213.1.2:8080/", machine)
    return asyncio.run(node.gone()), cut.looks


def test_one_that_went_with_its_machine_says_so() -> None:
    assert ending("a") == (GONE.message, 1)


def test_where_the_plan_names_no_machine_the_front_hears_at_once() -> None:
    """A cloud that is asked first answers when it likes."""
    assert ending("") == (CLOSED.message, 0)
