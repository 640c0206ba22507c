"""What the front has against a policy is said of the line in the plan."""

import asyncio
from pathlib import Path

import pytest

from ullage import errors, ours
from ullage.elastic import checks, frontprocess
from ullage.elastic import plan as plans
from ullage.errors import UllageError

PLAN = """\
name: policies
baseline: lxc
time_scale: 60
room: 3
environments:
  lxc: {{provider: lxc}}
  other:
    provider: lxc
    {own}
policy: {policy}
nodes: {{max: 8}}
arrivals: {{kind: poisson, rate: 0.0125, viewers: 20}}
video: {{length: 10m, bitrate: 1000000}}
patience: 30s
"""


@pytest.fixture(autouse=True)
def built() -> None:
    """The front, where somebody has built it: `make programs`."""
    try:
        ours.program(frontprocess.PROGRAM)
    except UllageError:
        pytest.skip("needs `make programs`")


def tried(tmp_path: Path, policy: str, own: str = "boot_delay: 1s") -> None:
    file = tmp_path / "plan.yaml"
    file.write_text(PLAN.format(policy=policy, own=own))
    plan, document = plans.load(file)
    asyncio.run(checks.try_fronts(plan, plans.resolve(plan, document), document))


@pytest.mark.parametrize(
    ("policy", "own", "said"),
    [
        ("{name: clairvoyant}", "boot_delay: 1s", r"plan\.yaml:10: policy\.name: found \"clair"),
        ("{name: elastic-movie, rom: 3}", "boot_delay: 1s", r":10: policy\.rom: found no field"),
        (
            "{name: elastic-movie}",
            "policy: {name: hysteresis, nonsense: 1}",
            r":9: environments\.other\.policy\.nonsense: ",
        ),
    ],
)
def test_a_policy_is_refused_by_its_line(tmp_path: Path, policy: str, own: str, said: str) -> None:
    with pytest.raises(UllageError, match=said) as caught:
        tried(tmp_path, policy, own)
    assert caught.value.kind is errors.PLAN_BAD_FIELD
    assert "allowed: " in caught.value.message


def test_policies_that_the_front_knows_pass(tmp_path: Path) -> None:
    tried(tmp_path, "{name: elastic-movie}")
