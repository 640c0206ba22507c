"""ullage's script for Hyper-V hosts, by PowerShell's grammar and Microsoft's command help."""

from __future__ import annotations

from pathlib import Path

import pytest
import tree_sitter

from testing.hyperv.cmdlets import Host
from testing.hyperv.powershell import (
    Interpreter,
    PsError,
    UnknownLanguageError,
    core,
    parse,
    text,
    words,
)
from testing.hyperv.published import PARAMETERS
from ullage.environments.hyperv.host import BOOTSTRAP, OPERATIONS

SCRIPT = OPERATIONS.read_text()

OTHERS = {
    "ConvertFrom-Json": {"InputObject"},
    "ConvertTo-Json": {"InputObject", "Depth", "Compress"},
    "ForEach-Object": set(),
    "Get-ChildItem": {"LiteralPath", "Directory"},
    "Get-CimInstance": {"ClassName"},
    "Import-Module": set(),
    "New-Item": {"ItemType", "Path"},
    "Out-Null": set(),
    "Remove-Item": {"LiteralPath", "Recurse", "Force"},
    "Test-Path": {"LiteralPath", "PathType"},
    "Where-Object": set(),
}
"""What PowerShell itself has, and we use of it."""


def calls(source: str) -> list[tuple[str, set[str]]]:
    """Each command of a script with its parameters."""

    def below(node: tree_sitter.Node) -> list[tree_sitter.Node]:
        own = [node] if node.type == "command" else []
        return own + [inner for child in node.children for inner in below(child)]

    named = []
    for node in below(parse(source)):
        name, elements = words(core(node))
        parameters = {text(part)[1:] for part in elements if part.type == "command_parameter"}
        named.append((name, parameters))
    return named


def test_it_calls_what_microsoft_documents_and_nothing_else() -> None:
    own = {line.split()[1].split("(")[0] for line in SCRIPT.splitlines() if "function " in line}
    known = {name: set(parameters) for name, parameters in PARAMETERS.items()} | OTHERS
    used: dict[str, set[str]] = {}
    for name, parameters in calls(SCRIPT) + calls(BOOTSTRAP):
        if name not in own and not name.startswith("&"):
            used.setdefault(name, set()).update(parameters)
    assert used == known, "the table holds what is used, and all of that"


def test_nothing_is_made_into_code() -> None:
    """The one text that is executed is the script itself, and it asks for no other."""
    lowered = SCRIPT.lower()
    for way in ("invoke-expression", "iex ", "scriptblock", "add-type", "start-process", "& "):
        assert way not in lowered
    assert BOOTSTRAP.count("ScriptBlock") == 1


def test_it_is_plain_ascii() -> None:
    """Windows PowerShell 5.1 would read other bytes in its own code page."""
    assert SCRIPT.isascii() and BOOTSTRAP.isascii()


def test_a_parameter_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text('{"calls": [], "trouble": {}, "slow": {}}')
    for line in ("Get-VM -Colour red", "New-VHD -Path 7", "Set-VMFirmware -EnableSecureBoot Maybe"):
        with pytest.raises(PsError, match="parameter"):
            Interpreter(Host(tmp_path)).run(line)


@pytest.mark.parametrize("line", ["$a = 1 -bor 2", "while ($true) { }", "$unheard"])
def test_language_that_is_not_known_is_no_success(tmp_path: Path, line: str) -> None:
    (tmp_path / "state.json").write_text('{"calls": [], "trouble": {}, "vms": {"a": {}}}')
    with pytest.raises(UnknownLanguageError):
        Interpreter(Host(tmp_path)).run(line)


def test_what_is_no_powershell_is_refused() -> None:
    with pytest.raises(ValueError, match="no PowerShell"):
        parse("if (")
