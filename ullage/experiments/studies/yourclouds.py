"""The clouds that a study asks: those of a plan of the user's."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ullage.common.errors import STUDY_WANTS_CLOUD, UllageError
from ullage.experiments import cloud_check
from ullage.experiments.studies.plantexts import Clouds
from ullage.plan import matrix, schema

_NOT_TAKEN: Final = {"instances", "userland", "vary"}
"""Fields that the study's own plans say, or that must be allowed."""


def read(file: Path) -> Clouds:
    """Of that plan, as it is written; raises what reading one raises, and STUDY_WANTS_CLOUD."""
    plan, document = schema.load(file)
    clouds = cloud_check.in_clouds(matrix.resolve(plan, document))
    names = {cloud.name for cloud in clouds}
    if not names:
        raise UllageError(
            STUDY_WANTS_CLOUD, plan="what is to run", found=f"{file} has no environment in one"
        )
    written = document.data["environments"]
    for cloud in clouds:
        for field in sorted(_NOT_TAKEN & set(written[cloud.name])):
            raise UllageError(
                STUDY_WANTS_CLOUD,
                plan="what is to run",
                found=f"{cloud.name} in {file} has `{field}`, which a study does not take",
            )
    return Clouds(
        environments={name: written[name] for name in written if name in names},
        resources=document.data.get("resources", {}),
        file=file,
    )
