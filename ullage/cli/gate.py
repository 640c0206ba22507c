"""`ullage gate …`: the options. What runs, reads and judges is imported when needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Protocol

import typer

from ullage.cli.guarded import reads_folder
from ullage.cli.options import (
    Json,
    RunsOption,
    labelled,
    pairs,
    run_folders,
    seconds,
    share,
)
from ullage.common.console import print_json, stderr
from ullage.common.errors import GATE_NOT_ALIKE, ExitCode, UllageError
from ullage.common.text import nearest
from ullage.runs import RUNS

if TYPE_CHECKING:
    from ullage.analysis.gate import Gate
    from ullage.runs.reader import RunFolder

EXTENDING: Final = ("extend", "extend-pass")
PASSING: Final = ("pass", "extend-pass")
POLICIES: Final = ("fail", "pass", *EXTENDING)
ALLOWED: Final = ("machine", "image", "plan")


class Question(Protocol):
    """The line, and what is asked of runs by it; of one run alone, of its pairs."""

    def __call__(self, new: RunFolder, before: Sequence[RunFolder], look: int = 0, /) -> Gate: ...


gate_app = typer.Typer(rich_markup_mode=None)

WorseThan = Annotated[
    str,
    typer.Option(
        "--worse-than",
        help="The line that must not be passed: 3% or 0.03; 0: whatever is shown to be worse.",
    ),
]
Metrics = Annotated[
    list[str] | None,
    typer.Option(
        "--metric",
        help="Judge this one, primary or not; may be repeated. Without it all primary ones.",
        show_default=False,
    ),
]
Reference = Annotated[
    str | None,
    typer.Option(
        "--reference",
        help="A workload of the plan that no change touches: figures are taken relative to it.",
        show_default=False,
    ),
]
Allow = Annotated[
    list[str] | None,
    typer.Option(
        "--allow",
        help="machine, image or plan: what of a baseline may be another; may be repeated.",
        show_default=False,
    ),
]
Pair = Annotated[
    list[str] | None,
    typer.Option(
        "--pair",
        help="NEW=OLD, two workloads of one plan, in place of a baseline: the new program is judged"
        " by the old one that ran beside it; may be repeated.",
        show_default=False,
    ),
]
Markdown = Annotated[
    Path | None, typer.Option("--markdown", help="Also write a summary here.", show_default=False)
]
JUnit = Annotated[
    Path | None,
    typer.Option("--junit", help="Also write JUnit's XML here.", show_default=False),
]


@gate_app.command("compare")
@reads_folder
def compare_command(
    runs_given: Annotated[
        list[str],
        typer.Argument(
            metavar="BASELINE… NEW",
            help="Run folders, their names in --runs, or addresses of archives (https://, s3://):"
            " one baseline or more, the new run last. With --pair the one run.",
        ),
    ],
    *,
    worse_than: WorseThan,
    metric: Metrics = None,
    pair: Pair = None,
    reference: Reference = None,
    allow: Allow = None,
    inconclusive: Annotated[
        str, typer.Option("--inconclusive", help="pass or fail: what then is made of it.")
    ] = "fail",
    markdown: Markdown = None,
    junit: JUnit = None,
    runs: RunsOption = RUNS,
    as_json: Json = False,
) -> None:
    """Exit 0 when a run is shown to be within the line, 1 when it is shown to be worse."""
    _check(inconclusive, ("pass", "fail"), "--inconclusive")
    question = _question(worse_than, metric, reference, pair)
    if pair and len(runs_given) > 1:
        raise typer.BadParameter("--pair is of one run: give that alone")
    if not pair and len(runs_given) < 2:
        raise typer.BadParameter("give a baseline run, or several, and the new run")
    *before, new = _opened(runs_given, runs)
    _refuse_unlike(new, before, allow)
    gate = question(new, before)
    _end(gate, inconclusive, markdown, junit, as_json=as_json)


@gate_app.command("run")
@reads_folder
def run_command(
    plan: Annotated[Path, typer.Argument(help="The plan.", show_default=False)],
    *,
    worse_than: WorseThan,
    baseline: Annotated[
        list[str] | None,
        typer.Option(
            "--baseline",
            help="A run of the same plan, of before the change: its folder, its name in --runs, or"
            " the address of an archive (https://, s3://); may be repeated.",
            show_default=False,
        ),
    ] = None,
    metric: Metrics = None,
    pair: Pair = None,
    reference: Reference = None,
    allow: Allow = None,
    inconclusive: Annotated[
        str,
        typer.Option(
            "--inconclusive",
            help="pass, fail, or extend: go on for the time of --extend, then fail; extend-pass:"
            " then pass.",
        ),
    ] = "fail",
    extend: Annotated[str, typer.Option("--extend", help="Time for more blocks.")] = "10m",
    label: Annotated[
        list[str] | None,
        typer.Option("--label", help="NAME=TEXT, as of `ullage run`.", show_default=False),
    ] = None,
    markdown: Markdown = None,
    junit: JUnit = None,
    runs: RunsOption = RUNS,
    as_json: Json = False,
) -> None:
    """Run a plan, and judge it as `gate compare` does."""
    _check(inconclusive, POLICIES, "--inconclusive")
    question = _question(worse_than, metric, reference, pair)
    if bool(baseline) == bool(pair):
        raise typer.BadParameter("give either --baseline, a run of before, or --pair NEW=OLD")
    within_s = seconds("--extend", extend, none=True) if inconclusive in EXTENDING else 0.0
    before = _opened(baseline or (), runs)

    def judged(new: RunFolder, look: int) -> Gate:
        _refuse_unlike(new, before, allow)
        return question(new, before, look)

    same = () if "plan" in (allow or ()) else before
    gate = _run(plan, label, runs, same, _pairs(pair), judged=judged, within_s=within_s)
    _end(gate, inconclusive, markdown, junit, as_json=as_json)


def _run(
    plan: Path,
    labels: list[str] | None,
    runs: Path,
    same: Sequence[RunFolder],
    paired: Mapping[str, str],
    *,
    judged: Callable[[RunFolder, int], Gate],
    within_s: float,
) -> Gate:
    """same: runs that must be of the plan's work; paired: workloads that it must have."""
    from ullage.cli.live.terminal import RunProgress
    from ullage.common.files import put
    from ullage.experiments import preflight
    from ullage.experiments.gate import extended, named_pairs, other_work
    from ullage.experiments.run import run_plan
    from ullage.plan import matrix, schema
    from ullage.runs import parquet, writer
    from ullage.runs.reader import RunFolder
    from ullage.runs.records import PLAN

    checked, document = schema.load(plan)
    checked = labelled(checked, labels)
    if within_s > 0 and checked.blocks.until is not None:
        raise typer.BadParameter(
            "--inconclusive extend: the plan's `until:` may end the run before the gate is sure,"
            " and a run's stop rule does not change: leave it out, or say pass or fail"
        )
    cells = matrix.resolve(checked, document)
    named_pairs(cells, paired, plan)
    for baseline in same:
        if other_work(cells, baseline):
            reason = "its workloads or environments are not those of the plan"
            raise UllageError(
                GATE_NOT_ALIKE, base=baseline.path, new=plan, reason=reason, word="plan"
            )
    preflight.refuse(checked, cells)
    folder = writer.new_folder(runs, checked.name)
    put(folder / PLAN, plan.read_bytes())
    with RunProgress(checked.blocks.max) as progress:
        if run_plan(checked, cells, folder, progress, resume=False) is None:
            raise typer.Exit(ExitCode.INTERRUPTED)
        gate = extended(checked, cells, folder, progress, judged=judged, within_s=within_s)
    if gate is None:
        raise typer.Exit(ExitCode.INTERRUPTED)
    parquet.write(RunFolder.open(folder))
    stderr.print(f"run: {folder}", soft_wrap=True, markup=False)
    return gate


