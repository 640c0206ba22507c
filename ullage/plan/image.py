"""The image that a plan asks for: built by us, built with more on it, or the user's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ullage.host import image
from ullage.plan.matrix import Matrix, artifacts, packages, require_entry_point
from ullage.plan.schema import ContainerImage, OwnImage, Plan


async def planned_image(
    plan: Plan, matrix: Matrix, on_progress: Callable[[str], None]
) -> image.Image:
    """What all environments run from, made or from the cache; of no plan with `image: host`.

    on_progress gets a few words on each step. Raises what `host.image` does, IMAGE_NO_ENTRY.
    """
    own = plan.image if isinstance(plan.image, OwnImage) else None
    taken = await _taken(plan, own, matrix, on_progress)
    return replace(taken, writable=own is not None and own.root == "writable")


async def environment_images(
    matrix: Matrix, on_progress: Callable[[str], None]
) -> dict[ContainerImage, image.Image]:
    """Those that environments have of their own."""
    images: dict[ContainerImage, image.Image] = {}
    for own in dict.fromkeys(e.image for e in matrix.environments if e.image is not None):
        taken = await image.from_container(own.oci, on_progress=on_progress)
        require_entry_point(matrix, taken.record())
        images[own] = replace(taken, writable=own.root == "writable")
    return images


async def _taken(
    plan: Plan, own: OwnImage | None, matrix: Matrix, on_progress: Callable[[str], None]
) -> image.Image:
    if own is not None and own.oci is not None:
        taken = await image.from_container(own.oci, on_progress=on_progress)
        require_entry_point(matrix, taken.record())
        return taken
    return await image.build(
        [*packages(matrix), *(own.packages if own else ())],
        artifacts(matrix),
        image.Additions(own.files, own.run) if own else None,
        snapshot=plan.snapshot,
        on_progress=on_progress,
    )
