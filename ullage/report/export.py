"""The results of a run as a table: CSV, JSON, Parquet or LaTeX for papers, and for the terminal."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from rich.table import Table

from ullage.analysis.causes import causes
from ullage.analysis.comparison import money, systems
from ullage.analysis.comparison.model import Analysis, Comparison, Cost
from ullage.analysis.comparison.rounding import quantity, ratio
from ullage.analysis.comparison.words import SIDE_BY_SIDE, briefly, correction, name, settles
from ullage.analysis.details import details, run_facts
from ullage.common.console import LineTable, escape
from ullage.common.errors import EXPORT_NO_PICTURE, EXPORT_UNKNOWN_FORMAT, UllageError
from ullage.common.text import inert, nearest, whole
from ullage.report import views
from ullage.report.views import tabulate
from ullage.runs.records import FORMAT

TABLES: Final = ("csv", "json", "latex", "parquet")
"""Formats that `export` makes."""
PICTURES: Final = ("svg", "pdf", "png")
"""Formats of pictures, which `report.charts` makes."""
TOOLS: Final = ("hyperfine", "pytest-benchmark", "google-benchmark", "reframe", "prometheus")
"""Formats of other tools, which `report.forms` makes."""
COLUMNS: Final[dict[str, Any]] = {
    "run": pa.string(),
    "environment": pa.string(),
    "environment_label": pa.string(),
    "emulated": pa.bool_(),
    "unequal": pa.string(),
    "baseline": pa.string(),
    "workload": pa.string(),
    "workload_title": pa.string(),
    "resource": pa.string(),
    "metric": pa.string(),
    "unit": pa.string(),
    "better": pa.string(),
    "is_primary": pa.bool_(),
    "is_again": pa.bool_(),
    "baseline_median": pa.float64(),
    "environment_median": pa.float64(),
    "ratio": pa.float64(),
    "low": pa.float64(),
    "high": pa.float64(),
    "confidence": pa.float64(),
    "design": pa.string(),
    "precision": pa.string(),
    "generations": pa.int64(),
    "pairs": pa.int64(),
    "without_figures": pa.int64(),
    "totals_ratio": pa.float64(),
    "totals_low": pa.float64(),
    "totals_high": pa.float64(),
    "tail_quantile": pa.float64(),
    "tail_ratio": pa.float64(),
    "tail_low": pa.float64(),
    "tail_high": pa.float64(),
    "robust_ratio": pa.float64(),
    "robust_low": pa.float64(),
    "robust_high": pa.float64(),
    "type_a": pa.float64(),
    "type_b": pa.float64(),
    "expanded": pa.float64(),
    "correction": pa.string(),
    "p_difference_adjusted": pa.float64(),
    "p_equivalence_adjusted": pa.float64(),
    "margin": pa.float64(),
    "floor": pa.float64(),
    "verdict": pa.string(),
    "no_verdict": pa.string(),
    "blocks_to_settle": pa.int64(),
    "causes": pa.string(),
    "doubts": pa.string(),
    "currency": pa.string(),
    "price_per_hour": pa.float64(),
    "priced_instances": pa.int64(),
    "cost_unit": pa.string(),
    "cost": pa.float64(),
    "cost_low": pa.float64(),
    "cost_high": pa.float64(),
    "cost_ratio": pa.float64(),
    "cost_ratio_low": pa.float64(),
    "cost_ratio_high": pa.float64(),
}
"""Columns of the results table: a row for each comparison, the A/A ones last.

