"""The providers. A new one is a file in this folder and a line in this list."""

from __future__ import annotations

from typing import Final

from ullage.common.registry import Registry, fields_fault
from ullage.environments.base import Instance, InstanceSpec, Options, Provider

RESERVED: Final = frozenset({"provider", "instances", "neighbour", "price", "resources", "vary"})
"""Fields of an environment in the plan that are not its provider's."""


def _fault(provider: type[Provider]) -> str | None:
    if not isinstance(provider.host_image, bool):
        return f"host_image {provider.host_image!r} is not True or False"
    if not isinstance(provider.provision_s, int | float) or not provider.provision_s > 0:
        return f"provision_s {provider.provision_s!r} is not a number of seconds"
    return fields_fault("options_model", provider.options_model, Options, RESERVED)


REGISTRY: Final = Registry("provider", Provider, ("options_model",), _fault)


PROVIDERS: tuple[type[Provider], ...] = REGISTRY.load(
    "native.Native",
    "containers.oci.Oci",
    "containers.lxc.Lxc",
    "qemu.provider.Qemu",
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
