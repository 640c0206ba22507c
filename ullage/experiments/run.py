"""`ullage run` without its options: a plan is run or taken up, and then its answer is written."""

from __future__ import annotations

import asyncio
from pathlib import Path

from ullage.common.console import escape, print_json, stderr, stdout
from ullage.common.errors import ExitCode
from ullage.common.quantities import many
from ullage.common.signals import interruptible
from ullage.engine.engine import Engine
from ullage.engine.progress import Progress, RunOutcome
from ullage.engine.session import left
from ullage.experiments.preflight import BUSY
from ullage.plan.matrix import Matrix
from ullage.plan.schema import Plan
from ullage.runs.events import CellLeft
from ullage.runs.reader import RunFolder, typed


def run_plan(
    plan: Plan, cells: Matrix, folder: Path, progress: Progress, *, resume: bool
) -> RunOutcome | None:
    """Run it in `folder`, which has its plan. None: it was interrupted, and the user told so."""
    engine = Engine(plan, cells, folder, progress, resume=resume, judge=_leaving)
    try:
        return interruptible(engine.run(), left)
    except asyncio.CancelledError:
        stderr.print(
            escape(f"interrupted; take it up with: ullage run --resume {typed(folder)}"),
            soft_wrap=True,
        )
        return None


def _leaving(folder: RunFolder) -> tuple[CellLeft, ...]:
    """What a run that races asks between two blocks."""
    from ullage.analysis import overhead  # noqa: PLC0415 (see `conclude`)

    return overhead.leaving(folder)


def conclude(outcome: RunOutcome, *, as_json: bool) -> ExitCode:
    """The answer first, which needs no disk; then the derived files and the report."""
    # Nothing that measures is beside what computes and draws.
    from ullage.analysis import overhead, sentences  # noqa: PLC0415
    from ullage.analysis.doubts.machine import crowd  # noqa: PLC0415
    from ullage.report import page  # noqa: PLC0415
    from ullage.runs import parquet  # noqa: PLC0415

    folder = RunFolder.open(outcome.folder)
    analysis = overhead.analyse(folder)
    if not as_json:
        for sentence in sentences.answer(analysis):
            stdout.print(escape(sentence), soft_wrap=True)
    parquet.write(folder)
    file = page.write(folder, analysis)
    if as_json:
        print_json(
            {"folder": str(outcome.folder), "report": str(file), **analysis.model_dump(mode="json")}
        )
    else:
        _say_counts(outcome, file)
        if share := crowd(folder.trials):
            _say_crowd(share)
    return ExitCode.SOME_CELLS_FAILED if outcome.failed else ExitCode.DONE


def _say_counts(outcome: RunOutcome, page: Path) -> None:
    stderr.print(
        f"{many(outcome.blocks, 'block')}, {many(outcome.trials, 'trial')}, "
        f"{outcome.failed} without figures; "
        f"ended by {outcome.reason}\nreport: {escape(str(page))}",
        soft_wrap=True,
    )


def _say_crowd(share: float) -> None:
    """Why intervals are wide, where others used much of the host."""
    if share >= BUSY:
        stderr.print(
            f"others used {share:.0%} of this host's CPUs meanwhile: a quieter hour, or `design: "
            "duet`, makes narrower intervals in fewer blocks",
            soft_wrap=True,
        )
