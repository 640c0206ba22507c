"""`ullage clock ntp`: the corrections that a real NTP daemon makes, beside those of 2015."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

from ullage.experiments.clock import view as words
from ullage.experiments.clock.lab import Bar
from ullage.experiments.clock.ntp.outcome import (
    CLOCKS,
    IntervalOutcome,
    NtpOptions,
    NtpReport,
    PublishedNtp,
    Sizes,
)
from ullage.experiments.clock.reports import published
from ullage.experiments.clock.view import ClockSection, View, table


def check() -> None:
    """Raise what this host lacks for it. HOST_MISSING, HOST_NEEDS_ROOT."""
    from ullage.experiments.clock.ntp import guest

    asyncio.run(guest.check())


def measure(progress: Bar, options: NtpOptions) -> NtpReport:
    """In guests, one a polling interval. As `ullage.experiments.clock.ntp.experiment.measure`."""
    # A page is written where no guest can be made.
    from ullage.experiments.clock.ntp import experiment

    total = len(options.intervals_s) * (options.observe_s + 20)
    stage = progress.stage("NTP: an image and guests", total)

    def say(text: str) -> None:
        stage(0, 0)
        progress.say(text)

    measured = experiment.measure(options, say)
    return NtpReport(measured=measured, published=published("ntp", PublishedNtp))


def view(report: NtpReport) -> View:
    """A row a polling interval."""
    measured = report.measured
    rows = tuple(map(_row, measured.intervals))
    heads = ("asked", "polls every", "error of the oscillator", "corrections", "mean", "deviation")
    heads_more = ("median", "most", "chrony decided, mean")
    published = tuple(
        (
            f"{correction.interval_s:g} s",
            words.span(correction.mean_ns),
            words.span(correction.sd_ns),
        )
        for correction in report.published.corrections
    )
    return View(
        "What an NTP daemon does to a clock",
        tuple(map(_answer, measured.intervals)),
        (
            ClockSection(
                "Corrections, once the daemon had settled",
                lines=(f"Server: {measured.server}.",),
                tables=(
                    table("Measured here", (*heads, *heads_more), rows),
                    table(
                        f"Published: {report.published.source}",
                        ("asked", "mean", "deviation"),
                        published,
                    ),
                ),
            ),
            *_beside(measured.intervals),
            ClockSection(
                "Made with",
                lines=tuple(f"{program}: {how}" for program, how in measured.versions.items()),
            ),
        ),
    )


def _beside(intervals: Sequence[IntervalOutcome]) -> Iterator[ClockSection]:
    """How far off chrony's clock and ours were, in the same guest and time."""
    held = [(interval, interval.beside) for interval in intervals if interval.beside is not None]
    missing = tuple(
        f"Polling every {words.span(2.0**interval.poll * 1e9)}: not compared: "
        f"{interval.beside_why}."
        for interval in intervals
        if interval.beside_why is not None
    )
    if not held:
        if missing:
            yield ClockSection("Off by", lines=missing)
        return
    heads = ("asked, clock", "exchanges", "median", "most", "its own bound", "the judge's bound")
    rows = [
        (
            f"{interval.asked_s:g} s, {CLOCKS[errors.clock]}",
            str(errors.off.count),
            words.span(errors.off.p50_ns),
            words.span(errors.off.max_ns),
            "–" if errors.bound_ns is None else words.span(errors.bound_ns),
            words.span(errors.judge_ns),
        )
        for interval, beside in held
        for errors in beside.errors
    ]
    lines = tuple(
        f"Polling every {words.span(2.0**interval.poll * 1e9)}: judged from"
        f" {words.span(beside.from_ns)} to {words.span(beside.until_ns)} after the first reading,"
        f" once chrony had settled; ours had learned from {beside.learned} exchanges."
        for interval, beside in held
    )
    yield ClockSection(
        "Off by", lines=(*lines, *missing), tables=(table("In the guest", heads, rows),)
    )


def _answer(interval: IntervalOutcome) -> str:
    head = f"Polling every {words.span(2.0**interval.poll * 1e9)}, chrony"
    if interval.applied is None:
        return f"{head} made no correction that counts: it had not settled when the time was up."
    return (
        f"{head} moved the clock by {words.span(interval.applied.mean_ns)} at a time on average,"
        f" {words.span(interval.applied.max_ns)} at most, of an oscillator that is off by"
        f" {words.rate(interval.error_ppb)}."
    )


def _row(interval: IntervalOutcome) -> tuple[str, ...]:
    applied = interval.applied
    return (
        f"{interval.asked_s:g} s",
        words.span(2.0**interval.poll * 1e9),
        words.rate(interval.error_ppb),
        "0" if applied is None else f"{applied.count:,}",
        *_sizes(applied),
        "–" if interval.decided is None else words.span(interval.decided.mean_ns),
    )


def _sizes(sizes: Sizes | None) -> tuple[str, ...]:
    if sizes is None:
        return ("–",) * 4
    deviation = "–" if sizes.sd_ns is None else words.span(sizes.sd_ns)
    return (
        words.span(sizes.mean_ns),
        deviation,
        words.span(sizes.p50_ns),
        words.span(sizes.max_ns),
    )
