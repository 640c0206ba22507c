"""`ullage tune`: which settings are tried, what each buys, and what to change."""

from __future__ import annotations

import math
from typing import Any

from ullage.common.console import LineTable, escape, stdout
from ullage.common.quantities import many
from ullage.experiments.tuning import screening
from ullage.experiments.tuning.outcome import TuneOutcome
from ullage.experiments.tuning.screening import SettingEffect
from ullage.experiments.tuning.settings import Selection, TuneSetting


def show_selection(selection: Selection, blocks: int, time: str) -> None:
    """What will be tried: the trials, beside those of all combinations."""
    settings = selection.settings
    runs, whole = len(screening.design(len(settings))), 2 ** len(settings)
    stdout.print(
        f"{many(len(settings), 'setting')} in {many((runs + 1) * blocks, 'trial')}:"
        f" {many(blocks, 'block')} of {runs} of the {whole} combinations, one of them twice",
        soft_wrap=True,
    )
    for setting in settings:
        was = _word(setting.as_it_was)
        stdout.print(escape(f"  {setting.name}: {was} → {_word(setting.changed)}"), soft_wrap=True)
    for name, reason in selection.absent.items():
        stdout.print(escape(f"  left out: {name}: {reason}"), soft_wrap=True)
    stdout.print(escape(time), soft_wrap=True)


def selected(selection: Selection) -> dict[str, Any]:
    """For machines."""
    return {
        "settings": [
            {"name": s.name, "as_it_was": s.as_it_was, "changed": s.changed}
            for s in selection.settings
        ],
        "left_out": dict(selection.absent),
    }


def _word(value: Any) -> str:
    """As in a plan; an option that is not written is `-`."""
    return "-" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def show(outcome: TuneOutcome) -> None:
    """The advice first, then each setting."""
    stdout.print(escape(advice(outcome)), soft_wrap=True)
    table = LineTable()
    table.add_column("changed")
    for column in (f"{outcome.metric} is worse by", f"{outcome.confidence:.0%} interval", "p"):
        table.add_column(column, justify="right")
    for effect in outcome.effects:
        setting = outcome.settings[effect.settings[0][0]]
        table.add_row(escape(str(setting)), *_figures(effect))
    stdout.print(table)
    for effect in outcome.joint:
        stdout.print(escape(_together(effect, outcome.settings)), soft_wrap=True)
    if outcome.left_out:
        stdout.print(
            f"{many(outcome.left_out, 'block')} left out: a trial had no figure", soft_wrap=True
        )


def advice(outcome: TuneOutcome) -> str:
    """What is proven, and what seems so."""
    blocks = many(outcome.blocks, "block")
    proven, better = outcome.proven, outcome.better
    if proven:
        effects = [e for e in outcome.effects if e.high < 1]
        times = math.exp(-sum(math.log(effect.ratio) for effect in effects))
        names = ", ".join(f"`{setting}`" for setting in proven)
        sentence = f"Proven in {blocks}: {names} {'make' if len(proven) > 1 else 'makes'}"
        sentence += f" {outcome.metric} {times:.3g} times better."
    else:
        sentence = f"No setting is proven to improve {outcome.metric} in {blocks}."
    if more := [f"`{setting}`" for setting in better if setting not in proven]:
        sentence += f" Perhaps also, or by chance: {', '.join(more)}."
    return sentence + (" A run of both decides: --save writes its plan." if better else "")


def _figures(effect: SettingEffect) -> tuple[str, str, str]:
    span = f"{_percent(effect.low)} to {_percent(effect.high)}"
    return _percent(effect.ratio), span, f"{effect.p:.2g}"


def _percent(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.1f} %"


def _together(effect: SettingEffect, settings: tuple[TuneSetting, ...]) -> str:
    pairs = " or ".join(
        " with ".join(settings[number].name for number in pair) for pair in effect.settings
    )
    return (
        f"Not each by itself: {pairs} ({_percent(effect.ratio)}, p {effect.p:.2g})."
        " Try these combinations by hand."
    )


def as_dict(outcome: TuneOutcome) -> dict[str, Any]:
    """For machines."""
    return {
        "metric": outcome.metric,
        "confidence": outcome.confidence,
        "blocks": outcome.blocks,
        "left_out": outcome.left_out,
        "settings": [
            {
                "name": setting.name,
                "as_it_was": setting.as_it_was,
                "changed": setting.changed,
                "ratio": effect.ratio,
                "low": effect.low,
                "high": effect.high,
                "p": effect.p,
            }
            for setting, effect in zip(outcome.settings, outcome.effects, strict=True)
        ],
        "joint": [
            {
                "pairs": [[outcome.settings[i].name for i in pair] for pair in effect.settings],
                "ratio": effect.ratio,
                "p": effect.p,
            }
            for effect in outcome.joint
        ],
        "proven": [setting.name for setting in outcome.proven],
        "better": [setting.name for setting in outcome.better],
    }
