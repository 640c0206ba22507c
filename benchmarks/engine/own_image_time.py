"""From `save` of a user's own image of 200 MB to environments that are ready, of every kind.

The image holds busybox and so many bytes of this host's `/usr/lib`; Podman has it and saves it, as
`docker save` does. ullage takes the archive with an empty cache, and starts a native root, a
container, a system container and an emulated VM from it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from benchmarks.figures import Figure, main, needs

SIZE: Final = 200_000_000
LIMIT_S: Final = 30.0
NAME: Final = "localhost/ullage-bench-own:1"
PLAN: Final = """\
name: own-image-time
baseline: native
image: {{oci: "docker-archive:{archive}"}}
resources: {{cpus: 1, memory: 256MiB}}
environments:
  native: {{provider: native}}
  container: {{provider: oci}}
  system: {{provider: lxc}}
  vm: {{provider: qemu, accel: tcg}}
workloads: [{{name: command, argv: [/bin/true]}}]
blocks: {{min: 1, max: 1}}
"""


@needs("podman", "busybox")
def measure(quick: bool) -> Iterator[Figure]:
    """Once; `quick` changes nothing."""
    with tempfile.TemporaryDirectory(prefix="ullage-bench-") as name:
        work = Path(name)
        size = _import(work)
        try:
            began = time.time()
            archive = work / "own.tar"
            _podman("save", "--quiet", "--format", "docker-archive", "--output", str(archive), NAME)
            saved_s = time.time() - began
            ready_s = _first_block(work, archive) - began
        finally:
            _podman("rmi", NAME)
        yield Figure(
            f"own image of {size / 1e6:.0f} MB: until all environments are ready",
            ready_s,
            "s",
            reach=f"at most {LIMIT_S:g} s",
            holds=ready_s <= LIMIT_S,
            note=f"{saved_s:.1f} s of it podman save; native, crun, LXC, VM (emulated)",
        )


def _import(work: Path) -> int:
    """Podman has the image; bytes of its files."""
    root = work / "root"
    (root / "bin").mkdir(parents=True)
    shutil.copy("/bin/busybox", root / "bin/true")
    size = 0
    for file in sorted(Path("/usr/lib").rglob("*")):
        if file.is_file() and not file.is_symlink() and size + file.stat().st_size <= SIZE:
            inside = root / file.relative_to("/")
            inside.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, inside)
            size += file.stat().st_size
    archive = work / "root.tar"
    subprocess.run(["tar", "-C", root, "-cf", archive, "."], check=True)
    _podman("import", "--quiet", str(archive), NAME)
    return size


def _first_block(work: Path, archive: Path) -> float:
    """Instant at which a run's first block began, s since 1970."""
    plan = work / "plan.yaml"
    plan.write_text(PLAN.format(archive=archive))
    argv = [sys.executable, "-m", "ullage", "run", str(plan), "--runs", str(work / "runs")]
    environment = {**os.environ, "ULLAGE_CACHE_DIR": str(work / "cache")}
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    (folder,) = (work / "runs").iterdir()
    events = [json.loads(line) for line in (folder / "journal.jsonl").read_text().splitlines()]
    block = next(event for event in events if event["event"] == "block")
    return float(block["epoch_ns"]) / 1e9 - float(block["seconds"])


def _podman(*words: str) -> None:
    subprocess.run(["podman", *words], check=True, capture_output=True)


if __name__ == "__main__":
    main(measure, __doc__ or "")
