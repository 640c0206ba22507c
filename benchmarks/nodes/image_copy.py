"""An image to a second machine, beside scp of the same file over the same link.

Ours does more: it unpacks the image there, computes the digest of what has come, and looks whether
it is the one that was promised. So it stands beside scp alone, and beside scp with `sha256sum` and
`tar` there.
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


async def sent(lab: Machines, images: list[Image]) -> list[float]:
    """Seconds that each took until the node has it."""
    node = SshNode("node-b", Target("node-b", "root@node-b", lab.config), TAG, "a benchmark", [])
    seconds = []
    try:
        await node.open()
        for image in images:
            began = time.perf_counter()
            await node.take(image)
            seconds.append(time.perf_counter() - began)
    finally:
        await node.close()
    return seconds


UNPACK = (
    "sha256sum /tmp/image && rm -rf /tmp/root && mkdir /tmp/root && tar -xf /tmp/image -C /tmp/root"
)


def copied(lab: Machines, images: list[Image]) -> tuple[list[float], list[float]]:
    """The same by scp; by scp and what makes an image of it."""
    copies, wholes = [], []
    for image in images:
        argv = ["scp", "-O", "-q", "-F", str(lab.config), str(image.tar), "root@node-b:/tmp/image"]
        began = time.perf_counter()
        subprocess.run(argv, check=True)
        copies.append(time.perf_counter() - began)
        subprocess.run(lab.ssh("node-b", UNPACK), check=True, stdout=subprocess.DEVNULL)
        wholes.append(time.perf_counter() - began)
    return copies, wholes


def measure(quick: bool) -> Iterator[Figure]:
    """Bytes per second of ours, over those of scp."""
    size, times = (100_000_000, 3) if quick else (400_000_000, 7)
    claims.claim(TAG, "a benchmark")
    with machines() as lab, tempfile.TemporaryDirectory(dir="/var/tmp") as place:
        images = [archive(Path(place), size) for _ in range(times)]
        copies, wholes = copied(lab, images)
        ours = asyncio.run(sent(lab, images))
    name = f"an image of {size // 1_000_000} MB to a second node"
    for peer, theirs, reach in (("scp", copies, LIMIT), ("scp, sha256sum, tar", wholes, None)):
        shares = median_interval([them / us for them, us in zip(theirs, ours, strict=True)])
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
            note=f"medians: {size / median_interval(ours).estimate / 1e6:.0f} MB/s by us, "
            f"{size / median_interval(theirs).estimate / 1e6:.0f} MB/s by {peer}",
        )


if __name__ == "__main__":
    main(measure, __doc__ or "")
