"""The cloud's life: prepared, started, stopped; and how a client gets in."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
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
        for source, target in ((SCRIPTS / "inside", "lab"), (self.place / "images", "images")):
            shutil.copytree(source, self.place / "root" / target, dirs_exist_ok=True)
        self.script("hold.sh")
        self.inside("bash", "/lab/start.sh")
        self.inside("python3", "/lab/cloud.py", "furnish")

    def stop(self) -> None:
        """Nothing of it runs any more."""
        self.script("stop.sh")

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
    stack.prepare()
    try:
        stack.start()
        yield stack
    finally:
        stack.stop()