def _question(
    worse_than: str, metric: list[str] | None, reference: str | None, pair: list[str] | None
) -> Question:
    line, paired = _line(worse_than), _pairs(pair)
    if paired and reference is not None:
        raise typer.BadParameter("--reference: in pairs the old program is what figures relate to")

    def question(new: RunFolder, before: Sequence[RunFolder], look: int = 0) -> Gate:
        from ullage.analysis.gate import judge, judge_pairs

        metrics = metric or ()
        if paired:
            return judge_pairs(new, paired, line, metrics=metrics, look=look)
        return judge(new, before, line, metrics=metrics, reference=reference, look=look)

    return question


def _line(text: str) -> float:
    nothing = text.strip().removesuffix("%").strip() in ("0", "0.0")
    return 0.0 if nothing else share("--worse-than", text, "3%")


def _pairs(texts: list[str] | None) -> dict[str, str]:
    return pairs("--pair", texts, "NEW=OLD")


def _opened(runs_given: Sequence[str], root: Path) -> list[RunFolder]:
    """One that was fetched is gone when it was read, and goes by its name."""
    from ullage.runs.reader import RunFolder

    with run_folders(runs_given, root) as folders:
        opened = [RunFolder.open(folder, "gate compare") for folder in folders]
    return [
        folder if folder.path.exists() else replace(folder, path=Path(folder.path.name))
        for folder in opened
    ]


def _refuse_unlike(new: RunFolder, before: Sequence[RunFolder], allow: list[str] | None) -> None:
    from ullage.analysis.gate import unlike

    for word in allow or ():
        _check(word, ALLOWED, "--allow")
    for folder in before:
        for word, reason in unlike(new, [folder]).items():
            if word not in (allow or ()):
                raise UllageError(
                    GATE_NOT_ALIKE, base=folder.path, new=new.path, reason=reason, word=word
                )


def _check(word: str, words: Sequence[str], option: str) -> None:
    if word not in words:
        raise typer.BadParameter(f"{option}: {word!r}: {nearest(word, words)}")


def _end(
    gate: Gate, inconclusive: str, markdown: Path | None, junit: Path | None, *, as_json: bool
) -> None:
    """Say it in each form, and exit."""
    from ullage.cli.output import gate as output
    from ullage.common.files import put

    allowed = gate.outcome == "inconclusive" and inconclusive in PASSING
    passed = gate.outcome == "within" or allowed
    if markdown is not None:
        put(markdown, output.markdown(gate, passed=passed).encode())
    if junit is not None:
        put(junit, output.junit(gate, passed=passed))
    if as_json:
        print_json({"passed": passed, **gate.model_dump(mode="json")})
    else:
        output.show(gate, passed=passed)
    if not passed:
        raise typer.Exit(ExitCode.GATE_FAILED)
