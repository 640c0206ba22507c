"""A container's `config.json`, the host's userland as its root, and what is hidden from crun."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.environments import containerkit as kit
from ullage.environments.containers import base, oci_spec, runtimes


def test_config_sets_every_limit() -> None:
    spec = kit.bare_spec(cpu_ids=(0, 2), cpu_quota=1.5, memory_bytes=64 * kit.MIB)
    config = oci_spec.config(
        oci_spec.ContainerSpec(
            spec=spec,
            root=Path("/image"),
            netns=Path("/run/netns/x"),
            cgroup="/ullage/u0000000/c-0",
            seccomp=None,
            rootless=False,
        )
    )
    linux = config["linux"]
    assert linux["cgroupsPath"] == "/ullage/u0000000/c-0"
    assert linux["resources"]["cpu"] == {"cpus": "0,2", "quota": 150_000, "period": 100_000}
    assert linux["resources"]["memory"] == {"limit": 64 * kit.MIB, "swap": 64 * kit.MIB}
    assert {"type": "network", "path": "/run/netns/x"} in linux["namespaces"]
    assert "seccomp" not in linux
    assert config["root"] == {"path": "/image", "readonly": True}
    assert json.loads(json.dumps(config)) == config


def test_config_of_a_rootless_container_asks_for_nothing_that_needs_root() -> None:
    config = oci_spec.config(
        oci_spec.ContainerSpec(
            spec=kit.bare_spec(),
            root=Path("/image"),
            netns=None,
            cgroup="/none",
            seccomp=None,
            rootless=True,
        )
    )
    linux = config["linux"]
    assert {"type": "user"} in linux["namespaces"]
    assert not any(namespace["type"] == "network" for namespace in linux["namespaces"])
    assert "resources" not in linux
    assert linux["uidMappings"] == [{"containerID": 0, "hostID": os.geteuid(), "size": 1}]
    assert not any(mount["type"] in {"sysfs", "cgroup"} for mount in config["mounts"])


def test_the_hosts_root_keeps_links_and_may_be_made_twice(tmp_path: Path) -> None:
    binds = oci_spec.host_root(tmp_path / "root")
    assert oci_spec.host_root(tmp_path / "root") == binds
    assert Path("/usr") in binds
    assert not {Path("/proc"), Path("/sys"), Path("/dev"), Path("/tmp")} & set(binds)
    for entry in Path("/").iterdir():
        if entry.is_symlink():
            assert (tmp_path / "root" / entry.name).readlink() == entry.readlink()
    assert (tmp_path / "root/ullage/agent").is_file()


@pytest.mark.root
def test_the_v2_tree_of_a_hybrid_host_is_hidden_from_the_program_only(agent_binary: Path) -> None:
    def mounts(*command: str) -> str:
        return subprocess.run(
            [*command, "cat", "/proc/self/mounts"], capture_output=True, text=True, check=True
        ).stdout

    if not runtimes.UNIFIED.is_dir():
        pytest.skip("not a hybrid host")
    hidden = f"none {runtimes.UNIFIED} tmpfs"
    assert hidden in mounts(*runtimes.hiding(agent_binary))
    assert hidden not in mounts()


@pytest.mark.root
def test_the_group_of_a_process_is_where_it_is() -> None:
    group = base.group_of(os.getpid())
    assert group.directories
    assert os.getpid() in group.pids()
