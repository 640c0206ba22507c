"""`ullage image`: build a plan's image, make a disk of it that a cloud boots; the cache of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from ullage.cli.live.terminal import RunProgress
from ullage.cli.options import Json
from ullage.common.console import LineTable, escape, print_json, stderr, stdout
from ullage.common.errors import EXPORT_NO_IMAGE, EXPORT_SEVERAL_IMAGES, IMAGE_IN_USE, UllageError
from ullage.common.quantities import format_bytes, many
from ullage.common.signals import orderly
from ullage.environments.clouds.boot_disk import BootDisk, Cloud, export
from ullage.host import image, kept_images
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


@image_app.command("list")
def image_list(as_json: Json = False) -> None:
    """List the images in the cache: what was used last comes first."""
    images = kept_images.kept()
    if as_json:
        print_json(
            [
                {
                    "digest": one.digest,
                    "content": one.content,
                    "size": one.size,
                    "used_epoch_s": one.used_epoch_s,
                    "in_use": one.in_use,
                    "directory": str(one.place),
                }
                for one in images
            ]
        )
        return
    table = LineTable()
    table.add_column("image", no_wrap=True)
    table.add_column("made of")
    table.add_column("size", justify="right", no_wrap=True)
    table.add_column("last used", no_wrap=True)
    for one in images:
        used = f"{datetime.fromtimestamp(one.used_epoch_s):%Y-%m-%d %H:%M}"
        used = "in use" if one.in_use else used
        table.add_row(escape(one.name), escape(one.content), format_bytes(one.size), used)
    stdout.print(table)
    whole = format_bytes(sum(one.size for one in images))
    stderr.print(escape(f"{many(len(images), 'image')}, {whole} in {image.images_dir()}"))


@image_app.command("remove")
def image_remove(
    digests: Annotated[
        list[str] | None, typer.Argument(metavar="IMAGE", help="A digest, or how it begins.")
    ] = None,
    unused: Annotated[
        int | None,
        typer.Option(
            "--unused", metavar="DAYS", min=0, help="Those that no run has used for so long."
        ),
    ] = None,
) -> None:
    """Remove images from the cache. Who needs one again builds it, perhaps from newer packages."""
    if not digests and unused is None:
        raise typer.BadParameter("name an image, or say `--unused DAYS`; `ullage image list`")
    images = kept_images.kept()
    doomed = [one for digest in digests or () for one in kept_images.chosen(images, digest)]
    if unused is not None:
        before = time.time() - unused * 86400
        doomed += [one for one in images if one.used_epoch_s <= before and not one.in_use]
    doomed = list(dict.fromkeys(doomed))
    for one in doomed:
        if one.in_use:
            raise UllageError(IMAGE_IN_USE, image=one.name)
    for one in doomed:
        kept_images.remove(one)
    freed = format_bytes(sum(one.size for one in doomed))
    stderr.print(f"{many(len(doomed), 'image')} removed, {freed}")
