"""What the front pages promise: plans resolve, commands exist."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator
from typer.main import get_command

from ullage import workloads
from ullage.cli import main
from ullage.experiments.elastic.plan import schema as elastic_plan
from ullage.plan import matrix, schema, template

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
ELASTIC = sorted((ROOT / "docs/plans").glob("elastic-*.yaml"))
PLANS = [
    (page.relative_to(ROOT), block)
    for page in PAGES
    for block in re.findall(r"```yaml\n(.*?)```", page.read_text(), re.DOTALL)
    if "baseline:" in block and "arrivals:" not in block
] + [
    (file.relative_to(ROOT), file.read_text())
    for file in (
        ROOT / "demo.yaml",
        ROOT / "ullage/plan/templates/plan.yaml",
        *sorted(plan for plan in (ROOT / "docs/plans").glob("*.yaml") if plan not in ELASTIC),
    )
]


@pytest.mark.parametrize(("page", "text"), PLANS, ids=lambda page: str(page)[:20])
def test_plans_resolve(page: Path, text: str, tmp_path: Path) -> None:
    file = tmp_path / "plan.yaml"
    file.write_text(text)
    assert matrix.resolve(*schema.load(file)).environments, page


def test_elastic_plans_are_read() -> None:
    page = (ROOT / "docs/guide/elastic.md").read_text()
    blocks = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    plans = [block for block in blocks if "arrivals:" in block]
    plans += [file.read_text() for file in ELASTIC]
    assert len(plans) > 2
    for text in plans:
        assert elastic_plan.loads(text)[0].environments


@pytest.mark.parametrize(("page", "text"), PLANS, ids=lambda page: str(page)[:20])
def test_an_editor_that_knows_the_schema_agrees(page: Path, text: str) -> None:
    problems = Draft202012Validator(json.loads(template.schema())).iter_errors(yaml.safe_load(text))
    assert [f"{page}: {problem.json_path}: {problem.message}" for problem in problems] == []


def test_some_plans_are_there() -> None:
    assert {str(page) for page, _ in PLANS} >= {
        "README.md",
        "docs/guide/plan.md",
        "docs/plans/allocation.yaml",
        "docs/plans/everything.yaml",
    }


def test_everything_is_every_workload() -> None:
    plan, _ = schema.load(ROOT / "docs/plans/everything.yaml")
    assert {entry.name for entry in plan.workloads} == set(workloads.names())


def test_the_readmes_commands_exist() -> None:
    commands = get_command(main.app).commands  # type: ignore[attr-defined]
    named = re.findall(r"^ullage (\w+)", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert len(named) > 8
    assert set(named) <= set(commands)
