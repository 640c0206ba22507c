"""`ullage clock ntp`: the corrections that a real NTP daemon makes, beside those of 2015."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from ullage.experiments.clock import view as words
from ullage.experiments.clock.lab import Bar
from ullage.experiments.clock.ntp import experiment
from ullage.experiments.clock.ntp.outcome import (
    IntervalOutcome,
    NtpOptions,
    NtpReport,
    PublishedNtp,
    Sizes,
)
from ullage.experiments.clock.view import Section, View, table


@cache
def published() -> PublishedNtp:
    """The figures of 2015."""
    text = (files("ullage.experiments.clock") / "data" / "clock2015_ntp.json").read_text(
        encoding="utf-8"
    )
    return PublishedNtp.model_validate_json(text)


def measure(progress: Bar, options: NtpOptions) -> NtpReport:
    """In guests, one a polling interval. As `ullage.experiments.clock.ntp.experiment.measure`."""
    total = len(options.intervals_s) * (options.observe_s + 20)
    stage = progress.stage("NTP: an image and guests", total)

    def told(text: str) -> None:
        stage(0, 0)
        progress.say(text)

    return NtpReport(measured=experiment.measure(options, told), published=published())


def view(report: NtpReport) -> View:
    """A row a polling interval."""
    measured = report.measured
    rows = tuple(map(_row, measured.intervals))
    heads = ("asked", "polls every", "error of the oscillator", "corrections", "mean", "deviation")
    heads_more = ("median", "most", "chrony decided, mean")
    known = tuple(
        (f"{one.interval_s:g} s", words.span(one.mean_ns), words.span(one.sd_ns))
        for one in report.published.corrections
    )
    return View(
        "What an NTP daemon does to a clock",
        tuple(map(_answer, measured.intervals)),
        (
            Section(
                "Corrections, once the daemon had settled",
                lines=(f"Server: {measured.server}.",),
                tables=(
                    table("Measured here", (*heads, *heads_more), rows),
                    table(
                        f"Published: {report.published.source}",
                        ("asked", "mean", "deviation"),
                        known,
                    ),
                ),
            ),
            Section(
                "Made with",
                lines=tuple(f"{what}: {how}" for what, how in measured.versions.items()),
            ),
        ),
    )


def _answer(one: IntervalOutcome) -> str:
    head = f"Polling every {words.span(2.0**one.poll * 1e9)}, chrony"
    if one.applied is None:
        return f"{head} made no correction that counts: it had not settled when the time was up."
    return (
        f"{head} moved the clock by {words.span(one.applied.mean_ns)} at a time on average,"
        f" {words.span(one.applied.max_ns)} at most, of an oscillator that is off by"
        f" {words.rate(one.error_ppb)}."
    )


def _row(one: IntervalOutcome) -> tuple[str, ...]:
    found = one.applied
    return (
        f"{one.asked_s:g} s",
        words.span(2.0**one.poll * 1e9),
        words.rate(one.error_ppb),
        "0" if found is None else f"{found.count:,}",
        *_sizes(found),
        "–" if one.decided is None else words.span(one.decided.mean_ns),
    )


def _sizes(found: Sizes | None) -> tuple[str, ...]:
    if found is None:
        return ("–",) * 4
    deviation = "–" if found.sd_ns is None else words.span(found.sd_ns)
    return (
        words.span(found.mean_ns),
        deviation,
        words.span(found.p50_ns),
        words.span(found.max_ns),
    )
