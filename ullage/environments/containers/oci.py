"""The OCI provider: containers as crun, Docker or Podman make them."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, get_args

from pydantic import Field

from ullage.common.cleanup import Undo
from ullage.common.commands import attempt, needed, run
from ullage.common.errors import INSTANCE_NOT_LIMITED, INSTANCE_NOT_STARTED, UllageError
from ullage.common.quantities import memory_bytes
from ullage.environments import layer
from ullage.environments.agent.client import AgentClient
from ullage.environments.base import (
    Instance,
    InstanceSpec,
    Options,
    ProcessOptions,
    Provider,
    verify_group,
    verify_limits,
)
from ullage.environments.containers import oci_spec, runtimes, seccomp
from ullage.environments.containers.base import (
    START_DEADLINE_S,
    Container,
    container_id,
    environment,
    remove_group,
    starting,
    thaw_if_there,
)
from ullage.environments.containers.docker import Docker
from ullage.environments.containers.runtimes import Platform
from ullage.environments.layer import Layer
from ullage.host import disks
from ullage.host.cgroups import Group, Limits, cgroup_path
from ullage.host.network.bridge import Endpoint

Store = Literal["docker", "podman"]

_WITH_STORE: Final = frozenset(get_args(Store))
_STORED: Final = {
    "docker": "a layer of the store's",
    "podman": "a layer of the store's, volatile: fsync does nothing there",
}
_NO_CGROUP: Final = "a plain user has no cgroup to set limits in"


class OciOptions(ProcessOptions):
    """Fields of an `oci` environment in the plan."""

    runtime: str = Field(
        "crun",
        pattern=r"^(crun|runc|youki|runsc|docker|podman|/[^\x00]+)$",
        description="what makes the container: `crun`, `runc`, `youki`, `runsc` (gVisor), `docker`,"
        " `podman`, or the path of one of the first four",
    )
    platform: Platform = Field(
        "systrap", description="how gVisor catches system calls; of `runsc` alone"
    )


class Oci(Provider):
    """A container after the OCI specifications: namespaces, a cgroup, a read-only root.

    `runtime: crun` (default), or `runc`, starts the container straight from the unpacked image,
    with what Docker would give it: its default capabilities, masked paths and, where the package
    golang-github-containers-common is installed, the default seccomp profile. Without that package
    no system call is filtered, and the report says `seccomp: none`.

    `runtime: docker` imports the image once and calls `docker run` with the same limits; the
    storage driver is then part of what is measured. It cannot run from the host's own userland
    (`image: host`). `runtime: podman` does the same with `podman
    run`, with our own limits of open files and processes (at most 32,768 of the latter).

    `runtime: runsc` is gVisor: a kernel of its own answers the system calls, which it catches by
    `platform`. Its processes are in the container's cgroup, but it tells programs inside of CPUs
    and memory as a machine does. Seen on crun 1.8, runc 1.1 and a runsc of 2026; `youki` by its
    documentation alone. Kata has no program that takes a bundle since its version 2.

    The network is a veth on the run's bridge. `/data` is a bind mount of a directory on the host's
    disk; `/tmp`, `/run` and `/dev/shm` are in memory and count against the memory limit.

    As a plain user crun runs rootless: one user id is mapped, the container shares the host's
    network, CPUs are limited by affinity, and a memory limit or a CPU quota is refused, as a plain
    user has no cgroup. A rootless container is never frozen.
    """

    name: ClassVar[str] = "oci"
    options_model: ClassVar[type[Options]] = OciOptions
    last_seen: ClassVar[str] = (
        "2026-11-29: crun 1.8.1, runc 1.1.5, gVisor on the lab's VM; Docker 20.10, Podman 4.3 there"
    )
    host_image: ClassVar[bool] = True

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        assert isinstance(options, OciOptions)
        store = next((name for name in get_args(Store) if name == options.runtime), None)
        self._engine: Bundles | Docker = (
            Bundles(options.runtime, options.platform) if store is None else Docker(store)
        )

    async def check(self) -> None:
        """HOST_MISSING when the runtime is not there, HOST_NO_ANSWER when it does not answer."""
        await self._engine.check()

    def own_copy(self) -> str | None:
        """Docker and Podman run from layers in a store of their own."""
        name = self._engine.label
        return f"{name} keeps images in a store of its own" if name in _WITH_STORE else None

    def writable_root(self) -> str:
        """Docker and Podman have theirs in their store."""
        return _STORED.get(self._engine.label) or super().writable_root()

    async def create(self, spec: InstanceSpec) -> Instance:
        """Start one container. INSTANCE_NOT_STARTED, LIMIT_NOT_APPLIED, INSTANCE_NOT_LIMITED."""
        return await self._engine.create(spec)

    def label(self) -> str:
        """`container (crun)`."""
        return f"container ({self._engine.label})"

    def treatments(self) -> dict[str, str]:
        """Runtime and version, seccomp, network, root, user namespace."""
        return self._engine.treatments()


class Bundles:
    """Containers by a runtime itself, straight from a `config.json` of ours."""

    def __init__(self, name: str, platform: Platform) -> None:
        self._name = name
        self._platform = platform
        self.runtime = runtimes.expected(name, platform)
        """What it is taken for by its name; after `check` what it is."""
        self._seccomp: dict[str, Any] | None = None

    @property
    def label(self) -> str:
        """What stands in the brackets."""
        return f"{self.runtime.title}, rootless" if _rootless() else self.runtime.title

    async def check(self) -> None:
        """HOST_MISSING when the runtime is not there, HOST_NO_ANSWER when it is none."""
        self.runtime = await runtimes.find(self._name, self._platform)
        self._seccomp = await asyncio.to_thread(seccomp.load, oci_spec.CAPABILITIES)

    def treatments(self) -> dict[str, str]:
        """What differs from native on purpose."""
        return {
            "runtime": f"{self.runtime.kind} {self.runtime.version}",
            **({"platform": self.runtime.platform} if self.runtime.own_kernel else {}),
            "seccomp": self._filter(),
            "network": "the host's" if _rootless() else "veth on the run's bridge",
            "root": "bind mount, read-only",
            "user namespace": "one user" if _rootless() else "none",
            "capabilities": "Docker's default",
        }

    def _filter(self) -> str:
        if self.runtime.own_kernel:
            return "gVisor's own"
        return "containers default profile" if self._seccomp else "none"

    async def create(self, spec: InstanceSpec) -> Instance:
        """Write the bundle, run it, and check what the agent sees inside."""
        async with starting(self.runtime.kind, spec) as undo:
            if _rootless():
                _refuse_limits(spec)
            endpoint: Endpoint | None = None
            netns: Path | None = None
            if spec.network is not None:
                endpoint = joined = await spec.network.namespace(spec.name)
                netns = joined.netns_path
                undo.push(spec.network.release, endpoint)
                spec.on_stage("addressed", joined.address)
            written = await _layer(spec, undo)
            bundle = await asyncio.to_thread(self._write_bundle, spec, netns)
            undo.push(self._delete, spec)
            limits = Limits(spec.cpu_ids, spec.cpu_quota, spec.memory_bytes)
            if self.runtime.own_kernel and not _rootless():
                # gVisor joins what is there; of itself it makes no group in an empty cpuset.
                Group.create(spec.tag, spec.name, limits)
            spec.on_stage("booting", "")
            agent = await AgentClient.launch(
                _over(
                    written,
                    spec,
                    self._command(spec, "run", "--bundle", str(bundle), container_id(spec)),
                ),
                deadline_s=START_DEADLINE_S,
                stderr=spec.state_dir / f"{self.runtime.kind}.log",
                env=environment(spec),
                name=spec.name,
            )
            undo.push(agent.bye)
            group = None
            if not _rootless():
                group = Group.find(spec.tag, spec.name)
                undo.push(thaw_if_there, group)
                if self.runtime.own_kernel:
                    for pid in group.pids():
                        verify_group(spec, limits, group, pid)
            verify_limits(spec, agent.facts, virtual_machine=self.runtime.own_kernel)
            address = endpoint.address if endpoint else None
            container = Container(spec, agent, group, address, undo)
            container.own_kernel = self.runtime.own_kernel
            return container

    def _write_bundle(self, spec: InstanceSpec, netns: Path | None) -> Path:
        bundle = spec.state_dir / "bundle"
        bundle.mkdir(exist_ok=True)
        if spec.image is None:
            root = bundle / "root"
            binds = oci_spec.host_root(root)
        else:
            root, binds = _root(spec), ()
        container = oci_spec.ContainerSpec(
            spec=spec,
            root=root,
            netns=netns,
            cgroup=cgroup_path(spec.tag, spec.name),
            seccomp=self._seccomp,
            rootless=_rootless(),
            host_binds=binds,
        )
        text = json.dumps(oci_spec.config(container), indent=1)
        (bundle / "config.json").write_text(text, encoding="utf-8")
        return bundle

    def _command(self, spec: InstanceSpec, *arguments: str) -> list[str]:
        """The argument list of a call of the runtime for this instance."""
        command: list[str] = []
        if _rootless():
            # Without a cgroup the affinity, which children inherit, is what keeps it in its place.
            command += [needed("taskset", "util-linux"), "-c", oci_spec.cpu_list(spec.cpu_ids)]
        if self.runtime.kind == "crun" and runtimes.hybrid():
            command += runtimes.hiding(spec.agent)
        root = spec.state_dir / self.runtime.kind
        return [*command, *self.runtime.command(root, rootless=_rootless()), *arguments]

    async def _delete(self, spec: InstanceSpec) -> None:
        await attempt(self._command(spec, "delete", "--force", container_id(spec)))
        for mounted in disks.points():
            if mounted.is_relative_to(spec.state_dir):  # gVisor's namespace without a network
                await run(["umount", "--lazy", "--no-canonicalize", str(mounted)])
        if not _rootless():
            await remove_group(spec.tag, spec.name)


def _root(spec: InstanceSpec) -> Path:
    """Of a container from an image; one that can be written is mounted for its runtime alone."""
    assert spec.image is not None
    return spec.state_dir / "root" if spec.image.writable else spec.image.root


async def _layer(spec: InstanceSpec, undo: Undo) -> Layer | None:
    if spec.image is None or not spec.image.writable:
        return None
    if _rootless():
        raise UllageError(
            INSTANCE_NOT_STARTED,
            provider="oci",
            name=spec.name,
            reason="a plain user cannot mount a root that can be written",
        )
    await asyncio.to_thread(_root(spec).mkdir)
    return await layer.over(spec, spec.image.root, undo)


def _over(written: Layer | None, spec: InstanceSpec, command: list[str]) -> list[str]:
    """The command, with the layer mounted in a mount namespace of its own: it ends with that."""
    if written is None:
        return command
    mount = 'mount -t overlay -o "$1" overlay "$2" && shift 2 && exec "$@"'
    namespace = [needed("unshare", "util-linux"), "--mount", "--", "sh", "-c", mount, "sh"]
    return [*namespace, written.options, str(_root(spec)), *command]


def _rootless() -> bool:
    return os.geteuid() != 0


def _refuse_limits(spec: InstanceSpec) -> None:
    """INSTANCE_NOT_LIMITED when the plan asks for a limit that only a cgroup can set."""
    limit = None
    if spec.memory_bytes < memory_bytes():
        limit = "memory"
    elif spec.cpu_quota is not None:
        limit = "a part of a CPU"
    if limit is not None:
        raise UllageError(
            INSTANCE_NOT_LIMITED, provider="crun", what=limit, name=spec.name, reason=_NO_CGROUP
        )
