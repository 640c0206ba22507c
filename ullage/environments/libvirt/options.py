"""What a plan may say of a VM that libvirt makes."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from ullage.environments.qemu.options import QemuOptions

SYSTEM: Final = "qemu:///system"
_OTHERS: Final = {
    "lxc": "write `provider: lxc`",
    "xen": "write `provider: xen`",
    "test": "it makes nothing",
}
"""Drivers of libvirt that cannot carry an agent → what to do."""


def _of_qemu(uri: str) -> str:
    """The URI; ValueError unless libvirt's QEMU driver of the whole system stands behind it."""
    parts = urlsplit(uri)
    driver = parts.scheme.partition("+")[0]
    if driver != "qemu":
        reason = _OTHERS.get(driver, "ullage does not know it")
        raise ValueError(f"of libvirt's drivers only `qemu`: {driver or uri!r}: {reason}")
    if parts.path != "/system":
        raise ValueError("`qemu:///system`: VMs of one user have no tap and no limits")
    if parts.password:
        raise ValueError("a password does not belong into a plan")
    return uri


_OF_THE_DOMAIN: Final = frozenset(
    {"accel", "machine", "cpu_model", "disk", "boot", "modules", "aggregation"}
)
"""Fields of which a clone takes nothing."""

_OF_QEMU: Final = frozenset({"hugepages", "numa", "vcpus", "io_thread", "nested", "guest", "swap"})
"""Fields that say nothing to a domain yet."""

Uri = Annotated[
    str,
    StringConstraints(pattern=r"^[a-z+]+://[^\s\x00-\x1f\x7f]*$", max_length=500),
    AfterValidator(_of_qemu),
]


class LibvirtOptions(QemuOptions):
    """What a plan may say of a VM that libvirt makes: what `qemu` has, and where libvirtd is."""

    later: ClassVar[frozenset[str]] = QemuOptions.later | {"domain"}

    uri: Uri = Field(
        SYSTEM, description="where libvirtd is, on this host: also `qemu+ssh://localhost/system`"
    )
    domain: str | None = Field(
        None,
        pattern=r"^[^/\x00-\x1f\x7f]+$",
        max_length=200,
        description="a domain of yours, shut off, with QEMU's guest agent inside: each instance is"
        " a clone of it, its disks copied; left out: a domain from the image",
    )
    network: Literal["auto", "tap"] = Field("auto", description="on the run's bridge")

    @model_validator(mode="after")
    def _known_to_libvirt(self) -> LibvirtOptions:
        if self.disk.bus == "nvme":
            raise ValueError("libvirt has no NVMe disk to give a guest; write `provider: qemu`")
        return self

    @model_validator(mode="after")
    def _is_of_a_domain(self) -> LibvirtOptions:
        for name in sorted(_OF_QEMU):
            if getattr(self, name) != type(self).model_fields[name].default:
                raise ValueError(f"`{name}` is of `provider: qemu` alone")
        return self

    @model_validator(mode="after")
    def _a_clone_is_as_its_domain(self) -> LibvirtOptions:
        changed = self.model_fields_set & _OF_THE_DOMAIN
        if self.domain is not None and changed:
            raise ValueError(f"`{min(changed)}` is as the domain has it: leave it out")
        return self
