"""What takes long to load is loaded by the commands that need it, and by no other."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

from testing.synthetic import make_run

LOADED: Final = """
import sys
from ullage.cli.main import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
print(*sys.modules, file=sys.stderr)
"""
SLOW: Final = {"altair", "jinja2", "duckdb", "pyarrow.dataset", "scipy.stats"}
HELP: Final = SLOW | {"pydantic", "asyncio", "numpy", "scipy", "pyarrow", "hashlib"}
HELP_WITHOUT_BOXES: Final = {"typer.rich_utils", "rich.markdown", "rich.traceback"}


def loaded(*argv: str) -> set[str]:
    """The modules that a command has loaded when it ends."""
    done = subprocess.run(
        [sys.executable, "-c", LOADED, *argv], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return set(done.stderr.splitlines()[-1].split())


def test_help_loads_nothing_that_measures_or_computes() -> None:
    modules = loaded("--help")
    assert modules & (HELP | HELP_WITHOUT_BOXES) == set()
    groups = {f"ullage.cli.{name}" for name in ("clock", "elastic", "meter", "study")}
    assert modules & groups == set()


def test_a_group_loads_no_other_group() -> None:
    modules = loaded("clock", "--help")
    assert "ullage.cli.clock" in modules
    assert modules & (SLOW | {"numpy", "ullage.cli.elastic"}) == set()


def test_tables_load_nothing_that_only_pages_and_queries_need(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", blocks=3)
    assert loaded("show", str(run)) & SLOW == set()
    table = tmp_path / "times.csv"
    table.write_text("environment,value\nnative,1\nnative,2\nvm,3\nvm,4\n")
    options = ("--baseline", "native", "--better", "lower")
    assert loaded("compare", str(table), *options) & SLOW == set()
