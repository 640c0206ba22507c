"""YAML with line numbers: plain data, and where each field stood."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from ullage.common.errors import PLAN_BAD_FIELD, PLAN_BAD_YAML, PLAN_NOT_READABLE, UllageError
from ullage.common.text import clean

FieldPath = tuple[str | int, ...]

MAX_BYTES = 1 << 20
MAX_NODES = 100_000
"""Aliases are expanded; more nodes than this is a mistake or an attack."""

MAX_DEPTH = 40
MAX_BITS = 64
"""Of an integer, however it is written: in hex, binary or base 60 a line holds thousands."""
_NOT_CONSTRUCTED = (
    yaml.YAMLError,
    ValueError,
    ArithmeticError,
    LookupError,
    AttributeError,
    TypeError,
)
"""What PyYAML raises where a tag promises what the text is not: not all of it is its own."""
STANDARD_TAG = "tag:yaml.org,2002:"
OBJECT_TAG = STANDARD_TAG + "python/"


@dataclass(frozen=True)
class YamlFile:
    """The data of a file and the line of every field."""

    name: str
    data: Any
    lines: dict[FieldPath, int]

    def line(self, path: FieldPath) -> int:
        """The line (from 1) of the field at `path`, or of its nearest parent that stands there."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


def read(file: Path) -> YamlFile:
    """Read a file; raises PLAN_NOT_READABLE or PLAN_BAD_YAML."""
    try:
        with file.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
        if len(raw) > MAX_BYTES:
            raise UllageError(PLAN_NOT_READABLE, file=file, reason="it is larger than 1 MiB")
        text = raw.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise UllageError(PLAN_NOT_READABLE, file=file, reason=reason) from error
    return parse(text, str(file))


def parse(text: str, name: str = "plan.yaml") -> YamlFile:
    """Parse one document of safe YAML; duplicate keys are refused."""
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else 1
        reason = getattr(error, "problem", None) or " ".join(str(error).split())
        raise UllageError(PLAN_BAD_YAML, file=name, line=line, reason=reason) from error
    reader = _Reader(name)
    data = None if root is None else reader.value(root, ())
    return YamlFile(name, data, reader.lines)


class _Reader:
    """Turns composed nodes into plain data and keeps their lines."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lines: dict[FieldPath, int] = {}
        self.nodes = 0
        self.constructor = yaml.SafeLoader("")

    def value(self, node: yaml.Node, path: FieldPath) -> Any:
        self.nodes += 1
        line = node.start_mark.line + 1
        if self.nodes > MAX_NODES:
            self.refuse(line, f"it expands to more than {MAX_NODES} values")
        if len(path) > MAX_DEPTH:
            self.refuse(line, f"it is nested more than {MAX_DEPTH} deep")
        self.lines.setdefault(path, line)
        if not node.tag.startswith(STANDARD_TAG) or node.tag.startswith(OBJECT_TAG):
            self.refuse(line, f"the tag {node.tag[:60]} is not allowed")
        if isinstance(node, yaml.MappingNode):
            return self.mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, (*path, i)) for i, item in enumerate(node.value)]
        return self.scalar(node, line)

    def scalar(self, node: yaml.Node, line: int) -> Any:
        try:
            value = self.constructor.construct_object(node)
        except _NOT_CONSTRUCTED as error:
            written = clean(str(node.value), 60) or "nothing"
            kind = node.tag.removeprefix(STANDARD_TAG)
            self.refuse(line, getattr(error, "problem", None) or f"{written!r} is no {kind}")
        if isinstance(value, int) and value.bit_length() > MAX_BITS:
            self.refuse(line, f"an integer of more than {MAX_BITS} bits: {clean(node.value, 60)}")
        return value

    def mapping(self, node: yaml.MappingNode, path: FieldPath) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                self.refuse(line, "a field name must be plain text")
            key = key_node.value
            if key in result:
                raise UllageError(
                    PLAN_BAD_FIELD,
                    file=self.name,
                    line=line,
                    field=".".join(map(str, (*path, key))),
                    found="the same field twice",
                    allowed="each field stands once",
                    suggestion="remove one of the two",
                )
            self.lines[(*path, key)] = line
            result[key] = self.value(value_node, (*path, key))
        return result

    def refuse(self, line: int, reason: str) -> Any:
        raise UllageError(PLAN_BAD_YAML, file=self.name, line=line, reason=reason)
