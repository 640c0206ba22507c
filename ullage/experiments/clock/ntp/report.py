"""`ullage clock ntp`: the corrections that a real NTP daemon makes, beside those of 2015."""

from __future__ import annotations

from ullage.experiments.clock import view as words
from ullage.experiments.clock.lab import Bar
from ullage.experiments.clock.ntp.outcome import (
    IntervalOutcome,
    NtpOptions,
    NtpReport,
    PublishedNtp,
    Sizes,
)
from ullage.experiments.clock.reports import published
from ullage.experiments.clock.view import ClockSection, View, table


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
            ClockSection(
                "Made with",
                lines=tuple(f"{program}: {how}" for program, how in measured.versions.items()),
            ),
        ),
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
