"""As much of PowerShell's language as ullage's own script for Hyper-V uses, and no more.

PowerShell itself cannot be had where these tests run. tree-sitter's grammar reads the script;
what is not known here is an error, never skipped. This is not PowerShell: it shows what the script
does when the language means what its documents say.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

import tree_sitter
import tree_sitter_powershell

LANGUAGE: Final = tree_sitter.Language(tree_sitter_powershell.language())
Node = tree_sitter.Node


class PsError(Exception):
    """A terminating error, as `catch` sees it."""

    def __init__(self, identifier: str, category: str, words: str) -> None:
        super().__init__(words)
        self.record = {
            "fullyqualifiederrorid": identifier,
            "categoryinfo": {"category": category},
            "exception": {"message": words},
        }


class UnknownLanguageError(Exception):
    """What this interpreter does not know of PowerShell: no script of ours may have it."""


class Cmdlets(Protocol):
    """What commands do that are none of the script's functions."""

    def call(self, name: str, named: dict[str, Any], piped: list[Any]) -> list[Any]: ...

    def static(self, kind: str, member: str, arguments: list[Any]) -> Any: ...


class _ReturnError(Exception):
    def __init__(self, values: list[Any]) -> None:
        super().__init__()
        self.values = values


def parse(source: str) -> Node:
    """The program; ValueError where the grammar does not know it."""
    root = tree_sitter.Parser(LANGUAGE).parse(source.encode()).root_node
    if root.has_error:
        raise ValueError("this is no PowerShell")
    return root


def core(node: Node) -> Node:
    """Without the layers that hold nothing but one other; a string with `$` stays a string."""
    while node.child_count == 1 and node.type != "expandable_string_literal":
        node = node.children[0]
    return node


def text(node: Node) -> str:
    return (node.text or b"").decode()


def words(node: Node) -> tuple[str, list[Node]]:
    """A command's name, and its elements without what separates them."""
    if node.type == "command_name":
        return text(node), []
    elements = [child for child in node.children if child.type == "command_elements"]
    parts = [core(part) for part in (elements[0].children if elements else [])]
    separators = ("command_argument_sep", " ")
    kept = [part for part in parts if part.type not in separators and text(part).strip("` \n")]
    return text(node.children[0]), kept


