"""What a plan may ask of the front and the viewers, in real time: told before anything starts.

The numbers are those of `rust/front/src/config.rs` and `rust/viewers/src/bounds.rs`; programs that
refused them would fail one repetition after the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ullage.elastic.plan import ElasticPlan
from ullage.elastic.units import Scaled
from ullage.errors import PLAN_BAD_FIELD, UllageError
from ullage.yamlfile import FieldPath, YamlFile

LATEST_S: Final = 1e8
"""Before this the last viewer of a trace comes."""
_DAY_S: Final = 86_400.0
_YEAR_S: Final = 366 * _DAY_S
_SECONDS: Final = "s"
_RATE: Final = "viewers a second"


@dataclass(frozen=True)
class _Bound:
    """Of one field, as the programs are told it."""

    field: FieldPath
    value: float | None
    least: float
    most: float
    unit: str = _SECONDS

    @property
    def kept(self) -> bool:
        return self.value is None or self.least <= self.value <= self.most


def check(plan: ElasticPlan, document: YamlFile) -> None:
    """PLAN_BAD_FIELD: the first field that the front or the viewers would not take."""
    for bound in _bounds(plan):
        if not bound.kept:
            raise UllageError(
                PLAN_BAD_FIELD,
                file=document.name,
                line=document.line(bound.field),
                field=".".join(map(str, bound.field)),
                found=f"{bound.value:g} {bound.unit} of real time",
                allowed=f"allowed: {bound.least:g} to {bound.most:g}",
                suggestion="`time_scale` divides the users' times and multiplies their rates; "
                "`lateness_limit` and `video: buffer:` are real",
            )


def _bounds(plan: ElasticPlan) -> Iterator[_Bound]:
    """Of a film, the length from which its bytes follow: its bits a second stay what they are."""
    scale, arrivals, scaled = plan.time_scale, plan.arrivals, Scaled(plan)
    yield _Bound(("patience",), scaled.patience_s, 0, _DAY_S)
    yield _Bound(("lateness_limit",), plan.lateness_limit, 1e-6, 1000)
    yield _Bound(("video", "buffer"), plan.video.buffer, 0, _YEAR_S)
    yield _Bound(("video", "length"), scaled.length_s, 1e-3, _YEAR_S)
    for name in ("rate", "peak"):
        rate = getattr(arrivals, name)
        asked = None if rate is None else rate * scale
        yield _Bound(("arrivals", name), asked, 1e-6, 1e8, _RATE)
    for name, least in (("lasting", 0.0), ("at", 0.0), ("decay", 1e-6)):
        length = getattr(arrivals, name)
        yield _Bound(("arrivals", name), None if length is None else length / scale, least, _YEAR_S)
