"""`ullage profile`: the weights, the line to paste, and what is predicted."""

from __future__ import annotations

from pathlib import Path

from ullage.analysis.comparison import words as shared
from ullage.analysis.comparison.rounding import share
from ullage.analysis.profiles import words
from ullage.analysis.profiles.model import Predicted, Prediction, Profile
from ullage.common.console import LineTable, escape, stdout
from ullage.common.text import clean
from ullage.runs.reader import typed


def show(profile: Profile, predicted: Predicted | None, run: Path | None) -> None:
    """Print it. run: the folder that was predicted for."""
    stdout.print(escape(words.lead(profile)), soft_wrap=True)
    table = LineTable()
    table.add_column("waits for")
    for column in ("weight", f"{profile.confidence:.0%} interval"):
        table.add_column(column, justify="right")
    for weight in profile.weights:
        table.add_row(words.named(weight), *words.shares(weight.share))
    table.add_row("nothing that was slowed", *words.shares(profile.rest))
    stdout.print(table)
    for note in words.notes(profile):
        stdout.print(escape(clean(note)), soft_wrap=True)
    weighed = None if run is None else typed(run)
    for line in words.paste(profile, weighed).splitlines():
        stdout.print(escape(line), soft_wrap=True)
    if (more := words.left_out(profile)) is not None:
        stdout.print(escape(more), soft_wrap=True)
    if predicted is not None:
        _show_predicted(predicted)


def _show_predicted(predicted: Predicted) -> None:
    label = clean(predicted.baseline_label, 60)
    stdout.print()
    stdout.print(escape(f"How many times longer than {label} it will take:"), soft_wrap=True)
    table = LineTable()
    table.add_column("environment")
    for column in ("times", f"{predicted.confidence:.0%} interval"):
        table.add_column(column, justify="right")
    table.add_column("of which")
    for prediction in predicted.predictions:
        table.add_row(*map(escape, _row(prediction)))
    stdout.print(table)


def _row(prediction: Prediction) -> tuple[str, str, str, str]:
    label = shared.name(prediction.label, emulated=prediction.emulated, unequal=prediction.unequal)
    span = prediction.overhead
    parts = [
        f"{part.name} {share(round(part.share, 2))} × {part.ratio:.3g}" for part in prediction.parts
    ]
    if prediction.rest >= 0.005:
        parts.append(f"rest {share(round(prediction.rest, 2))} × 1")
    between = f"{span.low:.3g} to {span.high:.3g}"
    return clean(label, 120), f"{span.estimate:.3g}", between, ", ".join(parts)
