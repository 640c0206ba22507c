"""Clouds of this machine with real machines behind them, and what whole runs there share."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Protocol

import pytest

from testing.clouds import ec2, machine, openstack
from tests.environments.clouds import cloudkit
from tests.lab.real_openstack import plans
from ullage.common.quantities import memory_bytes

NAMES: Final = ("cloudstack", "ec2", "opennebula", "openstack")
SECRET: Final = b"s3cret-s3cret"
"""Of each of them."""


class Double(Protocol):
    """One of them, while it stands."""

    cpus: int
    wired: bool
    on_launch: Callable[[], object] | None

    @property
    def machines(self) -> Mapping[str, machine.CloudMachine]: ...

    def plan(self, **more: Any) -> dict[str, Any]: ...

    def left(self) -> list[str]: ...

    def vanish(self) -> None: ...


@contextmanager
def standing(name: str, directory: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Double]:
    """Up, with the credentials of nobody, which lie in the directory."""
    if name == "ec2":
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIANOTONE")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET.decode())
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        with ec2.cloud() as moto:
            yield moto
    elif name == "openstack":
        monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(directory / "clouds.yaml"))
        with openstack.cloud(directory) as stack:
            yield stack
    else:
        with cloudkit.standing_cloud(name, directory, monkeypatch) as fake:
            yield fake


def plan(cloud: Double, text: str = plans.PLAN, **more: Any) -> str:
    """A plan of the real OpenStack, with an instance of this cloud as large as this host."""
    text = _replaced(text, plans.CLOUD, json.dumps(cloud.plan(**more)))
    return _replaced(text, "{cpus: 1, memory: 512MiB}", json.dumps(_size(cloud)))


def elastic(cloud: Double, *, patience: str = "40m", kept: bool = False) -> str:
    """Its elastic plan in the same way; kept: beside instances that are had before the viewers."""
    own = cloud.plan(resources=_size(cloud))
    text = _replaced(plans.ELASTIC, plans.CLOUD.removesuffix("}"), json.dumps(own)[:-1])
    if kept:
        pool = own | {"nodes": {"min": 1, "max": 2, "allocation": "one_per_need"}}
        pool["price"] = {"per_hour": 0.02, "currency": "EUR"}
        text = _replaced(text, "nodes: {max: 2", f"  kept: {json.dumps(pool)}\nnodes: {{max: 2")
    return _replaced(text, "PATIENCE", patience)


def _size(cloud: Double) -> dict[str, int]:
    return {"cpus": cloud.cpus, "memory": memory_bytes()}


def _replaced(text: str, theirs: str, ours: str) -> str:
    assert theirs in text
    return text.replace(theirs, ours)


def inside(cloud: Double) -> list[bytes]:
    """Command lines of what runs in its instances."""
    lines = []
    for booted in list(cloud.machines.values()):
        for pid in machine.inside(booted.process.pid):
            try:
                lines.append(Path(f"/proc/{pid}/cmdline").read_bytes())
            except OSError:  # it has just ended
                continue
    return lines
