"""What the instances of a run cost as their cloud bills them, beside what their work costs."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ullage.common.quantities import format_seconds, many
from ullage.runs.events import Finished, Provisioned, Started
from ullage.runs.reader import RunFolder
from ullage.runs.records import Price


def notes(folder: RunFolder, prices: dict[str, Price]) -> list[str]:
    """A sentence for each environment whose price says how lives are billed."""
    lives: dict[str, list[float]] = {}
    for environment, seconds in _lives(folder):
        lives.setdefault(environment, []).append(seconds)
    return [
        _words(key, lives[key], price)
        for key, price in prices.items()
        if key in lives and (price.billed != "second" or price.least_s)
    ]


def _words(key: str, lived_s: list[float], price: Price) -> str:
    cost = math.fsum(price.bill(seconds) for seconds in lived_s)
    least = f", {price.least_s:g} s at least" if price.least_s else ""
    return (
        f"{many(len(lived_s), 'instance')} of {key} lived {format_seconds(math.fsum(lived_s))} in "
        f"this run, billed by the {price.billed}{least}: {cost:.3g} {price.currency}, with all "
        "that was no trial."
    )


def _lives(folder: RunFolder) -> Iterator[tuple[str, float]]:
    """Of each instance: its environment, and the seconds from its request until the session ended.

    One that was made anew ended then. Of a session that was killed the last event is its end.
    """
    living: dict[str, Provisioned] = {}
    last_ns = 0
    for event in folder.events:
        if isinstance(event, Started | Finished):
            end_ns = event.epoch_ns if isinstance(event, Finished) else last_ns
            yield from (_life(one, end_ns) for one in living.values())
            living = {}
        elif isinstance(event, Provisioned):
            if event.instance in living:
                yield _life(living[event.instance], event.epoch_ns - round(event.seconds * 1e9))
            living[event.instance] = event
        last_ns = event.epoch_ns
    yield from (_life(one, last_ns) for one in living.values())


def _life(one: Provisioned, end_ns: int) -> tuple[str, float]:
    return one.environment, max(0.0, one.seconds + (end_ns - one.epoch_ns) / 1e9)
