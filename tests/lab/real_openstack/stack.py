"""The cloud's life: prepared, started, stopped; and how a client gets in."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ullage.common.files import cache_dir

SCRIPTS: Final = Path(__file__).parent
IP: Final = "10.99.0.2"
_PATIENCE_S: Final = 3600


@dataclass(frozen=True)
class Stack:
    """One cloud, in that folder."""

    place: Path

    def script(self, name: str, *arguments: str, timeout_s: float = _PATIENCE_S) -> str:
        """What one of the scripts prints; it must end well."""
        done = subprocess.run(
            ["bash", str(SCRIPTS / name), str(self.place), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            check=False,
            timeout=timeout_s,
        )
        print(f"{name}: {done.stdout[-4000:]}")
        assert done.returncode == 0, name
        return done.stdout

    def inside(self, *argv: str) -> str:
        """The same of a command on the cloud's machine."""
        return self.script("inside.sh", *argv)

    def prepare(self) -> None:
        """Root and guest image; what is there already stays."""
        self.place.mkdir(parents=True, exist_ok=True)
        self.script("root.sh")
        self.script("guest.sh")

    def start(self) -> None:
        """Everything up, with what a user needs."""
        self.script("configure.sh")
        shutil.copytree(SCRIPTS / "inside", self.place / "root/lab", dirs_exist_ok=True)
        images = self.place / "root/images"
        shutil.rmtree(images, ignore_errors=True)
        shutil.copytree(self.place / "images", images, copy_function=os.link)
        self.script("hold.sh")
        self.inside("bash", "/lab/start.sh")
        self.inside("python3", "/lab/cloud.py", "furnish")

    def stop(self) -> None:
        """Nothing of it runs any more: neither a process, nor its cable, nor the route."""
        pid = self.place / "pid"
        numbers = _process_numbers(int(pid.read_text())) if self._lives() else ""
        self.script("stop.sh")
        assert not pid.exists()
        assert not Path("/sys/class/net/oslab0").exists()
        left = [int(one.name) for one in Path("/proc").glob("[0-9]*")]
        assert not numbers or [one for one in left if _process_numbers(one) == numbers] == []

    def _lives(self) -> bool:
        """Is the number in `pid` that of its machine? After a boot it may be somebody else's."""
        pid = self.place / "pid"
        if not pid.exists():
            return False
        argv = ["nsenter", "-t", pid.read_text().strip(), "-u", "hostname"]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        return done.stdout == "oslab\n"

    def gigabytes(self) -> float:
        """What it takes of the disk."""
        done = subprocess.run(
            ["du", "-sB1", str(self.place)], capture_output=True, text=True, check=True
        )
        return int(done.stdout.split()[0]) / 1e9

    def clouds_yaml(self) -> Path:
        """For a client: `lab` has few rights, `lab-admin` all."""
        common = {
            "auth_url": f"http://{IP}:5000/v3",
            "password": "lab",
            "user_domain_name": "Default",
            "project_domain_name": "Default",
        }
        users = {"lab": ("guest", "guests"), "lab-admin": ("admin", "admin")}
        clouds = {
            name: {
                "auth": {**common, "username": user, "project_name": project},
                "region_name": "RegionOne",
            }
            for name, (user, project) in users.items()
        }
        file = self.place / "clouds.yaml"
        file.write_text(json.dumps({"clouds": clouds}))
        return file


@contextmanager
def started() -> Iterator[Stack]:
    """A cloud from its prepared folder (`ULLAGE_OPENSTACK`; else in the cache), or from nothing."""
    place = os.environ.get("ULLAGE_OPENSTACK")
    stack = Stack(Path(place) if place else cache_dir() / "openstack-lab")
    stack.stop()
    began = time.monotonic()
    stack.prepare()
    prepared = time.monotonic()
    try:
        stack.start()
        up = time.monotonic()
        print(f"prepared in {prepared - began:.0f} s, up in {up - prepared:.0f} s")
        yield stack
    finally:
        done = time.monotonic()
        stack.stop()
        stopped, whole = time.monotonic() - done, time.monotonic() - began
        print(f"stopped in {stopped:.0f} s; {whole:.0f} s in all, {stack.gigabytes():.1f} GB")


def _process_numbers(process: int) -> str:
    """The namespace of the process's own number; empty when it has ended."""
    with suppress(OSError):
        return str(Path(f"/proc/{process}/ns/pid").readlink())
    return ""
