"""The report's pictures as files for papers: SVG, PNG, PDF."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Final, Literal

import vl_convert

from ullage.analysis.comparison.model import Analysis
from ullage.common.errors import EXPORT_UNKNOWN_PICTURE, UllageError
from ullage.common.files import put
from ullage.common.text import clean, nearest
from ullage.report import across, answer, energy, hotspots, workloads
from ullage.report.charts import barrel, forest, theme, timeline
from ullage.report.charts.lanes import Drawing
from ullage.runs.events import Trial
from ullage.runs.reader import RunFolder

Format = Literal["svg", "png", "pdf"]
FORMATS: Final[tuple[Format, ...]] = ("svg", "pdf", "png")

WIDTH = 680
"""Width of a chart in a file; in the page it is as wide as the page."""
PNG_SCALE = 2.0

NOISE_FLOOR: Final = "noise floor: what two equal environments differ by"
DPI: Final = 300
"""Of a PNG whose width is given."""
_PER_INCH: Final = {"png": DPI, "pdf": 72, "svg": 96}

_SIZE: Final = re.compile(r' (?:width|height)="([0-9.]+)"')
_FAMILY: Final = re.compile(r'(font-family[:=]"?)[^";}]+(?:"[^";}]+"[^";}]*)*')
_TEXT = (
    f"text{{font-family:{theme.FONT};font-size:14px;fill:var(--ink)}}"
    ".env{font-weight:600}.soft,.lab tspan{fill:var(--soft)}.val{text-anchor:end;font-weight:600}"
    ".head{text-anchor:middle;fill:var(--soft)}"
)


@dataclass(frozen=True)
class PictureStyle:
    """How a picture is to be in a paper."""

    width_mm: float | None = None
    """None: as wide as it is drawn."""
    font: str | None = None
    """Family of the text; None: the reader's own."""

    def dress(self, svg: str, form: str) -> str:
        """The picture in that width and font."""
        if self.font is not None:
            svg = _FAMILY.sub(rf"\g<1>{self.font}", svg)
        if self.width_mm is None:
            return svg
        head, rest = svg.partition(">")[0], svg.partition(">")[2]
        width, height = (float(side) for side in _SIZE.findall(head)[:2])
        wide = self.width_mm / 25.4 * _PER_INCH[form]
        sizes = iter((f' width="{wide:.2f}"', f' height="{height * wide / width:.2f}"'))
        if "viewBox" not in head:
            head += f' viewBox="0 0 {width:g} {height:g}"'
        return f"{_SIZE.sub(lambda _: next(sizes), head, count=2)}>{rest}"


AS_DRAWN: Final = PictureStyle()


def export_charts(
    folder: RunFolder, analysis: Analysis, out_dir: Path, formats: Sequence[Format] = FORMATS
) -> list[Path]:
    """Write every picture of the report to `out_dir`, in light colours; the files' paths."""
    return save(pictures(folder, analysis), out_dir, formats)


def save(
    named: Iterable[tuple[str, str]], out_dir: Path, formats: Sequence[Format] = FORMATS
) -> list[Path]:
    """Write pictures, (name, SVG), to `out_dir`; the files' paths."""
    out_dir.mkdir(parents=True, exist_ok=True)
    written = []
    for name, svg in named:
        for form in dict.fromkeys(formats):
            file = out_dir / f"{name}.{form}"
            put(file, picture_file(svg, form))
            written.append(file)
    return written


def picture_named(
    folder: RunFolder, analysis: Analysis, name: str, form: str, look: PictureStyle = AS_DRAWN
) -> bytes:
    """One picture of the report, in light colours.

    EXPORT_UNKNOWN_PICTURE when the run has none of that name: without a figure there are no ratios.
    """
    return picked(dict(pictures(folder, analysis)), folder.path, name, form, look)


def picked(
    named: Mapping[str, str], run: Path, name: str, form: str, look: PictureStyle = AS_DRAWN
) -> bytes:
    """The picture of that name among those of a run, name → SVG. EXPORT_UNKNOWN_PICTURE."""
    if name not in named:
        raise UllageError(
            EXPORT_UNKNOWN_PICTURE,
            found=repr(name),
            run=run,
            allowed=", ".join(named) or "none",
            suggestion=nearest(name, named, listed=True),
        )
    scale = 1.0 if look.width_mm else PNG_SCALE
    return picture_file(look.dress(named[name], form), form, scale)


