"""Every whole plan that the docs show is one: `--dry-run` takes it as it stands.

One that this kind of host cannot even check has `<!-- needs: WHAT -->` right before its fence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.support.commandkit import ullage
from ullage.experiments.elastic.plan import schema as elastic_schema
from ullage.experiments.studies import STUDIES
from ullage.experiments.studies.plantexts import Clouds, with_clouds, with_disks, with_room
from ullage.plan import matrix, schema

ROOT: Final = Path(__file__).parent.parent
PAGES: Final = ("README.md", "CONTRIBUTING.md", "docs/**/*.md", "ullage/**/*.md")
FILES: Final = ("*.yaml", "docs/**/*.yaml", "ullage/experiments/studies/*/*.yaml")
_FENCE: Final = re.compile(r"(<!-- needs: [^>]+ -->\n)?^```ya?ml\n(.*?)^```", re.M | re.S)


def written() -> Iterator[tuple[str, str]]:
    """Where a plan stands, and its text."""
    for pattern in FILES:
        for file in sorted(ROOT.glob(pattern)):
            yield str(file.relative_to(ROOT)), file.read_text(encoding="utf-8")
    for pattern in PAGES:
        for page in sorted(ROOT.glob(pattern)):
            text = page.read_text(encoding="utf-8")
            for fence in _FENCE.finditer(text):
                if fence[1] is None:
                    line = text.count("\n", 0, fence.start(2))
                    yield f"{page.relative_to(ROOT)}:{line}", fence[2]


def has(text: str, field: str) -> bool:
    return re.search(rf"^{field}:", text, re.M) is not None


PLANS: Final = {
    where: text
    for where, text in written()
    if has(text, "environments") and (has(text, "workloads") or has(text, "arrivals"))
}


CLOUDS: Final = Clouds({"mine": {"provider": "lxc"}}, {"cpus": 1}, Path("plan.yaml"))


STEPS: Final = {
    plan.room_of
    for study in STUDIES
    for quick in (True, False)
    for plan in study().plans(quick)
    if plan.room_of
}


def test_plans_of_either_kind_are_found() -> None:
    assert any(has(text, "arrivals") for text in PLANS.values())
    assert any(where.startswith("docs/guide/plan.md:") for where in PLANS)


@pytest.mark.parametrize("where", PLANS)
def test_a_plan_of_the_docs_can_be_run(where: str, tmp_path: Path) -> None:
    text = PLANS[where]
    if "PATH" in text:  # of each disk that `--disk` names
        text = with_disks(text, [tmp_path, Path("/dev/shm")])
    if "INSTANCE" in text:  # of each cloud that `--cloud` leads to
        text = with_clouds(text, CLOUDS)
    for step in STEPS:  # a run of which says a room
        text = with_room(text, step, None)
    (tmp_path / "plan.yaml").write_text(text, encoding="utf-8")
    command = ("elastic", "run") if has(text, "arrivals") else ("run",)
    done = ullage(*command, "plan.yaml", "--dry-run", cwd=tmp_path)
    if "cmu_overhead/full-x" in where and done.code:  # for hosts with as many CPUs
        assert "is room for 0 instances" in done.stderr
        return
    assert done.code == 0, f"{where}: {done.stderr}"
    assert "environments are not equal" not in done.stderr, "it would be refused"


def of_clouds() -> Iterator[str]:
    """The guide's plans that a cloud must be there for: whole ones."""
    text = (ROOT / "docs/guide/clouds.md").read_text(encoding="utf-8")
    for fence in _FENCE.finditer(text):
        if fence[1] == "<!-- needs: a cloud -->\n":
            yield fence[2]


def test_plans_with_clouds_can_be_read() -> None:
    """No cloud is asked: their fields, sizes and names are looked at."""
    plans = list(of_clouds())
    assert len(plans) >= 3
    for text in plans:
        if has(text, "arrivals"):
            assert elastic_schema.resolve(*elastic_schema.loads(text, "plan.yaml"))
        else:
            assert matrix.resolve(*schema.loads(text, "plan.yaml")).cells > 0
