"""The clouds that a study asks: those of a plan of the user's."""

from __future__ import annotations

from pathlib import Path

from ullage.common.errors import STUDY_WANTS_CLOUD, UllageError
from ullage.experiments import cloud_check
from ullage.experiments.studies.plantexts import Clouds
from ullage.plan import matrix, schema


def read(file: Path) -> Clouds:
    """Of that plan, as it is written; raises what reading one raises, and STUDY_WANTS_CLOUD."""
    plan, document = schema.load(file)
    names = {one.name for one in cloud_check.in_clouds(matrix.resolve(plan, document))}
    if not names:
        raise UllageError(
            STUDY_WANTS_CLOUD, plan="what is to run", found=f"{file} has no environment in one"
        )
    written = document.data["environments"]
    return Clouds(
        environments={name: written[name] for name in written if name in names},
        resources=document.data.get("resources", {}),
        file=file,
    )
