"""What a plan says of a virtual machine on a Hyper-V host."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, model_validator

from ullage.common.quantities import Seconds
from ullage.environments.base import Options
from ullage.environments.clouds.keys import HostKey, LoginName

Word = Annotated[str, StringConstraints(pattern=r"^[^\x00-\x1f\x7f]{1,255}$")]
WindowsPath = Annotated[
    str,
    StringConstraints(
        pattern=r'^[A-Za-z]:(\\[^\x00-\x1f\\/:*?"<>|]{1,100}){1,16}$', max_length=200
    ),
]


class HypervOptions(Options):
    """Fields of a `hyperv` environment in the plan."""

    host: str = Field(
        pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.@:%-]{0,254}$",
        description="the Hyper-V host, as your ssh calls it: `Administrator@hv1`",
    )
    ssh_config: Path | None = Field(
        None, description="file of ssh's configuration for the host; left out: your own"
    )
    parent: WindowsPath = Field(
        description="disk there that each machine gets a differencing disk of; it is only read"
    )
    switch: Word = Field(description="virtual switch of the host; it must lead here")
    folder: WindowsPath = Field(
        "C:\\ProgramData\\ullage", description="where on the host the machines' own files stand"
    )
    generation: Literal[1, 2] = Field(2, description="1: BIOS, 2: UEFI")
    secure_boot: Literal["off", "windows", "linux"] = Field(
        "off", description="of generation 2: by which of Microsoft's templates, if any"
    )
    guest: Literal["linux", "windows"] = Field(
        "linux",
        description="what the parent disk holds; Windows runs the agent for Windows as it is, not"
        " the plan's image: `allow: [userland]`",
    )
    user: LoginName = Field(
        "root",
        description="whom ssh logs in as in the guest: root, or one whom sudo asks for no password",
    )
    key: Path = Field(description="file with the private key that the parent disk lets in")
    host_key: HostKey = Field(
        description="public host key of the parent disk's sshd: its ssh_host_ed25519_key.pub",
    )
    deadline_s: Seconds = Field(
        600.0, description="from the request until its agent answers, and for its removal"
    )

    @model_validator(mode="after")
    def _bios_boots_anything(self) -> HypervOptions:
        if self.generation == 1 and self.secure_boot != "off":
            raise ValueError("secure_boot is of generation 2")
        return self
