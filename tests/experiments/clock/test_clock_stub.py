"""The stub says what the extension module has: names, parameters, defaults."""

import ast
import inspect
from pathlib import Path
from types import BuiltinFunctionType
from typing import Any

import pytest

from ullage import _clock
from ullage.host import clock

STUB = ast.parse((Path(_clock.__file__).parent / "_clock.pyi").read_text())
CLASSES = {node.name: node for node in STUB.body if isinstance(node, ast.ClassDef)}
FUNCTIONS = {node.name: node for node in STUB.body if isinstance(node, ast.FunctionDef)}


def public(thing: object) -> set[str]:
    return {name for name in vars(thing) if not name.startswith("_")}


def parameters(node: ast.FunctionDef) -> list[tuple[str, bool, bool]]:
    """Name, keyword-only, with a default; without the first one of a method."""
    given = node.args
    bare = len(given.args) - len(given.defaults)
    found = [(one.arg, False, place >= bare) for place, one in enumerate(given.args)]
    pairs = zip(given.kwonlyargs, given.kw_defaults, strict=True)
    found += [(one.arg, True, default is not None) for one, default in pairs]
    return [one for one in found if one[0] not in ("self", "cls")]


def real(function: Any) -> list[tuple[str, bool, bool]]:
    found = inspect.signature(function).parameters.values()
    return [
        (one.name, one.kind is one.KEYWORD_ONLY, one.default is not one.empty)
        for one in found
        if one.name != "self"
    ]


def test_the_same_names() -> None:
    assert public(_clock) == set(CLASSES) | set(FUNCTIONS)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str) -> None:
    function = getattr(_clock, name)
    assert isinstance(function, BuiltinFunctionType)
    assert real(function) == parameters(FUNCTIONS[name])
    assert function.__doc__


@pytest.mark.parametrize("name", CLASSES)
def test_classes(name: str) -> None:
    made = getattr(_clock, name)
    assert made.__doc__
    told = {node.name: node for node in CLASSES[name].body if isinstance(node, ast.FunctionDef)}
    if issubclass(made, Exception):
        assert not told
        return
    assert public(made) == set(told) - {"__new__"}
    for method, node in told.items():
        attribute = inspect.getattr_static(made, method)
        if any(ast.unparse(one) == "property" for one in node.decorator_list):
            assert inspect.isgetsetdescriptor(attribute), method
        elif method == "__new__":
            assert real(made) == parameters(node)
        else:
            static = any(ast.unparse(one) == "staticmethod" for one in node.decorator_list)
            assert isinstance(attribute, staticmethod) is static
            assert real(getattr(made, method)) == parameters(node), method


@pytest.mark.parametrize("made", [clock.Rules, clock.Drift, clock.Standing])
def test_defaults(made: type) -> None:
    new = next(n for n in CLASSES[made.__name__].body if isinstance(n, ast.FunctionDef))
    defaults = {
        one.arg: ast.literal_eval(default)
        for one, default in zip(new.args.kwonlyargs, new.args.kw_defaults, strict=True)
        if default is not None
    }
    default = made()
    assert {name: getattr(default, name) for name in defaults} == defaults


def test_everything_is_exported() -> None:
    hidden = {"facts_json", "promise_json", "refine_json", "reason_meanings"}
    hidden |= {"lab", "Progress", "LabError"}
    assert public(_clock) - hidden <= set(clock.__all__)
    assert all(hasattr(clock, name) for name in clock.__all__)
