"""`ullage gate`: for the terminal, as Markdown, and as JUnit's XML."""

from __future__ import annotations

from xml.etree import ElementTree

from ullage.analysis.comparison import rounding
from ullage.analysis.gate import Gate, GateFigure
from ullage.common.console import LineTable, escape, stderr, stdout
from ullage.common.text import clean, one_line

HEAD = ("environment", "workload", "metric", "ratio", "90 % interval", "")


def show(gate: Gate, *, passed: bool) -> None:
    """The answer on standard output, what to know beside it on standard error."""
    for sentence in sentences(gate, passed=passed):
        stdout.print(escape(sentence), soft_wrap=True)
    table = LineTable()
    for head in HEAD:
        table.add_column(head, justify="right" if head == "ratio" else "left")
    for figure in gate.figures:
        table.add_row(*(escape(cell) for cell in _row(figure)))
    stdout.print(table)
    for note in gate.notes:
        stderr.print(f"[cyan]note:[/] {escape(clean(note, 300))}", soft_wrap=True)


def sentences(gate: Gate, *, passed: bool) -> list[str]:
    """The gate in words: what decides first."""
    line = rounding.share(gate.worse_than)
    decisive = [figure for figure in gate.figures if figure.outcome in ("worse", "failed")]
    if decisive:
        return [_sentence(gate, figure) for figure in decisive]
    if gate.outcome == "within":
        count = len(gate.figures)
        every = "The figure is" if count == 1 else f"All {count} figures are"
        than = "the old one beside it" if gate.pairs else "before"
        return [f"Passed. {every} shown to be {_within(gate, line)} than {than}."]
    open_ones = [figure for figure in gate.figures if figure.outcome == "inconclusive"]
    verdict = "Passed, as `--inconclusive` has it" if passed else "Failed"
    return [
        f"{verdict}: of {len(gate.figures)} figures {len(open_ones)} are shown to be neither "
        f"within {line} nor worse than that."
    ]


def _within(gate: Gate, line: str) -> str:
    return f"less than {line} worse" if gate.worse_than else "better"


def _sentence(gate: Gate, figure: GateFigure) -> str:
    what = f"{_subject(figure)}"
    if figure.outcome == "failed" or figure.ratio is None:
        return f"Failed. {what}: {figure.reason}."
    estimate, low, high = rounding.ratio(figure.ratio)
    before = clean(gate.pairs.get(figure.workload, "before"), 80)
    worse = f"more than {rounding.share(gate.worse_than)} worse" if gate.worse_than else "worse"
    return (
        f"Failed. {what} is {estimate} times as slow as {before} ({low} to {high}), "
        f"shown to be {worse}."
    )


def _subject(figure: GateFigure) -> str:
    names = (figure.environment_label, figure.workload_title, figure.metric.replace("_", " "))
    label, title, metric = (clean(name, 80) for name in names)
    return f"{metric} of {title} in {label}"


def _row(figure: GateFigure) -> tuple[str, ...]:
    estimate, low, high = rounding.ratio(figure.ratio) if figure.ratio else ("", "", "")
    outcome = figure.outcome + (f": {figure.reason}" if figure.reason else "")
    names = (figure.environment_label, figure.workload_title, figure.metric)
    interval = f"{low} to {high}" if figure.ratio else ""
    return (*(clean(name, 80) for name in names), estimate, interval, clean(outcome, 200))


def markdown(gate: Gate, *, passed: bool) -> str:
    """For a job's summary or a comment on a change."""
    lines = [f"### ullage gate: {'passed' if passed else 'failed'}", ""]
    lines += [_plain(sentence) for sentence in sentences(gate, passed=passed)]
    lines += ["", f"| {' | '.join(HEAD)} |", f"|{' --- |' * len(HEAD)}"]
    lines += [f"| {' | '.join(map(_plain, _row(figure)))} |" for figure in gate.figures]
    lines += ["", *(f"- {_plain(note)}" for note in gate.notes)]
    return "\n".join(lines) + "\n"


def _plain(text: str) -> str:
    """What a guest or a plan said is no mark-up, and no line or row of its own."""
    text = one_line(clean(text, 400))
    return "".join(f"\\{c}" if c in "\\`*_[]<>|#&!" else c for c in text)


def junit(gate: Gate, *, passed: bool) -> bytes:
    """A test case for each figure; inconclusive ones are skipped where the gate passes."""
    failures = sum(_fails(figure, passed=passed) for figure in gate.figures)
    suite = ElementTree.Element(
        "testsuite", name="ullage gate", tests=str(len(gate.figures)), failures=str(failures)
    )
    for figure in gate.figures:
        names = (figure.environment, figure.workload)
        case = ElementTree.SubElement(
            suite,
            "testcase",
            classname=clean(".".join(names), 200),
            name=clean(figure.metric, 100),
        )
        message = " ".join(cell for cell in _row(figure)[3:] if cell)
        if _fails(figure, passed=passed):
            ElementTree.SubElement(case, "failure", message=message, type=figure.outcome)
        elif figure.outcome == "inconclusive":
            ElementTree.SubElement(case, "skipped", message=message)
    suites = ElementTree.Element("testsuites")
    suites.append(suite)
    document: bytes = ElementTree.tostring(suites, encoding="utf-8", xml_declaration=True)
    return document + b"\n"


def _fails(figure: GateFigure, *, passed: bool) -> bool:
    return figure.outcome in ("worse", "failed") or (
        figure.outcome == "inconclusive" and not passed
    )
