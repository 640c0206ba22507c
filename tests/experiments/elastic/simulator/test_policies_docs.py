"""The pages of policies and of the simulator say what is there."""

import re
from pathlib import Path

import pytest
import yaml

from tests.experiments.elastic.elastic_made import SyntheticEnvironment, SyntheticRun, make
from ullage import _elastic
from ullage.common.yamlfile import read
from ullage.experiments.elastic.simulator import sweep
from ullage.experiments.elastic.simulator.spec import load

GUIDE = Path(__file__).parents[4] / "docs/guide"
PAGE = (GUIDE / "elastic-policies.md").read_text()
POLICIES = PAGE.partition("\n## The policies\n")[2].partition("\n## ")[0]
SPECIFICATIONS = re.findall(
    r"```yaml\n(.*?)```", (GUIDE / "elastic-simulator.md").read_text(), re.DOTALL
)


def test_every_policy_has_its_row() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \|", POLICIES, re.MULTILINE)[1:]
    assert sorted(rows) == sorted(_elastic.policies())


def test_every_field_of_a_row_is_one_of_that_policy(tmp_path: Path) -> None:
    for name, fields in re.findall(r"^\| `([a-z-]+)` \|.*\| (.*) \|$", POLICIES, re.MULTILINE)[1:]:
        defaults = dict(re.findall(r"`(\w+)` \(([\d.]+)\)", fields))
        if not defaults:
            continue
        file = tmp_path / "spec.yaml"
        policy = {"name": name, **{field: float(value) for field, value in defaults.items()}}
        policy |= {field: int(value) for field, value in policy.items() if value in (1.0, 60.0)}
        arrivals = {"rate": 1, "viewers": 1}
        spec = {"room": 1, "arrivals": arrivals, "allocation": 1, "policy": policy}
        file.write_text(yaml.safe_dump(spec))
        assert load(file).rust["policy"]["name"] == name


@pytest.mark.parametrize(
    ("text", "points"),
    list(zip(SPECIFICATIONS, (1, 1, 2, 6), strict=True)),
    ids=["simulate", "of-a-run", "measured", "sweep"],
)
def test_what_the_simulators_page_shows_can_be_simulated(
    text: str, points: int, tmp_path: Path
) -> None:
    file = tmp_path / "spec.yaml"
    run = make(
        tmp_path,
        SyntheticRun(
            environments={"native": SyntheticEnvironment(), "lxc": SyntheticEnvironment()},
            repetitions=1,
        ),
    )
    file.write_text(re.sub(r"runs/[\w-]+", str(run), text))
    assert len(sweep.load(read(file))[1]) == points
