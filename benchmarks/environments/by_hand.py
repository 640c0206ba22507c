"""A container with an agent as one would start it oneself: its own tool, and two calls of `ip`.

What takes no part in starting it is there before the clock runs: the bundle or the configuration
file, the directories, the control groups that LXC does not make itself.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final

from ullage.common.commands import attempt
from ullage.environments.base import InstanceSpec
from ullage.environments.containers import lxc, oci_spec, runtimes, seccomp
from ullage.environments.containers.base import container_id, remove_group
from ullage.host import disks
from ullage.host.cgroups import Group, Limits, cgroup_path
from ullage.host.network.bridge import Endpoint, Network
from ullage.host.network.iproute import NETNS_DIR

MAGIC: Final = b"ULLAGE-AGENT"
INSIDE: Final = "eth0"


class ByHand(ABC):
    """One container of an instance's specification, from its start until it is gone."""

    def __init__(self, spec: InstanceSpec) -> None:
        assert spec.image is not None and spec.network is not None
        self.spec = spec
        self.root = spec.image.root
        self.network: Network = spec.network
        self._agent: subprocess.Popen[bytes] | None = None

    async def prepare(self) -> None:
        """All that is there before the clock runs."""
        for directory in (self.spec.state_dir, self.spec.data_dir):
            directory.mkdir(parents=True)

    @abstractmethod
    def start(self) -> Sequence[str]:
        """Do what comes first; the command whose output is the agent's."""

    def until_it_speaks(self) -> float:
        """Seconds from the first command until the agent's first line."""
        began = time.perf_counter()
        self._agent = subprocess.Popen(
            self.start(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self._agent.stdout is not None
        line = self._agent.stdout.readline()
        took_s = time.perf_counter() - began
        if not line.startswith(MAGIC):
            raise RuntimeError(f"{self.spec.name}: no agent speaks, but {line!r}")
        return took_s

    async def remove(self) -> None:
        """It, its groups and its files."""
        if self._agent is not None:
            assert self._agent.stdin is not None
            self._agent.stdin.close()
            await asyncio.to_thread(self._agent.wait)
        await self.stop()
        for directory in (self.spec.state_dir, self.spec.data_dir):
            await asyncio.to_thread(disks.remove_tree, directory)

    @abstractmethod
    async def stop(self) -> None:
        """What its own tool does for that."""


class Oci(ByHand):
    """By `crun run` or `runc run`, in a namespace that `ip` has made."""

    def __init__(self, spec: InstanceSpec, runtime: str) -> None:
        super().__init__(spec)
        self._runtime = runtime
        self._netns = NETNS_DIR / f"{spec.tag}-{spec.name}"
        number = int(spec.name.rpartition("-")[2])
        self._device = f"{spec.tag}-h{number}"
        self._address = self.network.subnet[200 + number]

    async def prepare(self) -> None:
        await super().prepare()
        bundle = self.spec.state_dir / "bundle"
        bundle.mkdir()
        container = oci_spec.ContainerSpec(
            spec=self.spec,
            root=self.root,
            netns=self._netns,
            cgroup=cgroup_path(self.spec.tag, self.spec.name),
            seccomp=seccomp.load(oci_spec.CAPABILITIES),
            rootless=False,
        )
        (bundle / "config.json").write_text(json.dumps(oci_spec.config(container)))

    def start(self) -> Sequence[str]:
        name, device = self._netns.name, self._device
        _ip(
            ["-batch", "-"],
            f"netns add {name}",
            f"link add name {device} type veth peer name {INSIDE} netns {name}",
            f"link set dev {device} master {self.network.bridge} up",
        )
        _ip(
            ["-netns", name, "-batch", "-"],
            "link set dev lo up",
            f"address add {self._address}/{self.network.prefix} dev {INSIDE}",
            f"link set dev {INSIDE} up",
        )
        command = self._command("run", "--bundle", str(self.spec.state_dir / "bundle"))
        return [*command, container_id(self.spec)]

    def _command(self, *arguments: str) -> list[str]:
        hidden = self._runtime == "crun" and runtimes.hybrid()
        before = runtimes.hiding(self.spec.agent) if hidden else []
        manager = ["--cgroup-manager=cgroupfs"] if self._runtime == "crun" else []
        root = str(self.spec.state_dir / self._runtime)
        return [*before, self._runtime, "--root", root, *manager, *arguments]

    async def stop(self) -> None:
        command = [*self._command("delete", "--force"), container_id(self.spec)]
        await attempt(command)
        await remove_group(self.spec.tag, self.spec.name)
        await attempt(["ip", "link", "delete", "dev", self._device])
        await attempt(["ip", "netns", "delete", self._netns.name])


class Lxc(ByHand):
    """By `lxc-start`, which makes its own veth, and `lxc-attach`."""

    def __init__(self, spec: InstanceSpec) -> None:
        super().__init__(spec)
        self._held: Group | None = None
        self._endpoint: Endpoint | None = None

    async def prepare(self) -> None:
        await super().prepare()
        spec = self.spec
        self._endpoint = await self.network.reserve(spec.name)
        self._held = Group.create(spec.tag, f"{spec.name}.held", Limits(cpu_ids=spec.cpu_ids))
        (spec.state_dir / "lxc").mkdir()
        text = lxc.configuration(spec, self.root, self._endpoint)
        (spec.state_dir / "lxc.conf").write_text(text)

    def start(self) -> Sequence[str]:
        configuration = str(self.spec.state_dir / "lxc.conf")
        subprocess.run(self._lxc("lxc-start", "-d", "-f", configuration), check=True)
        clean = ["--clear-env", "--set-var", f"PATH={oci_spec.PATH}"]
        return self._lxc("lxc-attach", *clean, "--", oci_spec.AGENT, "serve")

    def _lxc(self, program: str, *arguments: str) -> list[str]:
        path = str(self.spec.state_dir / "lxc")
        return [program, "-P", path, "-n", container_id(self.spec), *arguments]

    async def stop(self) -> None:
        await attempt(self._lxc("lxc-stop", "-k"))
        for name in ("", ".monitor", ".pivot", ".held"):
            await remove_group(self.spec.tag, f"{self.spec.name}{name}")
        if self._endpoint is not None:
            await self.network.release(self._endpoint)


def available(kind: str) -> bool:
    """Is its tool installed?"""
    return shutil.which("lxc-start" if kind == "lxc" else kind) is not None


def of(kind: str, spec: InstanceSpec) -> ByHand:
    """By the kind of environment."""
    return Lxc(spec) if kind == "lxc" else Oci(spec, kind)


def _ip(arguments: Sequence[str], *lines: str) -> None:
    text = "".join(f"{line}\n" for line in lines)
    subprocess.run(["ip", *arguments], input=text, text=True, check=True)
