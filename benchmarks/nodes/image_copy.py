"""An image to a second machine, beside scp of the same file over the same link.

Ours does more: it unpacks the image there, computes the digest of what has come, and looks whether
it is the one that was promised. So it stands beside scp alone, and beside scp with `sha256sum` and
`tar` there. Pairs of one image each, on one disk.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import os
import secrets
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.figures import Figure, main, median_interval
from benchmarks.nodes.machines import Machines, machines
from ullage.host import claims
from ullage.host.image import Image
from ullage.nodes.reach.openssh import Target
from ullage.nodes.ssh import SshNode

LIMIT = 0.8
TAG = "u00be4c4"


def archive(place: Path, size: int) -> Image:
    """An image of one file that no compression makes smaller."""
    tar = place / f"{secrets.token_hex(4)}.tar"
    with tarfile.open(tar, "w") as files:
        member = tarfile.TarInfo("data")
        member.size = size
        files.addfile(member, io.BytesIO(os.urandom(size)))
    digest = hashlib.sha256(tar.read_bytes()).hexdigest()
    return Image(f"sha256:{digest}", root=place, tar=tar, packages={}, dir=place)


PLACE = "/var/cache/ullage"
"""Of the machine there: both ways write to one disk."""
UNPACK = f"cd {PLACE} && sha256sum image && mkdir root && tar -xf image -C root"
CLEAR = f"rm -rf {PLACE}/image {PLACE}/root {PLACE}/images && sync"


@dataclass(frozen=True)
class Pair:
    """Seconds that one image took, each way."""

    ours: float
    scp: float
    whole: float
    """scp, and what makes an image of it there."""


async def ours(node: SshNode, image: Image) -> float:
    """Seconds until the node has it."""
    began = time.perf_counter()
    await node.take(image)
    return time.perf_counter() - began


def theirs(lab: Machines, image: Image, control: Path) -> tuple[float, float]:
    """The same by scp, over an open connection as ours; by scp and what makes an image of it."""
    argv = ["scp", "-O", "-q", "-F", str(lab.config), "-o", f"ControlPath={control}"]
    began = time.perf_counter()
    subprocess.run([*argv, str(image.tar), f"root@node-b:{PLACE}/image"], check=True)
    copied = time.perf_counter() - began
    unpack = lab.ssh("node-b", UNPACK, control=control)
    subprocess.run(unpack, check=True, stdout=subprocess.DEVNULL)
    return copied, time.perf_counter() - began


def cleared(lab: Machines) -> None:
    """Nothing of an earlier one is there, nor waits for its disk."""
    subprocess.run(lab.ssh("node-b", CLEAR), check=True)


async def pairs(lab: Machines, size: int, times: int, place: Path, control: Path) -> list[Pair]:
    """In turn, and who is first in turn too."""
    node = SshNode("node-b", Target("node-b", "root@node-b", lab.config), TAG, "a benchmark", [])
    known = []
    try:
        await node.open()
        for number in range(times):
            image = archive(place, size)
            cleared(lab)
            if number % 2:
                own = await ours(node, image)
                cleared(lab)
            copied, whole = theirs(lab, image, control)
            if not number % 2:
                cleared(lab)
                own = await ours(node, image)
            known.append(Pair(own, copied, whole))
            image.tar.unlink()
    finally:
        await node.close()
    return known


def measure(quick: bool) -> Iterator[Figure]:
    """Bytes per second of ours, over those of scp."""
    size, times = (100_000_000, 4) if quick else (400_000_000, 8)
    claims.claim(TAG, "a benchmark")
    with (
        machines() as lab,
        tempfile.TemporaryDirectory(dir="/var/tmp") as place,
        lab.connected("node-b") as control,
    ):
        known = asyncio.run(pairs(lab, size, times, Path(place), control))
    own = [pair.ours for pair in known]
    name = f"an image of {size // 1_000_000} MB to a second node"
    for peer, others, reach in (
        ("scp", [pair.scp for pair in known], LIMIT),
        ("scp, sha256sum, tar", [pair.whole for pair in known], None),
    ):
        shares = median_interval([them / us for them, us in zip(others, own, strict=True)])
        yield Figure(
            f"{name}: speed over that of {peer}",
            shares.estimate,
            "",
            shares.low,
            shares.high,
            peer=peer,
            peer_value=1.0,
            reach="" if reach is None else f"at least {reach:g}",
            holds=None if reach is None else shares.estimate >= reach,
            note=f"medians: {size / median_interval(own).estimate / 1e6:.0f} MB/s by us, "
            f"{size / median_interval(others).estimate / 1e6:.0f} MB/s by {peer}",
        )


if __name__ == "__main__":
    main(measure, __doc__ or "")
