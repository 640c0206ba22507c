"""When viewers come, as a plan of an elastic run says it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Final, Literal

from pydantic import Field, model_validator

from ullage.errors import PLAN_BAD_FIELD, UllageError
from ullage.planfile import Fields
from ullage.quantities import Delay, Seconds, format_seconds
from ullage.yamlfile import YamlFile

MOST_VIEWERS: Final = 1_000_000
"""In a repetition: each has a record."""


class Arrivals(Fields):
    """When viewers come, in the users' time."""

    kind: Literal["poisson", "uniform", "trace", "flash-crowd"] = Field(
        "poisson", description="`poisson`, `uniform`, `trace` (a file) or `flash-crowd`"
    )
    rate: float | None = Field(
        None, gt=0, le=1e6, allow_inf_nan=False, description="viewers a second of the users' time"
    )
    viewers: int | None = Field(
        None, ge=1, le=MOST_VIEWERS, strict=True, description="how many come; or say `lasting`"
    )
    lasting: Seconds | None = Field(
        None,
        description=f"for how long they come, about {MOST_VIEWERS:,} at most; or say `viewers`",
    )
    peak: float | None = Field(
        None, gt=0, le=1e6, allow_inf_nan=False, description="of a `flash-crowd`: its highest rate"
    )
    at: Delay | None = Field(None, description="of a `flash-crowd`: when the rate jumps")
    decay: Seconds | None = Field(
        None, description="of a `flash-crowd`: in how long the rate falls back by e"
    )
    file: Path | None = Field(
        None,
        description="of a `trace`: instants in seconds of the users' time, one a line; a relative "
        "path is one from where the command is started",
    )

    @model_validator(mode="after")
    def _whole(self) -> Arrivals:
        crowd = {"peak": self.peak, "at": self.at, "decay": self.decay}
        needed: dict[str, object] = {"file": self.file}
        if self.kind != "trace":
            needed = {"rate": self.rate, **(crowd if self.kind == "flash-crowd" else {})}
            if (self.viewers is None) == (self.lasting is None):
                raise ValueError("say either `viewers` or `lasting`")
        every = {"rate": self.rate, "file": self.file, **crowd}
        for name, value in every.items():
            if (value is None) == (name in needed):
                verb = "needs" if name in needed else "has no"
                raise ValueError(f"`kind: {self.kind}` {verb} `{name}`")
        if self.rate is not None and self.peak is not None and self.peak < self.rate:
            raise ValueError(f"peak ({self.peak:g}) is less than rate ({self.rate:g})")
        return self

    @property
    def expected(self) -> float:
        """Viewers who come while it lasts, on average; what `viewers` says where that is said."""
        if self.viewers is not None or self.rate is None or self.lasting is None:
            return float(self.viewers or 0)
        number = self.rate * self.lasting
        if self.peak is not None and self.at is not None and self.decay is not None:
            falling = max(0.0, self.lasting - self.at) / self.decay
            number += (self.peak - self.rate) * self.decay * -math.expm1(-falling)
        return number


def check_number(arrivals: Arrivals, document: YamlFile) -> None:
    """PLAN_BAD_FIELD where more would come than a repetition takes: `lasting` is a number too."""
    if arrivals.lasting is None or arrivals.expected <= MOST_VIEWERS:
        return
    raise UllageError(
        PLAN_BAD_FIELD,
        file=document.name,
        line=document.line(("arrivals", "lasting")),
        field="arrivals.lasting",
        found=f"{format_seconds(arrivals.lasting)}, in which {arrivals.expected:,.0f} viewers come",
        allowed=f"at most {MOST_VIEWERS:,} come in a repetition",
        suggestion="lower `lasting` or `rate`, or say how many come with `viewers`",
    )
