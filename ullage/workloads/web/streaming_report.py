"""What `ullage-viewers search` and `ullage-viewers run` print, read as from a stranger."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, Literal

from pydantic import Field

from ullage.workloads.base import InvalidTrialError
from ullage.workloads.output import ReportPart, Seconds, quoted, read

MOST_STEPS: Final = 400
"""Of a search: 20 doublings from 1 to 1,000,000 viewers and 19 halvings, each with ten tries."""
LONGEST: Final = 1 << 21
"""Characters: a step of a search has 2,000."""

ViewerCount = Annotated[int, Field(ge=0, lt=1 << 40)]
ByteCount = Annotated[int, Field(ge=0, lt=1 << 60)]


@dataclass(frozen=True)
class ViewersRequest:
    """What the viewers were told to do."""

    start: int
    cap: int
    step_s: float
    ramp_s: float
    resolution: float
    tries: int
    bitrate: int
    video_bytes: int


class _Outcomes(ReportPart):
    served: ViewerCount
    blocked: ViewerCount
    refused: ViewerCount
    failed: ViewerCount
    cut: ViewerCount


class _Violations(ReportPart):
    count: ViewerCount
    viewers: ViewerCount
    length_s: dict[str, Seconds] = Field(max_length=20)


class ViewersRun(ReportPart):
    """One run of so many viewers."""

    mode: Literal["run"]
    valid: bool
    why: list[str] = Field(max_length=1000)
    interrupted: bool
    seconds: Seconds
    due: ViewerCount
    outcomes: _Outcomes
    whys: dict[str, ViewerCount] = Field(max_length=40)
    violations: _Violations
    bytes: ByteCount
    bytes_per_s: float = Field(ge=0, lt=1e18)
    most_playing: ViewerCount
    cpu_share: float = Field(ge=0, lt=1e9)
    """Of the CPU that the viewers used most."""
    cpu_s: Seconds
    """Of all of them."""

    @property
    def sustained(self) -> bool:
        """All played, nobody was lost, and nobody's picture stood still."""
        played = self.outcomes.cut == self.most_playing == self.due
        return played and self.violations.count == 0

    @property
    def cpus(self) -> float:
        """CPUs that the viewers used."""
        return self.cpu_s / self.seconds if self.seconds else 0.0

    @property
    def clean(self) -> int:
        """Viewers who played to the end without a violation, at least."""
        watched = min(self.outcomes.cut, self.most_playing)
        return max(0, watched - self.violations.viewers)


class _Verdict(ReportPart):
    kind: Literal["sustained", "not-sustained", "worthless", "interrupted"] = Field(alias="is")
    because: str = ""


class SearchStep(ReportPart):
    """A run of the search, and what it says."""

    viewers: ViewerCount
    verdict: _Verdict
    run: ViewersRun


class _Settings(ReportPart):
    start: int
    cap: int
    step_s: float
    ramp_s: float
    resolution: float
    tries: int


class Search(ReportPart):
    mode: Literal["search"]
    figure: Annotated[int, Field(ge=1, lt=1 << 40)] | None
    why: str | None
    lower: ViewerCount
    upper: ViewerCount | None
    interrupted: bool
    search: _Settings
    steps: list[SearchStep] = Field(min_length=1, max_length=MOST_STEPS)

    @property
    def at_figure(self) -> ViewersRun:
        """The run with the largest number that was sustained."""
        return next(step.run for step in reversed(self.steps) if step.viewers == self.lower)

    @property
    def above(self) -> SearchStep | None:
        """The last step with the smallest number that was not."""
        return next((step for step in reversed(self.steps) if step.viewers == self.upper), None)


def read_run(request: ViewersRequest, viewers: int, text: str) -> ViewersRun:
    """A fixed number's run, valid and as asked; InvalidTrialError otherwise."""
    run = read(ViewersRun, text, "client", longest=LONGEST)
    if not run.valid or run.interrupted:
        reasons = "; ".join(run.why) or "interrupted"
        raise InvalidTrialError(
            f"the viewers' own machine was the limit, not the servers: {quoted(reasons, 200)}"
        )
    _check_run(request, viewers, run)
    if run.sustained and (came := _came(request, viewers, run)) < 1:
        raise InvalidTrialError(
            f"no picture of {viewers} stood still, but they began so late that only "
            f"{came:.0%} of their video came: such a step says nothing; make it longer"
        )
    return run


