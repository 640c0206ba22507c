"""What a plan says of a machine that one reaches by ssh."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from ullage.common.quantities import Seconds
from ullage.environments.base import Options
from ullage.environments.clouds.keys import HostKey, LoginName


class SshOptions(Options):
    """Fields of an `ssh` environment in the plan."""

    host: str = Field(
        pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,253}$",
        description="the machine's name or IPv4 address; your own ssh configuration has no say",
    )
    port: int = Field(22, ge=1, le=65535, strict=True, description="of its sshd")
    user: LoginName = Field(
        "root",
        description="whom ssh logs in as: on Linux root, or one whom sudo asks for no password",
    )
    key: Path = Field(description="file with the private key that it lets in")
    host_key: HostKey = Field(
        description="its public host key, `ssh-keyscan HOST` without the first word: no other is"
        " spoken to",
    )
    system: Literal["linux", "windows"] = Field(
        "linux",
        description="what runs there; Windows runs the agent for Windows as it is, not the plan's"
        " image: `allow: [userland]`",
    )
    deadline_s: Seconds = Field(
        300.0, description="until its agent answers, and for the removal of what was put there"
    )
