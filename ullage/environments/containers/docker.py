"""Containers by Docker, or by Podman, which takes the same arguments."""

from __future__ import annotations

import asyncio
import json
import resource
import shlex
from typing import Any, Final, Literal

from ullage.common.commands import CommandError, attempt, needed, run
from ullage.common.errors import HOST_NO_ANSWER, INSTANCE_NOT_STARTED, UllageError
from ullage.environments.agent.client import AgentClient
from ullage.environments.base import Instance, InstanceSpec, verify_limits
from ullage.environments.containers import oci_spec, runtimes
from ullage.environments.containers.base import (
    START_DEADLINE_S,
    Container,
    container_id,
    environment,
    group_of,
    remove_group,
    starting,
    thaw_if_there,
)
from ullage.host.cgroups import ROOT
from ullage.host.image import Image

_PACKAGES: Final = {"docker": "docker.io", "podman": "podman"}
_START: Final = {"docker": "`systemctl start docker`", "podman": "`podman info` says more"}
_IMPORT_TIMEOUT_S: Final = 600.0

PODMAN_NPROC: Final = 32768


class Docker:
    """`docker run` of the image, imported once for each digest."""

    def __init__(self, program: Literal["docker", "podman"]) -> None:
        self.label = program
        self._program: str = program
        self._info: dict[str, Any] = {}
        self._importing = asyncio.Lock()

    async def check(self) -> None:
        """HOST_MISSING when the program is not there, HOST_NO_ANSWER when its daemon is silent."""
        self._program = needed(self.label, _PACKAGES[self.label])
        try:
            self._info = json.loads(await self._run("info", "--format", "{{json .}}"))
            self._info["version"] = (await self._run("--version")).strip()
        except CommandError as error:
            raise UllageError(
                HOST_NO_ANSWER, what=self.label, reason=error.reason, command=_START[self.label]
            ) from error

    def treatments(self) -> dict[str, str]:
        """What differs from native on purpose."""
        return {
            "runtime": str(self._info.get("version", self.label)),
            "storage driver": str(self._info.get("Driver", "unknown")),
            "seccomp": _seccomp(self._info),
            "network": "veth on the run's bridge",
            "root": "imported image, read-only",
            "user namespace": "none",
            "capabilities": f"{self.label}'s default",
        }

    async def create(self, spec: InstanceSpec) -> Instance:
        """Run a container without a network, give it its veth, and check what the agent sees."""
        name = container_id(spec)
        async with starting(self.label, spec) as undo:
            if spec.image is None:
                raise UllageError(
                    INSTANCE_NOT_STARTED,
                    provider=self.label,
                    name=spec.name,
                    reason="it cannot run from the host's userland; `runtime: crun` can",
                )
            image = await self._imported(spec.image)
            spec.on_stage("copied", "")
            spec.on_stage("booting", "")
            # The container's cgroup goes with it; this is for the parent that it leaves empty.
            undo.push(remove_group, spec.tag, name)
            undo.push(self._remove, name)
            agent = await AgentClient.launch(
                self._run_command(spec, image),
                deadline_s=START_DEADLINE_S,
                stderr=spec.state_dir / f"{self.label}.log",
                env=environment(spec),
                name=spec.name,
            )
            undo.push(agent.bye)
            container = json.loads(await self._run("container", "inspect", name))[0]
            group = group_of(container["State"]["Pid"])
            undo.push(thaw_if_there, group)
            endpoint = None
            if spec.network is not None:
                endpoint = await spec.network.move_into(container["State"]["Pid"], spec.name)
                undo.push(spec.network.release, endpoint)
                spec.on_stage("addressed", endpoint.address)
            verify_limits(spec, agent.facts)
            return Container(spec, agent, group, endpoint.address if endpoint else None, undo)

    def _run_command(self, spec: InstanceSpec, image: str) -> list[str]:
        memory = str(spec.memory_bytes)
        quota = [] if spec.cpu_quota is None else [f"--cpus={spec.cpu_quota:g}"]
        return [
            self._program,
            *self._runtime(spec),
            "run",
            "--rm",
            *self._ulimits(),
            "--interactive",
            "--pull=never",
            f"--name={container_id(spec)}",
            f"--hostname={spec.name}",
            "--network=none",
            *([] if spec.image and spec.image.writable else ["--read-only"]),
            *self._parent(spec),
            f"--cpuset-cpus={oci_spec.cpu_list(spec.cpu_ids)}",
            *quota,
            f"--memory={memory}",
            f"--memory-swap={memory}",
            f"--shm-size={memory}",
            f"--tmpfs=/tmp:rw,exec,nosuid,nodev,mode=1777,size={memory}",
            f"--tmpfs=/run:rw,exec,nosuid,nodev,mode=755,size={memory}",
            f"--mount=type=bind,source={spec.data_dir},target=/data",
            f"--mount=type=bind,source={spec.agent},target={oci_spec.AGENT},readonly",
            f"--entrypoint={oci_spec.AGENT}",
            image,
            "serve",
        ]

    def _runtime(self, spec: InstanceSpec) -> list[str]:
        """Podman starts crun itself, and takes a path only."""
        if self.label != "podman" or not runtimes.hybrid():
            return []
        wrapper = spec.state_dir / "crun"
        words = [*runtimes.hiding(spec.agent), needed("crun", "crun")]
        wrapper.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n', encoding="utf-8")
        wrapper.chmod(0o700)
        return [f"--runtime={wrapper}", "--cgroup-manager=cgroupfs"]

    def _ulimits(self) -> list[str]:
        """Podman 4.3 asks for more than it may have where root lacks CAP_SYS_RESOURCE.

        Ours are what it may have; of processes it first leaves itself no more than PODMAN_NPROC.
        """
        if self.label != "podman":
            return []
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        _, processes = resource.getrlimit(resource.RLIMIT_NPROC)
        if not 0 <= processes <= PODMAN_NPROC:
            processes = PODMAN_NPROC
        return [f"--ulimit=nofile={soft}:{hard}", f"--ulimit=nproc={processes}:{processes}"]

    def _parent(self, spec: InstanceSpec) -> list[str]:
        """Our cgroup; where systemd keeps the cgroups, the parent must be one of its own."""
        if self._info.get("CgroupDriver") == "systemd":
            return []
        return [f"--cgroup-parent=/{ROOT}/{spec.tag}"]

    async def _remove(self, name: str) -> None:
        """The container; CommandError when it is still there then."""
        try:
            await run([self._program, "rm", "--force", name])
        except CommandError:
            listing = ["ps", "--all", "--quiet", "--filter", f"name=^{name}$"]
            if (await run([self._program, *listing])).strip():
                raise

    async def _imported(self, image: Image) -> str:
        """The image's name in the daemon's store."""
        name = f"ullage:{image.digest.removeprefix('sha256:')[:12]}"
        async with self._importing:
            if not await attempt([self._program, "image", "inspect", name]):
                await self._run("import", str(image.tar), name, timeout_s=_IMPORT_TIMEOUT_S)
        return name

    async def _run(self, *arguments: str, timeout_s: float = 30.0) -> str:
        return await run([self._program, *arguments], timeout_s=timeout_s)


def _seccomp(info: dict[str, Any]) -> str:
    options = [str(option) for option in info.get("SecurityOptions") or ()]
    profiles = [option for option in options if "seccomp" in option]
    return f"the daemon's ({profiles[0]})" if profiles else "the runtime's default"
