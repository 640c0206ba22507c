"""What all clouds have in common, as far as we need it: a driver is one file."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

State = Literal["pending", "running", "paused", "failed", "gone"]


@dataclass(frozen=True)
class Flavor:
    """A size of instances."""

    cpus: int
    memory_bytes: int


@dataclass(frozen=True)
class Request:
    """One instance to be made. The cloud shows its name and its tag to whoever may list."""

    name: str
    tag: str
    flavor: str
    image: str
    network: str | None
    zone: str | None
    security_groups: tuple[str, ...]
    public_key: str
    """In OpenSSH's form: whoever has the other half may log in."""
    user_data: str
    """For cloud-init; empty: none."""
    token: str
    """Drawn for this one: two requests with the same token are one."""


@dataclass(frozen=True)
class Machine:
    """One instance, as the cloud sees it."""

    id: str
    name: str
    tag: str
    state: State
    words: str
    """The state in the cloud's own words, and its reason."""
    private: str | None = None
    public: str | None = None
    placed: bool = False
    """The cloud says that it has chosen a host for it; False: not yet, or it never tells."""
    image_there: bool = False
    """The cloud says that its image is on that host; False: not yet, or it never tells."""
    crowded_out: bool = False
    """It failed because the cloud has no room for it."""


Trouble = Literal["again", "credentials", "quota", "lacks", "refused"]
"""What an error means. `again`: the cloud is busy, limits our calls, or did not really answer."""


@dataclass(frozen=True)
class ApiFault:
    """An error of the cloud's client."""

    trouble: Trouble
    reason: str
    after_s: float = 0.0
    """The cloud asks for so long a wait."""
    undone: bool = False
    """The cloud says that it has done nothing of what was asked."""


class NotAnAnswerError(Exception):
    """What came is no answer of the API: half a body, or somebody else's page."""


class Driver(ABC):
    """One cloud. Its methods wait, and raise what its client raises; `fault` says what that is."""

    once_a_token: ClassVar[bool] = False
    """Does the cloud itself make one instance of all requests with the same token?"""

    @property
    @abstractmethod
    def title(self) -> str:
        """Which cloud it is, for messages."""

    @abstractmethod
    def fault(self, error: Exception) -> ApiFault | None:
        """What that error means; None: it is none of the client's."""

    @abstractmethod
    def flavor(self, name: str) -> Flavor | None:
        """What instances of that flavor have; None: nobody tells before there is one."""

    @abstractmethod
    def find_image(self, name: str) -> str:
        """The image's id."""

    def limits(self) -> str:
        """How many instances we may have, in the cloud's words; empty: it does not tell."""
        return ""

    @abstractmethod
    def launch(self, request: Request) -> Machine:
        """Ask for an instance. Called twice with the same request it makes one."""

    @abstractmethod
    def machine(self, identifier: str) -> Machine:
        """How it is now; `gone` when the cloud does not know it any more."""

    @abstractmethod
    def machines(self, tag: str | None = None) -> list[Machine]:
        """All that ullage made and that are not gone, or those of one run."""

    @abstractmethod
    def console(self, identifier: str) -> str:
        """What it has printed; empty as long as the cloud does not tell."""

    @abstractmethod
    def remove(self, name: str, tag: str) -> bool:
        """Ask that all of that name go, with their key; True once nothing is left of them."""

    def history(self, identifier: str) -> dict[str, str]:
        """What the cloud did to make it, by its own clock: fact → its value."""
        return {}

    def stands_on(self, identifier: str) -> dict[str, str]:
        """What the cloud tells this user of the host below it: fact → its value."""
        return {}


class LookingDriver(Driver):
    """Of a cloud that knows no tokens: asked again, we look first for what an earlier try made."""

    def __init__(self) -> None:
        self._tokens: set[str] = set()
        """Of requests that were sent."""
        self._sending = threading.Lock()

    def launch(self, request: Request) -> Machine:
        with self._sending:
            again = request.token in self._tokens
            self._tokens.add(request.token)
        machines = self.made_for(request) if again else []
        if not machines:
            machine = self.launch_anew(request)
            # An earlier try that was slow, and not lost, may be done by now: the oldest stays.
            machines = (self.made_for(request) if again else []) or [machine]
        for double in machines[1:]:
            self.end(double.id)
        return machines[0]

    @abstractmethod
    def launch_anew(self, request: Request) -> Machine:
        """Ask for one more, with the request's token where `made_for` finds it."""

    @abstractmethod
    def made_for(self, request: Request) -> list[Machine]:
        """What was made for its token, the oldest first."""

    @abstractmethod
    def end(self, identifier: str) -> None:
        """Ask that it go."""


class PausingDriver(Driver):
    """Of a cloud whose instances can stand still."""

    @abstractmethod
    def pause(self, identifier: str) -> None:
        """Ask that its virtual CPUs stand still; asked twice, they do."""

    @abstractmethod
    def resume(self, identifier: str) -> None:
        """Ask that they run on."""
