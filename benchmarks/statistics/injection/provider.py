"""Native instances that know their factor."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from benchmarks.statistics.injection.workloads import MARK, SHARED, Mark
from ullage.environments.base import Instance, InstanceSpec, Options
from ullage.environments.native import Native


class PacedOptions(Options):
    """What tells these environments apart."""

    percent: int = Field(100, description="of the nominal work")
    prepares: bool = Field(False, description="writes the files that all share")


class Paced(Native):
    """The product's native environment, but for a mark in its data directory."""

    name: ClassVar[str] = "native, work scaled"
    options_model: ClassVar[type[Options]] = PacedOptions

    def label(self) -> str:
        return f"native, work × {self.paced.percent / 100:.2f}"

    def treatments(self) -> dict[str, str]:
        return {"work": f"{self.paced.percent} %"}

    @property
    def paced(self) -> PacedOptions:
        """The options, as what they are."""
        assert isinstance(self.options, PacedOptions)
        return self.options

    async def create(self, spec: InstanceSpec) -> Instance:
        """Leave the mark, then as native."""
        (spec.data_dir.parent / SHARED).mkdir(exist_ok=True)
        mark = Mark(percent=self.paced.percent, prepares=self.paced.prepares)
        (spec.data_dir / MARK).write_text(mark.model_dump_json())
        return await super().create(spec)
