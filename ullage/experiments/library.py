"""ullage as a library: what `import ullage` offers.

What it returns are the types of `ullage show --json` and `ullage compare --json`, with their
values; faults are `ullage.common.errors.UllageError`, each with a code and a hint.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

import yaml

from ullage.analysis import overhead, runchanges, sentences
from ullage.analysis.comparison.model import Analysis, Comparison
from ullage.analysis.runchanges import Changes
from ullage.analysis.tables import answer as tables
from ullage.analysis.tables import table as sheets
from ullage.analysis.tables.request import Criteria, IntervalMethod, TableRequest
from ullage.common.errors import RUN_INTERRUPTED, UllageError
from ullage.common.text import clean
from ullage.runs import RUNS, parquet
from ullage.runs.events import Trial
from ullage.runs.reader import RunFolder
from ullage.runs.records import Better, Correction


@dataclass(frozen=True)
class Comparisons:
    """The answer of a run or a table: comparisons with intervals and verdicts.

    In a notebook it shows its sentences, its barrels and its forest plot.
    """

    analysis: Analysis
    """All that is known; `analysis.model_dump(mode="json")` is what `--json` prints."""

    @property
    def comparisons(self) -> tuple[Comparison, ...]:
        """Each metric of each workload in each environment: `ratio`, `interval`, `verdict` …"""
        return self.analysis.comparisons

    @property
    def sentences(self) -> list[str]:
        """The answer in plain words."""
        return sentences.answer(self.analysis)

    def __iter__(self) -> Iterator[Comparison]:
        return iter(self.comparisons)

    def __len__(self) -> int:
        return len(self.comparisons)

    def __repr__(self) -> str:
        return "\n".join(clean(sentence) for sentence in self.sentences)

    def _repr_html_(self) -> str:
        from ullage.report import answer, pictures  # noqa: PLC0415 - draws, and is slow to load

        words = "".join(f"<p>{escape(clean(sentence))}</p>" for sentence in self.sentences)
        rows = answer.cellar_pictures(self.analysis)
        drawn = [pictures.barrels(rows)] if rows else []
        if ratios := pictures.ratios(self.analysis):
            drawn.append(ratios)
        # A document of its own: its styles reach nothing else in the notebook.
        page = f"<style>{_STYLE}</style>{words}{''.join(drawn)}"
        return (
            f'<iframe srcdoc="{escape(page)}" sandbox="" style="{_FRAME}" title="ullage"></iframe>'
        )


_STYLE = "body{font:14px system-ui,sans-serif;margin:4px}p{max-width:70ch}svg{display:block}"
_FRAME = "width:100%;height:640px;border:0;background:#fff"


@dataclass(frozen=True, repr=False)
class Run(Comparisons):
    """A run: its folder, and the answer."""

    folder: RunFolder

    @property
    def path(self) -> Path:
        """The run folder."""
        return self.folder.path

    @cached_property
    def samples(self) -> Any:
        """A row for each figure of each trial, as a `pyarrow.Table`; SI units."""
        return parquet.table(self.folder, "samples")

    @cached_property
    def events(self) -> Any:
        """What happened, on one clock, as a `pyarrow.Table`."""
        return parquet.table(self.folder, "events")

    @cached_property
    def meters(self) -> Any:
        """What was read beside the trials, as a `pyarrow.Table`."""
        return parquet.table(self.folder, "meters")

    def report(self, out: Path | str | None = None) -> Path:
        """Write the HTML report, into the run folder or elsewhere; its path."""
        from ullage.report import page  # noqa: PLC0415 - as above

        return page.write(self.folder, self.analysis, None if out is None else Path(out))


class _Silent:
    """Nobody is told how a run goes on; warnings stand in its journal."""

    def step(self, text: str) -> None: ...
    def trial(self, done: Trial, number: int, of_block: int) -> None: ...
    def block(self, number: int, most: int, half_width: float | None) -> None: ...
    def warning(self, text: str) -> None: ...


def open_run(path: Path | str) -> Run:
    """A run folder, read and analysed."""
    folder = RunFolder.open(Path(path))
    return Run(overhead.analyse(folder), folder)


def run(plan: Path | str | Mapping[str, Any], *, runs: Path | str = RUNS) -> Run:
    """Run a plan to its end: a file, or the plan itself as a mapping.

    runs: where the run folder is made. RUN_INTERRUPTED when Ctrl-C, which only the main thread
    hears, stopped it. Needs what `ullage run` needs; a notebook's cell waits for its end.
    """
    # They measure; who only reads runs does not load them.
    from ullage.common.files import put  # noqa: PLC0415
    from ullage.experiments import preflight  # noqa: PLC0415
    from ullage.experiments.run import run_plan  # noqa: PLC0415
    from ullage.plan import matrix, schema  # noqa: PLC0415
    from ullage.runs import writer  # noqa: PLC0415
    from ullage.runs.records import PLAN  # noqa: PLC0415

    if isinstance(plan, Mapping):
        text = yaml.safe_dump(dict(plan), sort_keys=False)
    else:
        text = Path(plan).read_text(encoding="utf-8")
    checked, document = schema.loads(text, str(plan) if isinstance(plan, str | Path) else "plan")
    cells = matrix.resolve(checked, document)
    preflight.refuse(checked, cells)
    folder = writer.new_folder(Path(runs), checked.name)
    put(folder / PLAN, text.encode())
    if run_plan(checked, cells, folder, _Silent(), resume=False) is None:
        raise UllageError(RUN_INTERRUPTED, path=folder)
    return open_run(folder)


def compare(
    table: Path | str,
    *,
    baseline: str,
    columns: Mapping[str, str] | None = None,
    better: Better | None = None,
    again: Mapping[str, str] | None = None,
    margin: float = 0.02,
    confidence: float = 0.95,
    method: IntervalMethod = "welch",
    quantile: float | None = None,
    correction: Correction = "holm",
) -> Comparisons:
    """Compare the rows of a CSV or Parquet file with those of the baseline.

    columns: role → name of a column with another name; again: second copy → the environment that it
    is a copy of. As `ullage compare TABLE`, whose page has the rest.
    """
    request = TableRequest(
        baseline=baseline,
        criteria=Criteria(margin, confidence, method, quantile),
        correction=correction,
        again=dict(again or {}),
    )
    sheet = sheets.read(Path(table), dict(columns or {}), better)
    return Comparisons(tables.analyse(sheet, request).analysis)


def compare_runs(before: Path | str, *later: Path | str) -> Changes:
    """What became of each overhead since a run: one change an overhead, with its interval."""
    first, *others = [
        runchanges.ComparedRun.of(RunFolder.open(Path(path))) for path in (before, *later)
    ]
    return runchanges.compare(first, others)
