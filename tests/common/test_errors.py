"""The catalogue is closed: every entry has a stable code, a hint, and a test that raises it."""

import ast
import string
from collections.abc import Iterator
from pathlib import Path

import pytest

from ullage.common import errors
from ullage.common.errors import ErrorKind, ExitCode, UllageError

KINDS = {name: kind for name, kind in vars(errors).items() if isinstance(kind, ErrorKind)}
TESTS = Path(__file__).parents[1]
SOURCES = "\n".join(
    file.read_text() for file in TESTS.rglob("*.py") if file.name != Path(__file__).name
)


PACKAGE = Path(errors.__file__).parents[2]
PASSED_ON = {
    "environments/agent/client.py: error.kind",
    "meters/energy/logger.py: _KINDS[answer['error']]",
    "common/fields.py: kind",
    "common/fields.py: wrong",
    "nodes/link.py: kind",
    "nodes/reach/openssh.py: kind",
}
"""Calls that pass on a kind: of an error they caught, or one of several that they are given."""


def placeholders(kind: ErrorKind) -> set[str]:
    return {
        field.partition(".")[0].partition("[")[0]
        for template in (kind.message, kind.hint)
        for _, field, _, _ in string.Formatter().parse(template)
        if field
    }


def makes_error(call: ast.Call) -> bool:
    """`UllageError(…)`, however imported, or a subclass's `super().__init__(KIND, …)`."""
    function = ast.unparse(call.func).rpartition(".")[2]
    if function == "__init__" and call.args:
        return ast.unparse(call.args[0]).rpartition(".")[2] in KINDS
    return function == "UllageError"


def facts_of(call: ast.Call, function: ast.AST) -> set[str]:
    """Names of the facts in a call; `**name` counts as the dict that the function makes of it."""
    facts = {keyword.arg for keyword in call.keywords if keyword.arg}
    for spread in (ast.unparse(keyword.value) for keyword in call.keywords if not keyword.arg):
        for node in ast.walk(function):
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == spread:
                assert isinstance(node.value, ast.Dict), f"cannot see what **{spread} holds"
                facts |= {str(ast.literal_eval(key)) for key in node.value.keys if key}
    return facts


def calls() -> Iterator[tuple[str, str, set[str]]]:
    """Where, the kind as written, and the facts given: of every error that the package makes."""
    for file in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(file.read_text())
        functions = [
            n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)
        ]
        for function in functions:
            for node in ast.walk(function):
                if isinstance(node, ast.Call) and makes_error(node):
                    kind = ast.unparse(node.args[0])
                    yield str(file.relative_to(PACKAGE)), kind, facts_of(node, function)


def test_every_error_is_made_with_all_that_its_words_need() -> None:
    lacking = []
    passed_on = set()
    raised = list(calls())
    for where, kind, facts in raised:
        name = kind.rpartition(".")[2]
        if name not in KINDS:
            passed_on.add(f"{where}: {kind}")
        elif missing := placeholders(KINDS[name]) - facts:
            lacking.append(f"{where}: {name} without {', '.join(sorted(missing))}")
    assert lacking == []
    assert passed_on == PASSED_ON
    assert len(raised) > 70


def test_a_message_is_one_short_sentence_with_a_hint() -> None:
    long = {name for name, kind in KINDS.items() if len(kind.message) > 120 or ". " in kind.message}
    assert long == {"TRY_ALONE"}  # which says what every other environment lacks
    assert {name for name, kind in KINDS.items() if not 0 < len(kind.hint) <= 200} == set()


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
    error = UllageError(kind, **dict.fromkeys(placeholders(kind), 2))
    assert error.message
    assert error.hint
    assert kind.code in str(error)
    assert kind.exit_code in set(ExitCode)
    assert not error.message.endswith(".")
