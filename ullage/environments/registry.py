"""What the list of providers refuses at start."""

from __future__ import annotations

from typing import Final

from ullage.environments.base import Options, Provider
from ullage.registry import Registry, fields_fault

RESERVED: Final = frozenset({"provider", "instances", "neighbour", "price", "resources", "vary"})
"""Fields of an environment in the plan that are not its provider's."""


def _fault(provider: type[Provider]) -> str | None:
    if not isinstance(provider.host_image, bool):
        return f"host_image {provider.host_image!r} is not True or False"
    if not isinstance(provider.provision_s, int | float) or not provider.provision_s > 0:
        return f"provision_s {provider.provision_s!r} is not a number of seconds"
    return fields_fault("options_model", provider.options_model, Options, RESERVED)


REGISTRY: Final = Registry("provider", Provider, ("options_model",), _fault)
