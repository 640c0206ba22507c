"""A profile, typed: what is kept of it, and what `ullage profile` prints."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal, Self

import numpy as np
from pydantic import ConfigDict, Field, ValidationError, model_validator

from ullage.common.errors import PROFILE_BAD_FILE, UllageError
from ullage.common.faults import first_fault
from ullage.common.regular import read_document
from ullage.runs.records import Record, Resource

UNDISTURBED = "undisturbed"
"""Key of the environment in which nothing is slow; the others have the name of what is."""
COMMAND = "command"
"""Key of the workload that is the command."""
PROBE = "probe-"
"""Before the name of a resource: the key of its probe."""
LARGEST_FILE = 4 << 20
"""Bytes of a profile that are read."""
SLACK: Final = 1e-9
"""By which rounding may put a share beyond 0 or 1, or a variance below 0."""


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


class LinearEstimate(Record):
    """An estimate with its interval, on a linear scale."""

    model_config = ConfigDict(allow_inf_nan=False)

    estimate: float
    low: float
    high: float


class Weight(Record):
    """The part of the command's time that a resource is: its measured sensitivity."""

    resources: tuple[Resource, ...] = Field(min_length=1)
    """Several: they could not be told apart."""
    share: LinearEstimate
    """Within 0 and 1."""
    unclipped: LinearEstimate
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
    ratio: LinearEstimate


class Profile(Record):
    """The weights of a command, with all that they rest on."""

    format: Literal[1] = 1
    survey: Survey
    folder: str
    confidence: float = Field(gt=0, lt=1)
    blocks: int = Field(ge=2)
    dropped: int
    """Blocks with a failed trial."""
    weights: tuple[Weight, ...] = Field(min_length=1)
    rest: LinearEstimate
    """The part that no resource explains, such as sleeping."""
    total: LinearEstimate
    """Of all weights before they were made to add up to 1; above 1 they overlap."""
    normalised: bool
    bursts: float = 0.0
    """The part of the CPU's weight that no quota shows: see `weights.in_bursts`."""
    covariance: tuple[tuple[float, ...], ...]
    """Of the weights, by their order."""
    merged: tuple[str, ...] = ()
    """Why resources were merged, in words."""
    slowdowns: tuple[Slowdown, ...] = ()

    @model_validator(mode="after")
    def _predicts(self) -> Self:
        """It may come from a file, and a prediction draws from all of this."""
        of = [resource for weight in self.weights for resource in weight.resources]
        if len(set(of)) < len(of):
            raise ValueError("a resource has two weights")
        for weight in self.weights:
            share = weight.share
            if not all(_is_share(bound) for bound in (share.estimate, share.low, share.high)):
                raise ValueError(f"the share of {weight.name} is not within 0 and 1")
        if not _is_share(sum(weight.share.estimate for weight in self.weights)):
            raise ValueError("the shares are more than 1 together")
        cpu = sum(w.share.estimate for w in self.weights if "cpu" in w.resources)
        if not -SLACK <= self.bursts <= cpu + SLACK:
            raise ValueError("the bursts are no part of the CPU's share")
        self._check_covariance()
        return self

    def _check_covariance(self) -> None:
        size = len(self.weights)
        if any(len(row) != size for row in (self.covariance, *self.covariance)):
            raise ValueError(f"the covariance has not {size} rows and columns, one for each weight")
        matrix = np.array(self.covariance)
        if not np.isfinite(matrix).all():
            raise ValueError("the covariance is not finite")
        least = SLACK * float(np.abs(matrix).max())
        if np.abs(matrix - matrix.T).max() > least or np.linalg.eigvalsh(matrix)[0] < -least:
            raise ValueError("the covariance is that of no weights")

    @property
    def degrees(self) -> int:
        """Degrees of freedom of the covariance."""
        return self.blocks - 1


def _is_share(value: float) -> bool:
    return -SLACK <= value <= 1 + SLACK


class PredictedPart(Record):
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
    overhead: LinearEstimate
    parts: tuple[PredictedPart, ...]
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
        return Profile.model_validate_json(read_document(path.resolve(), LARGEST_FILE))
    except OSError as error:
        raise UllageError(PROFILE_BAD_FILE, path=path, reason=error.strerror or error) from error
    except ValidationError as error:
        raise UllageError(PROFILE_BAD_FILE, path=path, reason=first_fault(error)) from None
