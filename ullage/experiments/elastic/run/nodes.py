"""Nodes: instances of a provider, with NGINX that streams the film."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ullage.common.errors import UllageError
from ullage.environments.provisioning import allocate
from ullage.environments.provisioning.allocate import Allocated, Application, Places
from ullage.runs.allocations import Step
from ullage.workloads import nginx

PORT: Final = 8080
PACKAGES: Final = ("nginx",)
PROGRAMS: Final = {"nginx": "nginx"}
_CONNECTIONS: Final = 4096
_WORDS_S: Final = 1.0

_PARTS: Final[dict[str, tuple[Step, Step]]] = {
    "TeF": ("asked", "chosen"),
    "TcI": ("chosen", "copied"),
    "TiI": ("copied", "up"),
    "application": ("up", "replied"),
    "contextualisation": ("kernel", "reached"),
    "furnishing": ("reached", "hello"),
}
"""Part of an allocation → the steps between which it lies."""


@dataclass
class StreamingNode:
    """An instance whose NGINX has answered: a `controller.ServingNode`."""

    allocated: Allocated
    address: str
    url: str
    machine: str = ""
    """That it stands on, as the plan calls it; empty: it names none."""

    @property
    def made_ns(self) -> int:
        """The provider was done with it."""
        return self.allocated.steps["up"]

    @property
    def serving_ns(self) -> int:
        """The film was there for those who ask."""
        return self.allocated.steps["replied"]

    @property
    def stages(self) -> dict[str, float]:
        """Parts of its allocation, in seconds."""
        steps = self.allocated.steps
        return {
            name: (steps[last] - steps[first]) / 1e9
            for name, (first, last) in _PARTS.items()
            if first in steps and last in steps
        }

    @property
    def steps(self) -> dict[str, int]:
        """Every instant of its making."""
        return {str(step): at_ns for step, at_ns in self.allocated.steps.items()}

    async def gone(self) -> str:
        """Wait until NGINX or the whole instance has ended; why."""
        application = self.allocated.application
        assert application is not None
        try:
            ended = await application.wait()
        except UllageError as error:
            return (await self._with_its_machine() or error).message
        how = f"status {ended.status}" if ended.signal is None else f"signal {ended.signal}"
        stderr = application.stderr[-300:].decode(errors="replace").strip()
        return f"its NGINX ended with {how}" + (f": {stderr}" if stderr else "")

    async def _with_its_machine(self) -> UllageError | None:
        """NODE_LOST where its machine has gone; the front does not wait long to hear which.

        Where the plan names no machine nobody is asked, and it hears at once: a cloud would be.
        """
        if not self.machine:
            return None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_WORDS_S):
                return await self.allocated.instance.why_gone()
        return None

    async def remove(self, limit_s: float) -> None:
        """Take the instance away. NODE_LOST where its machine has gone, when nothing is left."""
        await allocate.release(self.allocated, limit_s=limit_s)
        if self.allocated.instance.unseen is not None:
            raise self.allocated.instance.unseen


@dataclass(frozen=True)
class StreamingNodes:
    """Makes them, for one environment in one repetition: a `controller.Maker`."""

    where: Places
    cpus: float
    """Of a node."""
    prefix: str
    """Of their names: no other environment or repetition of the run has it."""
    film: Path

    def name(self, node: int, attempt: int) -> str:
        """`lxc-0r2-7`, and `lxc-0r2-7-2` at the second attempt."""
        again = f"-{attempt}" if attempt > 1 else ""
        return f"{self.prefix}-{node}{again}"

    def machine(self, name: str) -> str:
        """There is this one alone."""
        return ""

    async def make(self, name: str, limit_s: float) -> StreamingNode:
        """A node that streams; what `allocate.allocate` raises."""
        application = application_of(self.film, self.cpus, name)
        allocated = await allocate.allocate(
            self.where, name, application=application, limit_s=limit_s
        )
        address = f"{allocated.instance.address}:{PORT}"
        url = f"http://{address}{application.path}"
        return StreamingNode(allocated, address, url, self.machine(name))


def application_of(film: Path, cpus: float, name: str) -> Application:
    """NGINX, with nothing but the film, under the node's own name.

    An address may be given to another node when this one has died: who watched here must not go on
    there without having asked the front.
    """
    own = f"{name}.mp4"
    return Application(
        argv=nginx.ARGV,
        port=PORT,
        path=f"/{own}",
        files={"server.conf": _configuration(max(1, round(cpus)), own).encode(), own: film},
    )


def _configuration(processes: int, own: str) -> str:
    return nginx.configuration(
        PORT,
        ("root .;", "location / { return 404; }", f"location = /{own} {{ }}"),
        processes=processes,
        connections=_CONNECTIONS,
        content="video/mp4",
    )