def read_search(request: ViewersRequest, text: str) -> Search:
    """A search that has its figure; InvalidTrialError says what was the limit otherwise."""
    search = read(Search, text, "client", longest=LONGEST)
    requested = _Settings(**{name: getattr(request, name) for name in _Settings.model_fields})
    if search.search != requested:
        raise InvalidTrialError(f"asked for {requested}, found {search.search}")
    if search.figure is None or search.interrupted:
        raise InvalidTrialError(_why_none(search))
    _replay(request, search)
    return search


def _why_none(search: Search) -> str:
    last = search.steps[-1]
    why = quoted(last.verdict.because or search.why or "it does not say why", 200)
    if search.interrupted:
        return "no figure: the search was interrupted"
    if last.verdict.kind == "sustained":
        return (
            f"no figure: the limit was the plan's cap of {last.viewers} viewers, who were all "
            "sustained; raise `cap`"
        )
    if last.verdict.kind == "worthless":
        return (
            f"no figure: at {last.viewers} viewers the limit was the viewers' own machine, not the "
            f"servers, which sustained {search.lower}: {why}"
        )
    return f"no figure: not one viewer was sustained: {why}"


def _replay(request: ViewersRequest, search: Search) -> None:
    """Its steps are those of a search, and lead to what it says it found."""
    lower, upper, failed = 0, None, 0
    due: int | None = request.start
    for step in search.steps:
        if step.viewers != due:
            raise InvalidTrialError(f"a step has {step.viewers} viewers, expected {due}")
        _check_run(request, step.viewers, step.run)
        sustained = step.verdict.kind == "sustained"
        found_so = step.run.sustained and _came(request, step.viewers, step.run) >= 1
        if step.verdict.kind not in ("sustained", "not-sustained"):
            raise InvalidTrialError(f"there is a figure beside a step that is {step.verdict.kind}")
        if not step.run.valid or step.run.interrupted or sustained != found_so:
            raise InvalidTrialError(
                f"the step of {step.viewers} viewers is not {step.verdict.kind}"
            )
        failed = 0 if sustained else failed + 1
        if 0 < failed < request.tries:
            continue
        failed = 0
        lower, upper = (step.viewers, upper) if sustained else (lower, step.viewers)
        due = None if lower == request.cap else _next(request, lower, upper)
    if due is not None or lower == request.cap:
        raise InvalidTrialError("the search ends before it is at its end")
    if (search.figure, search.lower, search.upper) != (lower, lower, upper):
        raise InvalidTrialError(
            f"its steps lead to {lower} viewers, and it says {search.figure} of {search.lower}"
        )


def _next(request: ViewersRequest, lower: int, upper: int | None) -> int | None:
    """Viewers of the step after, as `rust/viewers/src/search.rs` has it."""
    if upper is None:
        return min(2 * lower, request.cap)
    narrow = max(1, int(upper * request.resolution))
    return lower + (upper - lower) // 2 if upper - lower > narrow else None


def _check_run(request: ViewersRequest, viewers: int, run: ViewersRun) -> None:
    """So many came and each has an end, and nobody saw more than there is."""
    came = sum(run.outcomes.model_dump().values())
    if not run.due == came == viewers:
        raise InvalidTrialError(f"{viewers} viewers were asked for, {run.due} came, {came} ended")
    violations = run.violations
    if not violations.viewers <= min(violations.count, viewers) or run.most_playing > viewers:
        raise InvalidTrialError(
            f"of {viewers} viewers {run.most_playing} played, and {violations.viewers} had "
            f"{violations.count} violations"
        )
    if (violations.count > 0) != (violations.viewers > 0):
        raise InvalidTrialError(f"{violations.count} violations of {violations.viewers} viewers")
    if run.bytes > viewers * request.video_bytes:
        raise InvalidTrialError(
            f"{run.bytes} bytes, and {viewers} videos have {viewers * request.video_bytes}"
        )
    if abs(run.bytes_per_s * run.seconds - run.bytes) > 1e-6 * run.bytes + 1:
        raise InvalidTrialError(
            f"{run.bytes} bytes in {run.seconds} s are not {run.bytes_per_s} in each"
        )
    if run.sustained and run.seconds < request.step_s:
        raise InvalidTrialError(f"a step of {run.seconds} s, asked for {request.step_s} s")


def _came(request: ViewersRequest, viewers: int, run: ViewersRun) -> float:
    """Share of the least video that is due; below 1 a picture had no time to stand still."""
    return run.bytes / (viewers * request.step_s * request.bitrate / 8)
