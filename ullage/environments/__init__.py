"""The providers. A new one is a file in this folder and a line in this list."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ullage.common.registry import Registry, fields_fault
from ullage.environments.base import Instance, InstanceSpec, Options, Provider

RESERVED: Final = frozenset(
    {"provider", "image", "instances", "neighbour", "place", "price", "resources", "vary"}
)
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
    "libvirt.provider.Libvirt",
    "xen.provider.Xen",
    "clouds.ec2.Ec2",
    "clouds.opennebula.OpenNebula",
    "clouds.cloudstack.CloudStack",
    "clouds.openstack.OpenStack",
    "command.UserCommand",
    "wine.Wine",
    "hyperv.provider.Hyperv",
    "ssh.provider.Ssh",
)

_VM: Final = "write `provider: qemu`: VMs by QEMU, with KVM where the host has it"
_THIS_HOST: Final = (
    "ullage measures the host that it runs on: log in there and start it, or write "
    "`provider: ssh`; of this host's, write `provider: native`"
)
_OCI: Final = "write `provider: oci` with `runtime: {}`"
OTHER_NAMES: Final[Mapping[str, str]] = {
    **{name: _OCI.format(name) for name in ("docker", "podman", "crun")},
    **dict.fromkeys(("container", "containerd", "runc"), "write `provider: oci`"),
    **dict.fromkeys(("kvm", "vm", "virtualbox"), _VM),
    **dict.fromkeys(
        ("lxd", "incus", "kubernetes", "k8s", "kubectl", "vagrant", "firecracker", "proxmox"),
        "write `provider: command`; docs/guide/any-platform.md has it whole",
    ),
    "windows": "write `provider: ssh`, `hyperv` or `wine`: docs/guide/windows.md",
    **dict.fromkeys(("host", "bare-metal", "baremetal", "chroot"), "write `provider: native`"),
    **dict.fromkeys(("gcp", "azure"), _THIS_HOST),
    "aws": "write `provider: ec2`",
    "hyper-v": "write `provider: hyperv`; docs/guide/hyper-v.md has it whole",
    "nova": "write `provider: openstack`",
}
"""What people call it that another provider does → how to have it."""

__all__ = [
    "OTHER_NAMES",
    "PROVIDERS",
    "Instance",
    "InstanceSpec",
    "Options",
    "Provider",
    "get",
    "names",
    "without_options",
]


def names() -> tuple[str, ...]:
    """The names that a plan may use."""
    return tuple(provider.name for provider in PROVIDERS)


def without_options() -> tuple[type[Provider], ...]:
    """Those of which a plan need say nothing more."""
    return tuple(
        provider
        for provider in PROVIDERS
        if not any(field.is_required() for field in provider.options_model.model_fields.values())
    )


def get(name: str) -> type[Provider]:
    """The provider of that name; KeyError when there is none."""
    for provider in PROVIDERS:
        if provider.name == name:
            return provider
    raise KeyError(name)
