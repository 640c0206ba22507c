"""The studies. A new one is a folder here and a line in this list."""

from __future__ import annotations

from ullage.common.errors import STUDY_UNKNOWN, UllageError
from ullage.common.text import nearest
from ullage.experiments.studies.base import Study
from ullage.experiments.studies.registry import REGISTRY

STUDIES: tuple[type[Study], ...] = REGISTRY.load(
    "cmu_overhead.CmuOverhead",
    "elastic_clock.ElasticClock",
    "flash_energy.FlashEnergy",
    "mpi_degradation.MpiDegradation",
    "network_pipeline.NetworkPipeline",
)

__all__ = ["STUDIES", "Study", "get"]


def get(name: str) -> Study:
    """The study of that name; STUDY_UNKNOWN with the nearest when there is none."""
    for study in STUDIES:
        if study.name == name:
            return study()
    suggestion = nearest(name, (study.name for study in STUDIES))
    raise UllageError(STUDY_UNKNOWN, found=repr(name), suggestion=suggestion)
