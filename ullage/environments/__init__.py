"""The providers. A new one is a file in this folder and a line in this list."""

from __future__ import annotations

from ullage.environments.base import Instance, InstanceSpec, Options, Provider
from ullage.environments.registry import REGISTRY

PROVIDERS: tuple[type[Provider], ...] = REGISTRY.load(
    "native.Native",
    "oci.Oci",
    "lxc.Lxc",
    "qemu.Qemu",
)

__all__ = ["PROVIDERS", "Instance", "InstanceSpec", "Options", "Provider", "get", "names"]


def names() -> tuple[str, ...]:
    """The names that a plan may use."""
    return tuple(provider.name for provider in PROVIDERS)


def get(name: str) -> type[Provider]:
    """The provider of that name; KeyError when there is none."""
    for provider in PROVIDERS:
        if provider.name == name:
            return provider
    raise KeyError(name)
