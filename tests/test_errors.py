"""The catalogue is closed: every entry has a stable code, a hint, and a test that raises it."""

import string
from pathlib import Path

import pytest

from ullage import errors
from ullage.errors import ErrorKind, ExitCode, UllageError

KINDS = {name: kind for name, kind in vars(errors).items() if isinstance(kind, ErrorKind)}
TESTS = Path(__file__).parent
SOURCES = "\n".join(
    file.read_text() for file in TESTS.rglob("*.py") if file.name != Path(__file__).name
)


def test_codes_are_unique_and_follow_names() -> None:
    assert len({kind.code for kind in KINDS.values()}) == len(KINDS)
    for name, kind in KINDS.items():
        assert kind.code == name.lower().replace("_", "-")


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_is_raised_in_a_test(name: str) -> None:
    assert f"errors.{name}" in SOURCES, f"no test refers to errors.{name}"


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_says_what_to_do(name: str) -> None:
    kind = KINDS[name]
    fields = {
        field.partition(".")[0].partition("[")[0]
        for template in (kind.message, kind.hint)
        for _, field, _, _ in string.Formatter().parse(template)
        if field
    }
    error = UllageError(kind, **dict.fromkeys(fields, 2))
    assert error.message
    assert error.hint
    assert kind.code in str(error)
    assert kind.exit_code in set(ExitCode)
    assert not error.message.endswith(".")
