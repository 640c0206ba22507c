"""Writes a man page for each command, from what its `--help` is made of."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.main import get_command

from ullage import __version__
from ullage.cli.main import app


def write(folder: Path) -> list[Path]:
    """`ullage.1`, `ullage-run.1`, …"""
    folder.mkdir(parents=True, exist_ok=True)
    root = get_command(app)
    files = []
    for context in _contexts(root, root.context_class(root, info_name="ullage")):
        file = folder / f"{_name(context)}.1"
        file.write_text(page(context), encoding="utf-8")
        files.append(file)
    return files


def page(context: Any) -> str:
    """In man(7)'s macros."""
    command, name = context.command, _name(context)
    short = command.get_short_help_str(limit=200).rstrip(".")
    usage = " ".join(command.collect_usage_pieces(context))
    lines = [
        f'.TH "{name.upper()}" "1" "" "ullage {__version__}" "User Commands"',
        ".SH NAME",
        f"{_text(name)} \\- {_text(short)}",
        ".SH SYNOPSIS",
        f"\\fB{_text(context.command_path)}\\fR {_text(usage)}",
    ]
    if command.help:
        lines += [".SH DESCRIPTION", _text(command.help)]
    options = [param.get_help_record(context) for param in command.get_params(context)]
    lines += _terms("OPTIONS", [record for record in options if record is not None])
    commands = {
        f"{name}-{child.info_name}(1)": child.command.get_short_help_str(limit=200)
        for child in _below(command, context)
    }
    return "\n".join([*lines, *_terms("COMMANDS", list(commands.items()))]) + "\n"


def _contexts(command: Any, context: Any) -> Iterator[Any]:
    yield context
    for below in _below(command, context):
        yield from _contexts(below.command, below)


def _below(command: Any, context: Any) -> list[Any]:
    names = command.list_commands(context) if hasattr(command, "list_commands") else []
    commands = {name: command.get_command(context, name) for name in names}
    return [
        child.context_class(child, info_name=name, parent=context)
        for name, child in commands.items()
        if not child.hidden
    ]


def _name(context: Any) -> str:
    return str(context.command_path).replace(" ", "-")


def _terms(title: str, terms: list[tuple[str, str]]) -> list[str]:
    lines = [
        line for term, text in terms for line in (".TP", f"\\fB{_text(term)}\\fR", _text(text))
    ]
    return [f".SH {title}", *lines] if lines else []


def _text(text: str) -> str:
    """Nothing in it is roff's: a backslash, a dash that may break, a dot that begins a line."""
    plain = text.replace("\\", "\\e").replace("-", "\\-")
    return "\n".join(f"\\&{line}" if line[:1] in (".", "'") else line for line in plain.split("\n"))
