"""ullage in a Jupyter kernel: what a cell shows, and a plan that is run from one."""

from __future__ import annotations

from html import unescape
from pathlib import Path
from typing import Final

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat import NotebookNode

from testing.synthetic import make_run

pytestmark = [pytest.mark.lab, pytest.mark.root]

PLAN: Final = {
    "name": "notebook",
    "baseline": "native",
    "image": "host",
    "environments": {"native": {"provider": "native"}, "other": {"provider": "native"}},
    "workloads": [{"name": "command", "argv": ["sleep", "0.01"]}],
    "blocks": {"min": 6, "max": 6},
}


def executed(place: Path, *cells: str) -> list[NotebookNode]:
    """The result of each cell."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    client = NotebookClient(
        notebook,
        timeout=600,
        kernel_name="python3",
        resources={"metadata": {"path": str(place)}},
    )
    client.execute()
    return [
        next(output for output in cell.outputs if output.output_type == "execute_result")
        for cell in notebook.cells
    ]


def test_a_cell_shows_barrels_and_forest_and_runs_a_plan(tmp_path: Path) -> None:
    make_run(tmp_path / "old", blocks=8)
    old, new, folder = executed(
        tmp_path,
        "import ullage\nullage.open_run('old')",
        f"run = ullage.run({PLAN!r})\nrun",
        "run.path.name",
    )
    for shown in (old, new):
        assert shown.data["text/plain"].startswith("On this machine")
        frame = unescape(shown.data["text/html"])
        assert frame.startswith("<iframe srcdoc=")
        assert frame.count("<svg") >= 2, "barrels, and a forest plot"
    assert list((tmp_path / "runs").iterdir()) == [
        tmp_path / "runs" / folder.data["text/plain"].strip("'")
    ]