def pictures(folder: RunFolder, analysis: Analysis) -> Iterator[tuple[str, str]]:
    rows = answer.cellar_pictures(analysis)
    if rows:
        yield "barrels", barrels(rows)
    if svg := ratios(analysis):
        yield "ratios", svg
    joules = energy.groups(analysis)
    if joules:
        title = f"times as much energy as {clean(analysis.baseline_label, 60)}"
        yield "energy", forest.draw(joules, _sheet(title))
    trials: dict[str, list[Trial]] = {}
    for trial in folder.trials:
        trials.setdefault(trial.workload, []).append(trial)
    for workload in folder.resolved.workloads:
        mine = trials.get(workload.key, [])
        for metric, kind, chart in workloads.drawn(folder, analysis, workload, mine):
            yield f"{_slug(workload.key)}-{_slug(metric.name)}-{kind}", vega_svg(chart)
    for scaling, chart in across.speed_ups(folder, analysis):
        yield f"{_slug(scaling.steps[0][1].key)}-by-{_slug(scaling.parameter)}", vega_svg(chart)
    for key, kind, chart in hotspots.drawn(folder):
        yield f"{_slug(key)}-{kind}", vega_svg(chart)
    resolved = folder.resolved
    chart = timeline.timeline(resolved.environments, resolved.workloads, folder.trials)
    yield "timeline", vega_svg(chart)


def ratios(analysis: Analysis) -> str | None:
    """The forest plot as one standalone SVG; None without a figure."""
    groups = answer.groups(analysis)
    if not groups:
        return None
    band = NOISE_FLOOR if any(row.floor for group in groups for row in group.rows) else ""
    return forest.draw(groups, _sheet(answer.forest_title(analysis), band))


def _sheet(title: str, band: str = "") -> forest.ForestSheet:
    style = theme.resolve(_TEXT + forest.CSS)
    return forest.ForestSheet(style, title, band, theme.LIGHT["bg"])


def vega_svg(chart: Drawing) -> str:
    """An Altair chart as a standalone SVG."""
    spec = chart.spec | {"width": WIDTH, "background": theme.LIGHT["bg"]}
    svg: str = vl_convert.vegalite_to_svg(theme.resolve(json.dumps(spec)))
    return svg


def stacked(titled: Sequence[tuple[str, str]]) -> str:
    """Charts, (title, SVG), below each other as one standalone SVG."""
    y, wide, parts = 0.0, 0.0, []
    for title, svg in titled:
        width, height = (float(side) for side in _SIZE.findall(svg.partition(">")[0]))
        parts.append(f'<text x="0" y="{y + 16:g}" class="env">{escape(clean(title, 100))}</text>')
        parts.append(svg.replace("<svg ", f'<svg y="{y + 26:g}" ', 1))
        y, wide = y + height + 36, max(wide, width)
    ground = f'<rect width="100%" height="100%" fill="{theme.LIGHT["bg"]}"/>'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide:g}" height="{y:g}" '
        f'viewBox="0 0 {wide:g} {y:g}"><style>{theme.resolve(_TEXT)}</style>{ground}'
        f"{''.join(parts)}</svg>"
    )


def barrels(rows: Sequence[tuple[str, Sequence[tuple[str, barrel.Barrel]]]]) -> str:
    """The barrels of all environments as one standalone SVG.

    rows: environment → (resource, barrel) from left to right.
    """
    longest = max(len(clean(label, 40)) for label, _ in rows)
    margin, step, high = 20 + round(8.6 * longest), barrel.WIDTH + 24, barrel.HEIGHT + 14
    columns = [resource for resource, _ in rows[0][1]]
    width, height = margin + step * len(columns), 30 + high * len(rows)
    parts = [
        f'<text x="{x + barrel.WIDTH / 2}" y="20" class="head">{escape(name)}</text>'
        for x, name in zip(range(margin, width, step), columns, strict=True)
    ]
    for number, (label, cells) in enumerate(rows):
        y = 30 + high * number
        parts.append(
            f'<text x="0" y="{y + high / 2}" class="env">{escape(clean(label, 40))}</text>'
        )
        for i, (_, drawn) in enumerate(cells):
            place = f'<svg x="{margin + step * i}" y="{y}" '
            parts.append(barrel.draw(drawn).replace("<svg ", place, 1))
    style = theme.resolve(_TEXT + barrel.CSS)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}"><style>{style}</style><defs>{barrel.DEFS}</defs>'
        f'<rect width="{width}" height="{height}" fill="{theme.LIGHT["bg"]}"/>'
        f"{''.join(parts)}</svg>"
    )


def picture_file(svg: str, form: str, scale: float = PNG_SCALE) -> bytes:
    """A standalone SVG as the bytes of a file of that format."""
    if form == "png":
        png: bytes = vl_convert.svg_to_png(svg, scale=scale)
        return png
    if form == "pdf":
        pdf: bytes = vl_convert.svg_to_pdf(svg)
        return pdf
    return svg.encode()


def _slug(text: str) -> str:
    """A name that is safe in a file name."""
    return re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-.")[:60] or "unnamed"
