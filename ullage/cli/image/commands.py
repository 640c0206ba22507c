"""`ullage image`: build a plan's image, or make a disk of it that a cloud boots."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from ullage.cli.live.terminal import RunProgress
from ullage.cli.options import Json
from ullage.common.console import escape, print_json, stderr, stdout
from ullage.common.errors import EXPORT_NO_IMAGE, EXPORT_SEVERAL_IMAGES, UllageError
from ullage.common.signals import orderly
from ullage.environments.clouds.boot_disk import BootDisk, Cloud, export
from ullage.host import image
from ullage.plan import matrix, schema
from ullage.plan.image import environment_images, planned_image

image_app = typer.Typer(no_args_is_help=True)

PlanOption = Annotated[
    Path | None, typer.Argument(help="A plan; without one, what all workloads need.")
]


@image_app.callback()
def _image() -> None:
    """The root filesystem that every environment runs from."""


@image_app.command("build")
def image_build(file: PlanOption = None, as_json: Json = False) -> None:
    """Build the root filesystem for a plan (cached by what is in it)."""
    with orderly(), RunProgress(1) as progress:

        def step(text: str) -> None:
            progress.step(f"image: {text}")

        if file is None:
            building = image.build(matrix.packages(None), matrix.artifacts(None), on_progress=step)
        else:
            plan, document = schema.load(file)
            cells = matrix.resolve(plan, document)
            own = asyncio.run(environment_images(cells, step))
            if all(environment.image for environment in cells.environments):
                digests = {name.oci: taken.digest for name, taken in own.items()}
                if as_json:
                    print_json({"digests": digests})
                    return
                for name, digest in digests.items():
                    stdout.print(escape(f"{digest} {name}"), soft_wrap=True)
                return
            if plan.image == "host":
                stderr.print("`image: host`: the plan runs this host's own tools, nothing is built")
                if as_json:
                    print_json({"digest": "host"})
                return
            building = planned_image(plan, cells, step)
        built = asyncio.run(building)
    if as_json:
        print_json(
            {
                "digest": built.digest,
                "root": str(built.root),
                "packages": dict(built.packages),
                "hashes": dict(built.hashes),
                "snapshot": built.snapshot,
            }
        )
    else:
        stdout.print(escape(built.digest), soft_wrap=True)
        stdout.print(escape(str(built.root)), soft_wrap=True)


@image_app.command("export")
def image_export(
    file: PlanOption = None,
    *,
    cloud: Annotated[Cloud, typer.Option("--for", help="Who boots it.", show_default=False)],
    target: Annotated[Path, typer.Option("--to", help="The file.", show_default=False)],
    as_json: Json = False,
) -> None:
    """Write the image as a disk that a cloud boots: for `boot_image`, so that it is not sent."""
    with orderly(), RunProgress(1) as progress:

        def step(text: str) -> None:
            progress.step(f"image: {text}")

        disk = asyncio.run(_exported(file, cloud, target, step))
    if as_json:
        print_json(
            {"disk": str(disk.path), "format": disk.format, "image_partition": disk.image_digest}
        )
        return
    stdout.print(escape(f"{disk.path}: its image partition is {disk.image_digest}"), soft_wrap=True)
    stderr.print(escape(f"next: {disk.upload}"), soft_wrap=True)


async def _exported(
    file: Path | None, cloud: Cloud, target: Path, step: Callable[[str], None]
) -> BootDisk:
    if file is None:
        snapshot = None
        taken = await image.build(matrix.packages(None), matrix.artifacts(None), on_progress=step)
    else:
        plan, document = schema.load(file)
        snapshot = plan.snapshot
        if plan.image == "host":
            raise UllageError(EXPORT_NO_IMAGE, file=file)
        cells = matrix.resolve(plan, document)
        there = {one.image for one in cells.environments if one.provider.name == cloud}
        if len(there) > 1:
            raise UllageError(EXPORT_SEVERAL_IMAGES, file=file, cloud=cloud, count=len(there))
        own = there.pop() if there else None
        if own is None:
            taken = await planned_image(plan, cells, step)
        else:
            taken = (await environment_images(cells, step))[own]
    return await export(taken, cloud, target, snapshot=snapshot, on_progress=step)