class Interpreter:
    """One process: its functions and its variables."""

    def __init__(self, cmdlets: Cmdlets) -> None:
        self._cmdlets = cmdlets
        self._functions: dict[str, Node] = {}
        self._scopes: list[dict[str, Any]] = [{"true": True, "false": False, "null": None}]

    def run(self, source: str, **variables: Any) -> list[Any]:
        """What the script gives."""
        self._scopes[0].update(variables)
        return self._block(parse(source))

    def _block(self, node: Node) -> list[Any]:
        values: list[Any] = []
        for child in node.children:
            if child.type in {"{", "}", "comment", "param_block"}:
                continue
            values += self._statement(core(child))
        return values

    def _statement(self, node: Node) -> list[Any]:
        kind = node.type
        if kind in {"statement_list", "program", "script_block", "statement_block"}:
            return self._block(node)
        if handler := self._statements.get(kind):
            return handler(self, node)
        return _unrolled(self._value(node))

    def _assignment(self, node: Node) -> list[Any]:
        left, right = core(node.children[0]), node.children[2]
        self._set(text(left), self._collapsed(right))
        return []

    def _function(self, node: Node) -> list[Any]:
        self._functions[text(_child(node, "function_name")).lower()] = node
        return []

    def _if(self, node: Node) -> list[Any]:
        _only(node, {"if", "(", ")", "pipeline", "statement_block"})
        if self._collapsed(node.children[2]):
            return self._block(node.children[4])
        return []

    def _foreach(self, node: Node) -> list[Any]:
        parts = [child for child in node.children if child.is_named]
        values: list[Any] = []
        for item in self._statement(core(parts[1])):
            self._set(text(core(parts[0])), item)
            values += self._block(parts[2])
        return values

    def _switch(self, node: Node) -> list[Any]:
        value = self._collapsed(_child(node, "switch_condition").children[1])
        for clause in _child(_child(node, "switch_body"), "switch_clauses").children:
            if _same(self._value(core(clause.children[0])), value):
                return self._block(clause.children[1])
        return []

    def _try(self, node: Node) -> list[Any]:
        try:
            return self._block(_child(node, "statement_block"))
        except PsError as error:
            self._scopes[-1]["_"] = error.record
            clause = core(_child(node, "catch_clauses"))
            return self._block(_child(clause, "statement_block"))

    def _return(self, node: Node) -> list[Any]:
        raise _ReturnError(self._statement(core(node.children[1])))

    def _pipeline(self, node: Node) -> list[Any]:
        values: list[Any] = []
        for index, child in enumerate(part for part in node.children if part.type != "|"):
            part = core(child)
            if part.type in {"command", "command_name"}:
                values = self._command(part, values)
            else:
                assert index == 0, "only a command reads a pipeline"
                values = self._statement(part)
        return values

    def _command(self, node: Node, piped: list[Any]) -> list[Any]:
        if node.type == "command" and text(node.children[0]) == "&":
            return self._call_block(node)
        name, elements = words(node)
        if name.lower() in {"where-object", "foreach-object"}:
            return self._filter(name.lower(), elements, piped)
        if function := self._functions.get(name.lower()):
            return self._call(function, [self._argument(part) for part in elements])
        return self._cmdlets.call(name, self._named(elements), piped)

    def _call_block(self, node: Node) -> list[Any]:
        """`& $script $request`: a block that was made of text."""
        names = [text(part) for part in _leaves(node) if text(part).startswith("$")]
        source, argument = (self._get(name) for name in names)
        return self.run(str(source), request=argument)

    def _filter(self, name: str, elements: list[Node], piped: list[Any]) -> list[Any]:
        values: list[Any] = []
        body = _child(elements[0], "script_block")
        for item in piped:
            self._scopes.append({"_": item})
            given = self._block(body)
            self._scopes.pop()
            if name == "foreach-object":
                values += given
            elif given and given[-1]:
                values.append(item)
        return values

    def _call(self, function: Node, arguments: list[Any]) -> list[Any]:
        parameters = [
            text(part)
            for part in _leaves(_child(function, "function_parameter_declaration"))
            if text(part).startswith("$")
        ]
        self._scopes.append({})
        for parameter, value in zip(parameters, arguments, strict=True):
            self._set(parameter, value)
        try:
            return self._block(_child(function, "script_block"))
        except _ReturnError as error:
            return error.values
        finally:
            self._scopes.pop()

    def _named(self, elements: list[Node]) -> dict[str, Any]:
        """Parameter → value; a parameter that no value follows is a switch."""
        named: dict[str, Any] = {}
        last: str | None = None
        for part in elements:
            if part.type == "command_parameter":
                last = text(part)[1:]
                named[last] = True
            else:
                named[last or "0"] = self._argument(part)
                last = None
        return named

    def _argument(self, node: Node) -> Any:
        return text(node) if node.type == "generic_token" else self._value(node)

    def _collapsed(self, node: Node) -> Any:
        """What a pipeline gives, as one value."""
        inner = core(node)
        if inner.type == "array_expression":
            return self._value(inner)
        values = self._statement(inner)
        return values[0] if len(values) == 1 else values or None

    def _value(self, node: Node) -> Any:
        node = core(node)
        kind = node.type
        if kind == "variable" or text(node) == "$_":
            return self._get(text(node))
        if kind == "verbatim_string_characters":
            return text(node)[1:-1].replace("''", "'")
        if kind == "decimal_integer_literal":
            return int(text(node))
        if handler := self._values.get(kind):
            return handler(self, node)
        raise UnknownLanguageError(f"{kind}: {text(node)[:60]}")

    def _string(self, node: Node) -> str:
        source, start, pieces = node.text or b"", node.start_byte, []
        at = 1
        for child in node.children:
            pieces.append(source[at : child.start_byte - start].decode())
            value = self._collapsed(child.children[1])
            pieces.append("" if value is None else str(value))
            at = child.end_byte - start
        return "".join([*pieces, source[at:-1].decode()])

    def _array(self, node: Node) -> list[Any]:
        return [value for child in node.children[1:-1] for value in self._statement(core(child))]

    def _hash(self, node: Node) -> dict[str, Any]:
        bodies = [child for child in node.children if child.type == "hash_literal_body"]
        entries = [e for body in bodies for e in body.children if e.type == "hash_entry"]
        return {text(core(e.children[0])): self._collapsed(e.children[2]) for e in entries}

    def _member(self, node: Node) -> Any:
        target, name = core(node.children[0]), text(core(node.children[2]))
        if node.children[1].type == "::":
            return self._cmdlets.static(text(target).strip("[]"), name, [])
        return _property(self._value(target), name)

    def _element(self, node: Node) -> Any:
        return self._value(node.children[0])[self._value(node.children[2])]

    def _invocation(self, node: Node) -> Any:
        parts = [core(child) for child in node.children]
        listed = [c for c in node.children[-1].children if c.is_named]
        arguments = [self._value(a) for a in _flat(listed)]
        name = text(parts[-2])
        if parts[1].type == "::":
            return self._cmdlets.static(text(parts[0]).strip("[]"), name, arguments)
        return self._cmdlets.static(str(self._value(parts[0])), name, arguments)

    def _compare(self, node: Node) -> bool:
        left, right = self._value(node.children[0]), self._value(node.children[2])
        operator = text(node.children[1]).lower()
        return {
            "-eq": lambda: _same(left, right),
            "-ne": lambda: not _same(left, right),
            "-ceq": lambda: bool(left == right),
            "-clike": lambda: fnmatch.fnmatchcase(str(left), str(right)),
        }[operator]()

    def _add(self, node: Node) -> Any:
        left, right = self._value(node.children[0]), self._value(node.children[2])
        return [*left, *_unrolled(right)] if isinstance(left, list) else left + right

    def _inner(self, node: Node) -> Any:
        return self._collapsed(node.children[1])

    def _get(self, name: str) -> Any:
        for scope in reversed(self._scopes):
            if name[1:].lower() in scope:
                return scope[name[1:].lower()]
        raise UnknownLanguageError(f"{name} is not set")

    def _set(self, name: str, value: Any) -> None:
        self._scopes[-1][name[1:].lower()] = value

    _statements: Final[Mapping[str, Callable[[Interpreter, Node], list[Any]]]] = {
        "assignment_expression": _assignment,
        "function_statement": _function,
        "if_statement": _if,
        "foreach_statement": _foreach,
        "switch_statement": _switch,
        "try_statement": _try,
        "flow_control_statement": _return,
        "pipeline_chain": _pipeline,
        "command": lambda self, node: self._command(node, []),
        "command_name": lambda self, node: self._command(node, []),
    }
    _values: Final[Mapping[str, Callable[[Interpreter, Node], Any]]] = {
        "expandable_string_literal": _string,
        "array_expression": _array,
        "hash_literal_expression": _hash,
        "member_access": _member,
        "element_access": _element,
        "invokation_expression": _invocation,
        "comparison_expression": _compare,
        "additive_expression": _add,
        "additive_argument_expression": _add,
        "parenthesized_expression": _inner,
        "sub_expression": _inner,
    }


def _unrolled(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list) else [value]


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, str) and isinstance(right, str):
        return left.lower() == right.lower()
    return bool(left == right)


def _property(value: Any, name: str) -> Any:
    """Names of properties have no case; of nothing every property is nothing."""
    if isinstance(value, list) and name.lower() == "count":
        return len(value)
    if isinstance(value, dict):
        return {key.lower(): inner for key, inner in value.items()}.get(name.lower())
    return None


def _child(node: Node, kind: str) -> Node:
    return next(child for child in node.children if child.type == kind)


def _only(node: Node, kinds: set[str]) -> None:
    unknown = {child.type for child in node.children} - kinds
    if unknown:
        raise UnknownLanguageError(f"{node.type} with {unknown}")


def _leaves(node: Node) -> list[Node]:
    if node.type == "variable" or not node.children:
        return [node]
    return [leaf for child in node.children for leaf in _leaves(child)]


def _flat(nodes: list[Node]) -> list[Node]:
    """The arguments of a list of them."""
    return [
        c for n in nodes for c in (n.children if n.type.endswith("_list") else [n]) if c.is_named
    ]
