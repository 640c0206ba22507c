"""The film: a clip of the right length and bitrate, made once and kept in the cache.

With ffmpeg it is real: a moving test picture in H.264, filled up to a constant rate, in an MP4 file
whose index comes first. Without, it is as many bytes as such a clip has, the same for the same
size: NGINX and the viewers do the same with either, as nobody decodes them.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from ullage.common.commands import CommandError, needed, run
from ullage.common.errors import ELASTIC_NO_CLIP, UllageError
from ullage.common.files import cache_dir, file_lock, sha256_of

_RECIPE: Final = 1
_MEBIBYTE: Final = 1 << 20
_FRAMES_A_SECOND: Final = 25
_LEAST_H264_BPS: Final = 50_000
"""Below it x264 cannot keep the rate, whatever the picture."""


@dataclass(frozen=True)
class Clip:
    """A file to stream."""

    file: Path
    kind: Literal["h264", "bytes"]
    sha256: str
    size: int
    """Bytes."""
    made_by: str


async def make(
    length_s: float,
    bitrate_bps: float,
    generate: Literal["auto", "h264", "bytes"],
    on_progress: Callable[[str], None],
) -> Clip:
    """The clip, from the cache when it was made before.

    HOST_MISSING when `h264` is asked for and ffmpeg is not there; ELASTIC_NO_CLIP.
    """
    if generate == "h264":
        needed("ffmpeg", "ffmpeg")
    real = generate == "h264" or (
        generate == "auto" and shutil.which("ffmpeg") is not None and bitrate_bps > _LEAST_H264_BPS
    )
    kind: Literal["h264", "bytes"] = "h264" if real else "bytes"
    recipe = f"{_RECIPE}/{kind}/{length_s!r}/{bitrate_bps!r}"
    folder = cache_dir() / "clips"
    file = folder / f"{hashlib.sha256(recipe.encode()).hexdigest()[:24]}.{kind}"
    try:
        await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
        async with file_lock(file.with_suffix(".lock")):
            if not await asyncio.to_thread(file.exists):
                on_progress("making the film (once, then cached)")
                await _make(file, kind, length_s, bitrate_bps)
        digest = await asyncio.to_thread(sha256_of, file)
    except (OSError, CommandError) as error:
        raise UllageError(ELASTIC_NO_CLIP, reason=error) from error
    made_by = await _version() if real else "random bytes of a fixed seed"
    return Clip(file, kind, digest, file.stat().st_size, made_by)


async def _make(file: Path, kind: str, length_s: float, bitrate_bps: float) -> None:
    with tempfile.TemporaryDirectory(dir=file.parent, prefix=".new-") as name:
        clip_file = Path(name) / "clip.mp4"
        if kind == "h264":
            await run(_argv(clip_file, length_s, bitrate_bps), timeout_s=600 + 20 * length_s)
        else:
            size = max(1, round(length_s * bitrate_bps / 8))
            await asyncio.to_thread(_write_bytes, clip_file, size)
        clip_file.rename(file)


def _argv(clip_file: Path, length_s: float, bitrate_bps: float) -> list[str]:
    rate = str(round(bitrate_bps))
    return [
        needed("ffmpeg", "ffmpeg"),
        *("-nostdin", "-hide_banner", "-loglevel", "error", "-y"),
        *("-f", "lavfi", "-i", f"testsrc2=size=640x360:rate={_FRAMES_A_SECOND}"),
        *("-t", f"{length_s:.6f}"),
        *("-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p"),
        *("-b:v", rate, "-minrate", rate, "-maxrate", rate, "-bufsize", rate),
        *("-x264-params", "nal-hrd=cbr:force-cfr=1"),
        *("-movflags", "+faststart", str(clip_file)),
    ]


def _write_bytes(file: Path, size: int) -> None:
    """Bytes that no link can compress."""
    source = random.Random(_RECIPE)
    with file.open("wb") as out:
        for start in range(0, size, _MEBIBYTE):
            out.write(source.randbytes(min(_MEBIBYTE, size - start)))


async def _version() -> str:
    first, _, _ = (await run([needed("ffmpeg", "ffmpeg"), "-version"])).partition("\n")
    return " ".join(first.split()[:3])[:80]