type_a, type_b, expanded: uncertainties of the log-ratio, see `analysis.model.Budget`. The last ten
are empty without a price; see `analysis.model.Cost`.
"""


def export(analysis: Analysis, form: str) -> bytes:
    """The results table as `csv`, `json`, `latex` or `parquet`; figures in full except in LaTeX.

    EXPORT_UNKNOWN_FORMAT for anything else.
    """
    sheet = ExportedTable(analysis.run, COLUMNS, lambda: rows(analysis), lambda: _latex(analysis))
    return sheet.written(form, (*PICTURES, *TOOLS))


def refuse_picture(picture: str | None, form: str) -> None:
    """EXPORT_NO_PICTURE when one is asked for and the format is that of a table."""
    if picture is not None and form in TABLES:
        raise UllageError(
            EXPORT_NO_PICTURE, picture=repr(picture), form=form, allowed=", ".join(PICTURES)
        )


@dataclass(frozen=True)
class ExportedTable:
    """A table of a run that can be written in each format of `TABLES`."""

    run: str
    columns: dict[str, Any]
    rows: Callable[[], list[dict[str, Any]]]
    """Cleaned; made only when a format needs them."""
    latex: Callable[[], bytes]
    format: int = FORMAT
    """Of the run's folder."""

    def written(self, form: str, others: Sequence[str] = ()) -> bytes:
        """In that format; EXPORT_UNKNOWN_FORMAT, which names `others` too."""
        forms: dict[str, Callable[[], bytes]] = {
            "csv": self._csv,
            "json": self._json,
            "latex": self.latex,
            "parquet": self._parquet,
        }
        if form not in forms:
            raise UllageError(
                EXPORT_UNKNOWN_FORMAT,
                found=repr(form),
                allowed=", ".join((*forms, *others)),
                suggestion=nearest(form, (*forms, *others), listed=True),
            )
        return forms[form]()

    def _csv(self) -> bytes:
        """With a header, safe in a spreadsheet."""
        text = io.StringIO()
        writer = csv.DictWriter(text, list(self.columns), lineterminator="\n")
        writer.writeheader()
        for row in self.rows():
            writer.writerow({key: inert(value) for key, value in row.items()})
        return text.getvalue().encode()

    def _json(self) -> bytes:
        """Under the run's name."""
        data = {"format": self.format, "run": whole(self.run), "rows": self.rows()}
        return (json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()

    def _parquet(self) -> bytes:
        schema = pa.schema(list(self.columns.items()), metadata={"format": str(self.format)})
        sink = io.BytesIO()
        table = pa.Table.from_pylist(self.rows(), schema=schema)
        pq.write_table(table, sink, compression="zstd")
        return sink.getvalue()


def rows(analysis: Analysis) -> list[dict[str, Any]]:
    """The results table; its text is cleaned, as it may go straight to a terminal."""
    return cleaned(_row(analysis, c) for c in (*analysis.comparisons, *analysis.again))


def cleaned(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows with their text made harmless."""
    return [
        {key: whole(value) if isinstance(value, str) else value for key, value in row.items()}
        for row in rows
    ]


def _row(analysis: Analysis, c: Comparison) -> dict[str, Any]:
    interval, robust, budget = c.interval, c.robust, c.budget
    return {
        "run": analysis.run,
        "environment": c.environment,
        "environment_label": c.environment_label,
        "emulated": c.emulated,
        "unequal": " ".join(map(systems.plain, c.unequal)),
        "baseline": c.baseline,
        "workload": c.workload,
        "workload_title": c.workload_title,
        "resource": c.resource,
        "metric": c.metric,
        "unit": c.unit,
        "better": c.better,
        "is_primary": c.primary,
        "is_again": c.again,
        "baseline_median": c.baseline_values.median if c.baseline_values else None,
        "environment_median": c.environment_values.median if c.environment_values else None,
        "ratio": c.ratio,
        "low": interval.low if interval else None,
        "high": interval.high if interval else None,
        "confidence": analysis.confidence,
        "design": analysis.design,
        "precision": c.precision,
        "generations": c.generations,
        "pairs": c.pairs,
        "without_figures": c.environment_cell.without_figures + c.baseline_cell.without_figures,
        **_totals(c),
        "robust_ratio": robust.estimate if robust else None,
        "robust_low": robust.low if robust else None,
        "robust_high": robust.high if robust else None,
        "type_a": budget.type_a if budget else None,
        "type_b": budget.type_b if budget else None,
        "expanded": budget.expanded if budget else None,
        "correction": analysis.correction,
        "p_difference_adjusted": c.p_difference_adjusted,
        "p_equivalence_adjusted": c.p_equivalence_adjusted,
        "margin": analysis.margin,
        "floor": c.floor,
        "verdict": c.verdict,
        "no_verdict": c.no_verdict,
        "blocks_to_settle": c.blocks_to_settle,
        "causes": causes.described(c.causes) if c.causes else None,
        "doubts": " ".join(doubt.code for doubt in c.doubts),
        **_money(money.find(analysis, c.environment, c)),
    }


def _totals(c: Comparison) -> dict[str, Any]:
    totals, tail = c.totals, c.tail
    return {
        "totals_ratio": totals.estimate if totals else None,
        "totals_low": totals.low if totals else None,
        "totals_high": totals.high if totals else None,
        "tail_quantile": tail.quantile if tail else None,
        "tail_ratio": tail.ratio.estimate if tail else None,
        "tail_low": tail.ratio.low if tail else None,
        "tail_high": tail.ratio.high if tail else None,
    }


def _money(cost: Cost | None) -> dict[str, Any]:
    ratio = cost.ratio if cost else None
    return {
        "currency": cost.currency if cost else None,
        "price_per_hour": cost.per_hour if cost else None,
        "priced_instances": cost.instances if cost else None,
        "cost_unit": cost.unit if cost else None,
        "cost": cost.cost if cost else None,
        "cost_low": cost.low if cost else None,
        "cost_high": cost.high if cost else None,
        "cost_ratio": ratio.estimate if ratio else None,
        "cost_ratio_low": ratio.low if ratio else None,
        "cost_ratio_high": ratio.high if ratio else None,
    }


def _latex(analysis: Analysis, verdict: Callable[[Comparison], str] | None = None) -> bytes:
    """A `tabular` of the primary metrics for booktabs; figures rounded by their intervals."""
    heads = ("environment", "workload", "ratio", level(analysis.confidence), "from", "verdict")
    rows = (
        (_name(analysis, c), c.workload_title, *_rounded(c), briefly(c), (verdict or _verdict)(c))
        for c in analysis.primary()
    )
    notes = [f"a duet: {SIDE_BY_SIDE}"] if analysis.design == "duet" else []
    return tabular("llrrll", heads, rows, notes)


def captioned(analysis: Analysis, caption: str) -> bytes:
    """The same as a `table` with a caption and a label, its verdicts in one word each."""
    table = _latex(analysis, lambda c: c.verdict or "none").decode()
    needs, _, body = table.partition("\n")
    label = "".join(letter if letter.isalnum() else "-" for letter in whole(analysis.name))
    lines = [
        needs,
        "\\begin{table}",
        "\\centering",
        f"\\caption{{{tex(whole(caption))}}}",
        f"\\label{{tab:{label}}}",
        body.rstrip("\n"),
        "\\end{table}",
        "",
    ]
    return "\n".join(lines).encode()


def level(confidence: float) -> str:
    """The head of a column of intervals, in LaTeX."""
    return f"{100 * confidence:g}\\,\\% interval"


def tabular(
    columns: str,
    heads: Iterable[str],
    rows: Iterable[Iterable[str]],
    notes: Iterable[str] = (),
) -> bytes:
    """A `tabular` for booktabs. heads: LaTeX; rows: as they are; notes: comments above."""
    lines = [
        "% needs \\usepackage{booktabs}",
        *(f"% {note}" for note in notes),
        f"\\begin{{tabular}}{{{columns}}}",
        "\\toprule",
        " & ".join(heads) + " \\\\",
        "\\midrule",
        *(" & ".join(tex(whole(cell)) for cell in row) + " \\\\" for row in rows),
        "\\bottomrule",
        "\\end{tabular}",
        "",
    ]
    return "\n".join(lines).encode()


_TEX: Final = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "{": r"\{",
        "}": r"\}",
        "$": r"\$",
        "&": r"\&",
        "#": r"\#",
        "%": r"\%",
        "_": r"\_",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "\n": " ",
        **{
            letter: f"$\\{name}$"
            for letter, name in zip(
                "εθσυτ", ("epsilon", "theta", "sigma", "upsilon", "tau"), strict=True
            )
        },
        "µ": r"$\mu$",
        "×": r"$\times$",
        "·": r"$\cdot$",
        "−": "$-$",
    }
)


def tex(text: str) -> str:
    """Text as LaTeX has it."""
    return text.translate(_TEX)


def _name(analysis: Analysis, c: Comparison) -> str:
    label = name(c.environment_label, emulated=c.emulated, unequal=c.unequal)
    return f"{label}, {SIDE_BY_SIDE}" if analysis.design == "duet" else label


def _rounded(c: Comparison) -> tuple[str, str]:
    if c.interval is None:
        return "" if c.ratio is None else f"{c.ratio:.3g}", ""
    middle, low, high = ratio(c.interval)
    return middle, f"{low} to {high}"


def _verdict(c: Comparison) -> str:
    if c.no_verdict:
        return f"none: {c.no_verdict}"
    if c.verdict == "inconclusive":
        return f"inconclusive: {settles(c)}"
    return c.verdict or ""


def rich_table(analysis: Analysis) -> Table:
    """The primary metrics for the terminal: a part for each environment, then the A/A."""
    table = LineTable()
    table.add_column(f"against {escape(analysis.baseline_label)}")
    table.add_column("ratio", justify="right", no_wrap=True)
    table.add_column(f"{100 * analysis.confidence:g} % interval", no_wrap=True)
    table.add_column("from")
    table.add_column("verdict")
    heading = ""
    for c in (*analysis.primary(), *(again for again in analysis.again if again.primary)):
        if _name(analysis, c) != heading:
            heading = _name(analysis, c)
            table.add_row(f"[bold]{escape(heading)}[/]")
        last = f"A/A: {_value(c)}" if c.again else _verdict(c)
        cells = (f"  {c.workload_title}", *_rounded(c), briefly(c), last)
        table.add_row(*map(escape, cells))
    return table


def ratio_note(analysis: Analysis) -> str:
    """What the ratios of a run in `rich_table` are."""
    units = "means of the instances' makings" if analysis.generations > 1 else "pairs' ratios"
    return f"ratio: geometric mean of the {units}; above 1 is worse; A/A: the median of its figures"


def money_table(analysis: Analysis) -> Table:
    """What the work costs, for the terminal; empty without a price."""
    numbers = (money.HEADS[2], money.HEADS[5])
    return views.rich_table(tabulate("", money.HEADS, money.rows(analysis), numbers=numbers))


def _value(c: Comparison) -> str:
    """The baseline's absolute value."""
    return quantity(c.baseline_values.median, c.unit) if c.baseline_values else "no figure"


def lines(analysis: Analysis) -> list[str]:
    """All that is known of each comparison of a primary metric, for the terminal."""
    text = [f"{name}: {value}" for name, value in run_facts(analysis)]
    text.append(f"verdicts: {correction(analysis)}")
    for detail in details(analysis):
        text += ["", detail.sentence]
        text += [f"  {name}: {value}" for name, value in detail.facts]
        text += [f"  doubt: {d.message} {d.advice} ({d.code})" for d in detail.doubts]
    return text
