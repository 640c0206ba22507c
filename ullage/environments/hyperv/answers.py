"""What a Hyper-V host answers: untrusted, so bounded and checked."""

from __future__ import annotations

from ipaddress import IPv4Address
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

MOST_BYTES: Final = 1 << 20
"""Of an answer."""
_MOST: Final = 4096
"""Of the switches, names or addresses in one."""

Text = Annotated[str, StringConstraints(max_length=4096)]
Texts = Annotated[tuple[Text | None, ...], Field(max_length=_MOST)]
WholeNumber = Annotated[int, Field(ge=0, lt=1 << 63)]


class Result(BaseModel):
    """What an operation has done or seen."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ParentDisk(Result):
    """The disk that machines are made of."""

    format: Text
    kind: Text


class Facts(Result):
    """The host."""

    system: Text
    version: Text
    cpus: WholeNumber
    memory_bytes: WholeNumber
    switches: Texts
    parent: ParentDisk | None


class VmState(Result):
    """One machine, as the host sees it."""

    state: Text
    """`Running`, `Paused` …, Hyper-V's own names; `Gone`: the host does not have it."""
    heartbeat: Text
    """Hyper-V's own names too: `OkApplicationsUnknown`, `NoContact`, `Disabled` …"""
    addresses: Texts
    cpus: WholeNumber
    memory_bytes: WholeNumber

    @property
    def beats(self) -> bool:
        """Does the guest's integration service tell that it is well?"""
        return self.heartbeat.startswith("Ok")

    @property
    def address(self) -> str | None:
        """The first that a machine elsewhere can have."""
        for text in self.addresses:
            try:
                address = IPv4Address(text or "")
            except ValueError:
                continue
            if not address.is_link_local and not address.is_unspecified:
                return str(address)
        return None


class Names(Result):
    """What of a run is there: machines, and folders with their files."""

    names: Texts


class Complaint(Result):
    """An error of PowerShell."""

    id: Text
    category: Text
    words: Text


class HostAnswer(Result):
    """One of both."""

    result: dict[str, object] | None = None
    error: Complaint | None = None
