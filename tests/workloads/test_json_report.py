"""Reading a report that a tool prints as JSON."""

import pytest

from ullage.workloads.base import InvalidTrialError
from ullage.workloads.output import LONGEST, Count, ExactReportPart, ReportPart, read


class Inner(ReportPart):
    count: Count


class Whole(ReportPart):
    inner: Inner


class Exact(ExactReportPart):
    count: Count


def test_a_report_is_read_and_its_other_fields_do_not_matter() -> None:
    assert read(Whole, '{"inner": {"count": 23, "more": 1}, "else": []}').inner.count == 23


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "'the whole'"),
        ('{"inner": {"count": 1}', "'the whole'"),
        ('{"inner": {}}', "'inner.count': Field required"),
        ('{"inner": {"count": "1"}}', "'inner.count'"),
        ('{"inner": {"count": -1}}', "'inner.count'"),
        ('{"inner": {"count": NaN}}', "'inner.count'"),
    ],
)
def test_what_is_not_the_report_is_refused_with_the_first_fault(text: str, complaint: str) -> None:
    with pytest.raises(InvalidTrialError, match="its JSON is not a report: ") as raised:
        read(Whole, text)
    assert complaint in str(raised.value)
    assert str(raised.value).endswith(f"begins {text!a}")


def test_a_program_of_ours_says_nothing_else() -> None:
    with pytest.raises(InvalidTrialError, match=r"'mor\\x1be': Extra") as raised:
        read(Exact, '{"count": 1, "mor\\u001be": 2}', "client")
    assert str(raised.value).startswith("client: its JSON")


def test_more_than_a_report_is_not_looked_at() -> None:
    with pytest.raises(InvalidTrialError, match="printed 65537 characters"):
        read(Exact, '{"count": 1}'.ljust(LONGEST + 1))
    assert read(Exact, '{"count": 1}'.ljust(LONGEST + 1), longest=LONGEST + 1).count == 1
