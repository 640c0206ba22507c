"""A profile in plain words, and the weights as `ullage weigh` takes them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ullage.analysis.comparison import rounding
from ullage.analysis.comparison.words import RESOURCES, blocks, capital, listed
from ullage.analysis.profiles.model import LinearEstimate, Profile, Weight
from ullage.analysis.weigh.weights import apportioned
from ullage.runs.records import Resource

PLACES: Final = 2
"""Decimals of the weights on the line for `ullage weigh`."""
WORTH_SAYING: Final = 0.02
"""A part of the time from which on it is spoken of."""


WIDEST: Final = 0.75
"""An interval of a weight as wide as this or wider says nothing of it."""


def named(weight: Weight) -> str:
    """`CPU + memory`."""
    return " + ".join(RESOURCES[resource] for resource in weight.resources)


def shares(span: LinearEstimate) -> tuple[str, str]:
    """Estimate and interval, in percent."""
    return rounding.share(round(span.estimate, 3)), (
        f"{100 * span.low:.0f} to {100 * span.high:.0f} %"
    )


def weights_line(profile: Profile) -> str | None:
    """`cpu=0.8,memory=0.2`, in the proportions measured; None: no resource slows it.

    What no resource explains has no weight there; what could not be told apart has equal parts.
    """
    parts: dict[Resource, float] = {}
    for weight in profile.weights:
        for resource in weight.resources:
            parts[resource] = weight.share.estimate / len(weight.resources)
    if sum(parts.values()) < 10.0**-PLACES:
        return None
    unit = 10**PLACES
    counts = apportioned(parts, unit)
    return ",".join(f"{resource}={count / unit:g}" for resource, count in counts.items() if count)


def lead(profile: Profile) -> str:
    """What the table is of."""
    whole = f"{profile.survey.seconds:.3g} s"
    return (
        f"What the {whole} of the command are, by how much slower it is when a resource is "
        f"({blocks(profile.blocks)}):"
    )


def notes(profile: Profile) -> Iterable[str]:
    """What to know of the weights, most important first."""
    survey = profile.survey
    yield from (f"{capital(text)}." for text in profile.merged)
    if profile.normalised:
        yield (
            f"Together they came to {profile.total.estimate:.2f} ({profile.total.low:.2f} to "
            f"{profile.total.high:.2f}), and are divided by that: it does more than one thing at a "
            "time, or the slow-downs overlap."
        )
    for weight in profile.weights:
        if weight.unclipped.estimate < -0.005:
            raw = weight.unclipped
            yield (
                f"{capital(named(weight))} came out as {raw.estimate:.2f} ({raw.low:.2f} to "
                f"{raw.high:.2f}), which is no share: the nearest is taken."
            )
    yield from _in_bursts(profile)
    yield from (
        f"{capital(RESOURCES[resource])}: {why}." for resource, why in sorted(survey.unused.items())
    )
    for resource, why in sorted(survey.absent.items()):
        where = "the CPU's" if resource == "memory" else "that of nothing that was slowed"
        yield f"{capital(RESOURCES[resource])} has no weight: {why}. Its part is in {where}."
    if survey.seconds < 0.5 * survey.first_seconds:
        yield (
            f"The second run took {survey.seconds:.3g} s, the first one {survey.first_seconds:.3g} "
            "s. Either its files were in the cache, or it had nothing left to do."
        )
    if profile.dropped:
        yield f"{blocks(profile.dropped)} left out, in which a trial failed."


def _in_bursts(profile: Profile) -> Iterable[str]:
    """The quota slows work on the CPU only where that goes on for some milliseconds."""
    if profile.bursts < WORTH_SAYING:
        return
    share = rounding.share(round(profile.bursts, 2))
    yield (
        f"{share} of its time it had a CPU in bursts so short that a quota does not slow them; "
        "they are counted to the CPU."
    )


def unheld(profile: Profile) -> str | None:
    """Why nothing may be weighed or predicted with it: the data do not hold a weight."""
    wide = [
        f"{named(weight)} may be {shares(weight.share)[1]}"
        for weight in profile.weights
        if weight.share.high - weight.share.low >= WIDEST
    ]
    if not wide:
        return None
    return (
        f"These data hold no weights: {listed(wide)} of its time. Profile it again in a quieter "
        "hour, with more blocks (`--repeat`) or more work in the command."
    )


def paste(profile: Profile, run: str | None) -> str:
    """The command that weighs a run with it."""
    if (reason := unheld(profile)) is not None:
        return reason
    line = weights_line(profile)
    if line is None:
        return "No resource slows it: there is nothing to weigh."
    return f"ullage weigh {run or 'RUN'} --weights {line}"


def left_out(profile: Profile) -> str | None:
    """What that line does not say."""
    if unheld(profile) is not None:
        return None
    omissions = []
    if profile.rest.estimate >= 10.0**-PLACES:
        omissions.append(
            f"{rounding.share(round(profile.rest.estimate, 2))} of its time that no resource slows"
        )
    halved = [named(weight) for weight in profile.weights if len(weight.resources) > 1]
    omissions += [
        f"that {names} have one weight together (equal parts stand there)" for names in halved
    ]
    return f"Not in that line: {listed(omissions)}." if omissions else None
