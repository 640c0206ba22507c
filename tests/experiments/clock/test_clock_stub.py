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


def public(owner: object) -> set[str]:
    return {name for name in vars(owner) if not name.startswith("_")}


def parameters(node: ast.FunctionDef) -> list[tuple[str, bool, bool]]:
    """Name, keyword-only, with a default; without the first one of a method."""
    arguments = node.args
    bare = len(arguments.args) - len(arguments.defaults)
    names = [(argument.arg, False, place >= bare) for place, argument in enumerate(arguments.args)]
    pairs = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    names += [(argument.arg, True, default is not None) for argument, default in pairs]
    return [argument for argument in names if argument[0] not in ("self", "cls")]


def real(function: Any) -> list[tuple[str, bool, bool]]:
    signature = inspect.signature(function).parameters.values()
    return [
        (
            parameter.name,
            parameter.kind is parameter.KEYWORD_ONLY,
            parameter.default is not parameter.empty,
        )
        for parameter in signature
        if parameter.name != "self"
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
    kind = getattr(_clock, name)
    assert kind.__doc__
    stubs = {node.name: node for node in CLASSES[name].body if isinstance(node, ast.FunctionDef)}
    if issubclass(kind, Exception):
        assert not stubs
        return
    assert public(kind) == set(stubs) - {"__new__"}
    for method, node in stubs.items():
        attribute = inspect.getattr_static(kind, method)
        if any(ast.unparse(decorator) == "property" for decorator in node.decorator_list):
            assert inspect.isgetsetdescriptor(attribute), method
        elif method == "__new__":
            assert real(kind) == parameters(node)
        else:
            static = any(
                ast.unparse(decorator) == "staticmethod" for decorator in node.decorator_list
            )
            assert isinstance(attribute, staticmethod) is static
            assert real(getattr(kind, method)) == parameters(node), method


@pytest.mark.parametrize("kind", [clock.Rules, clock.Drift, clock.Standing])
def test_defaults(kind: type) -> None:
    new = next(n for n in CLASSES[kind.__name__].body if isinstance(n, ast.FunctionDef))
    defaults = {
        argument.arg: ast.literal_eval(default)
        for argument, default in zip(new.args.kwonlyargs, new.args.kw_defaults, strict=True)
        if default is not None
    }
    default = kind()
    assert {name: getattr(default, name) for name in defaults} == defaults


def test_everything_is_exported() -> None:
    hidden = {"facts_json", "promise_json", "rate_json", "refine_json", "reason_meanings"}
    hidden |= {"lab", "Progress", "LabError"}
    assert public(_clock) - hidden <= set(clock.__all__)
    assert all(hasattr(clock, name) for name in clock.__all__)
