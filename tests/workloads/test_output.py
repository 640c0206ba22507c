"""Reading reports exactly."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.workloads.base import InvalidTrialError, Output
from ullage.workloads.output import LONGEST_REPORT, line, output_of, quoted, read_lines

REPORT = (line("Speed:"), line("  rate: ", ("rate", 2), " per second, of ", ("count", 0)))


def test_figures_by_name() -> None:
    assert read_lines("Speed:\n\n  rate:     12.50 per second, of 7\n", REPORT) == {
        "rate": 12.5,
        "count": 7,
    }


@pytest.mark.parametrize(
    "second",
    [
        "  rate: 12.5 per second, of 7",
        "  rate: -12.50 per second, of 7",
        "  rate: nan per second, of 7",
        "  rate: inf per second, of 7",
        "  rate: 1e300 per second, of 7",
        "  rate: 12.50 per second, of 7.0",
        "  rate: 12.50 per second, of ",
        "  rate: 12.50 per second, of 7 ",
        "  rate: 12.50 per second, of 7\x00",
        "  rate: 12.50 per second, of ٧",
        "  rate: " + "9" * 400 + ".00 per second, of 7",
        "",
    ],
)
def test_a_line_that_differs_is_quoted(second: str) -> None:
    with pytest.raises(InvalidTrialError) as caught:
        read_lines(f"Speed:\n{second}\n", REPORT)
    assert "<rate> per second" in str(caught.value)


def test_a_line_too_many() -> None:
    with pytest.raises(InvalidTrialError, match="line 3 is one too many: 'extra'"):
        read_lines("Speed:\n  rate: 12.50 per second, of 7\nextra", REPORT)


def test_too_much_text() -> None:
    with pytest.raises(InvalidTrialError, match="which is not its report"):
        read_lines("x" * (LONGEST_REPORT + 1), REPORT)


@given(st.text())
def test_any_text_is_read_or_invalid(text: str) -> None:
    with pytest.raises(InvalidTrialError):
        read_lines(text, REPORT)


@given(st.text())
def test_quotations_are_short_printable_and_of_one_line(text: str) -> None:
    quotation = quoted(text, 20)
    assert quotation.isprintable()
    assert len(quotation) <= 20 * 10 + 3


def output(status: int | None, signal: int | None, stdout: str = "", stderr: str = "") -> Output:
    return Output(status, signal, stdout, stderr, 1.0)


def test_an_end_in_order() -> None:
    good = output(3, None)
    assert output_of({"main": good}, "main", 3) is good


@pytest.mark.parametrize(
    ("failed", "says"),
    [
        (
            output(1, None, stderr="note\nFATAL: no file\n"),
            "status 1, expected 0: 'FATAL: no file'",
        ),
        (output(1, None, stdout="FATAL: no file\n"), "'FATAL: no file'"),
        (output(1, None, stderr="usage: x"), "'usage: x'"),
        (output(None, None), "status None"),
        (output(None, 9), "signal 9"),
    ],
)
def test_a_bad_end_says_what_the_program_said(failed: Output, says: str) -> None:
    with pytest.raises(InvalidTrialError) as caught:
        output_of({"main": failed}, "main")
    assert says in str(caught.value)


def test_no_output_at_all() -> None:
    with pytest.raises(InvalidTrialError, match="no output of main"):
        output_of({}, "main")
