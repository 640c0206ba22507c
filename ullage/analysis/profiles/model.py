"""A profile, typed: what is kept of it, and what `ullage profile` prints."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from ullage.errors import PROFILE_BAD_FILE, UllageError
from ullage.runs import Record, Resource

UNDISTURBED = "undisturbed"
"""Key of the environment in which nothing is slow; the others have the name of what is."""
COMMAND = "command"
"""Key of the workload that is the command."""
PROBE = "probe-"
"""Before the name of a resource: the key of its probe."""
LARGEST_FILE = 4 << 20
"""Bytes of a profile that are read."""


class Survey(Record):
    """What was seen of the command before anything was slowed."""

    format: Literal[1] = 1
    argv: tuple[str, ...]
    directory: str
    cpus: int
    """That it may use."""
    seconds: float
    first_seconds: float
    """Of the first time, when nothing was in any cache."""
    cpu_seconds: float | None = None
    read_bytes: int = 0
    written_bytes: int = 0
    requests: int = 0
    """To the disk, in its own name."""
    network_bytes: int = 0
    packets: int = 0
    absent: dict[Resource, str] = Field(default_factory=dict)
    """What cannot be slowed here, and why."""
    unused: dict[Resource, str] = Field(default_factory=dict)
    """What it does not use, and how that is known."""


class Span(Record):
    """An estimate with its interval, on a linear scale."""

    estimate: float
    low: float
    high: float


class Weight(Record):
    """The part of the command's time that a resource is: its measured sensitivity."""

    resources: tuple[Resource, ...] = Field(min_length=1)
    """Several: they could not be told apart."""
    share: Span
    unclipped: Span
    """As the equations give it: below 0 or above 1 by noise, or where the model is wrong."""

    @property
    def name(self) -> str:
        """`cpu+memory`."""
        return "+".join(self.resources)


class Slowdown(Record):
    """How many times longer something took under one hindrance than undisturbed."""

    hindrance: Resource
    of: Resource | None
    """The probe of that resource; None: the command."""
    ratio: Span


class Profile(Record):
    """The weights of a command, with all that they rest on."""

    format: Literal[1] = 1
    survey: Survey
    folder: str
    confidence: float
    blocks: int
    dropped: int
    """Blocks with a failed trial."""
    weights: tuple[Weight, ...]
    rest: Span
    """The part that no resource explains, such as sleeping."""
    total: Span
    """Of all weights before they were made to add up to 1; above 1 they overlap."""
    normalised: bool
    bursts: float = 0.0
    """The part of the CPU's weight that no quota shows: see `weighted.in_bursts`."""
    covariance: tuple[tuple[float, ...], ...]
    """Of the weights, by their order."""
    merged: tuple[str, ...] = ()
    """Why resources were merged, in words."""
    slowdowns: tuple[Slowdown, ...] = ()

    @property
    def degrees(self) -> int:
        """Degrees of freedom of the covariance."""
        return self.blocks - 1


class Part(Record):
    """A resource's part of a predicted overhead."""

    name: str
    share: float
    ratio: float
    contribution: float


class Prediction(Record):
    """How many times longer the command will take in an environment."""

    environment: str
    label: str
    emulated: bool
    unequal: tuple[str, ...]
    overhead: Span
    parts: tuple[Part, ...]
    rest: float
    """The part of its time that takes as long there as anywhere."""


class Predicted(Record):
    """A profile and a run, put together."""

    format: Literal[1] = 1
    run: str
    baseline_label: str
    confidence: float
    predictions: tuple[Prediction, ...]


def load(path: Path) -> Profile:
    """A profile that was saved. PROFILE_BAD_FILE."""
    try:
        with path.open("rb") as file:
            text = file.read(LARGEST_FILE + 1)
        if len(text) > LARGEST_FILE:
            raise UllageError(PROFILE_BAD_FILE, path=path, reason="it is too large")
        return Profile.model_validate_json(text)
    except OSError as error:
        raise UllageError(PROFILE_BAD_FILE, path=path, reason=error.strerror or error) from error
    except ValidationError as error:
        first = error.errors()[0]
        reason = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
        raise UllageError(PROFILE_BAD_FILE, path=path, reason=reason) from None
