"""A limit of open files, told before any machine is reached."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.nodes.descriptors import Descriptors, most
from ullage.plan import matrix, schema
from ullage.plan.instances import Needs

PLAN = """\
name: many
baseline: all
image: host
allow: [instances]
nodes:
{nodes}
environments: {{all: {{provider: native, instances: {count}, place: spread}}}}
workloads: [{{name: command, argv: ["true"]}}]
"""


def plan(count: int) -> str:
    nodes = "\n".join(f"  n{number}: {{ssh: root@n{number}}}" for number in range(count))
    return PLAN.format(nodes=nodes, count=count)


def needs(text: str) -> Descriptors:
    return Needs(matrix.resolve(*schema.loads(text))).descriptors


def test_what_a_plan_takes() -> None:
    """The A/A copy of the environment stands on the machines too, and works in its own turn."""
    many = needs(plan(1000))
    assert (many.nodes, many.instances, many.here, many.working) == (1000, 2000, 0, 1000)
    alone = needs(
        plan(10)
        .replace("place: spread", "place: {here: 10}")
        .replace("  n0:", "  here: {local: true}\n  n0:")
    )
    assert (alone.nodes, alone.instances, alone.here) == (10, 20, 20)
    assert needs(plan(1000)).needed > needs(plan(100)).needed > alone.needed


def test_a_limit_that_is_too_low_names_it_before_a_machine_is_asked(tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text(plan(100), encoding="utf-8")
    needed = needs(plan(100)).needed
    command = ["run", "plan.yaml"]
    for options, status in (([], errors.HOST_DESCRIPTORS.exit_code), (["--dry-run"], 0)):
        done = subprocess.run(
            ["prlimit", "--nofile=300:400", sys.executable, "-m", "ullage", *command, *options],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == status
        assert f"{needed} open files; this process may have 400" in done.stderr
        assert "ulimit -n" in done.stderr
    assert not (tmp_path / "runs").exists(), "no run has begun"


def test_the_soft_limit_is_raised_where_that_is_enough() -> None:
    program = (
        "import resource, json; from ullage.nodes.descriptors import Descriptors\n"
        "limit = resource.RLIMIT_NOFILE\n"
        "resource.setrlimit(limit, (200, 5000)); before = resource.getrlimit(limit)\n"
        "Descriptors(nodes=1, instances=1, here=0, working=1).provide()\n"
        "small = resource.getrlimit(limit)\n"
        "many = Descriptors(nodes=100, instances=100, here=0, working=100); many.provide()\n"
        "print(json.dumps([before, small, [*resource.getrlimit(limit), many.needed]]))"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)
    before, small, (soft, hard, needed) = json.loads(done.stdout)
    assert before == small == [200, 5000]
    assert 200 < soft == needed < hard == 5000, "children inherit it: no more than it takes"


def test_more_than_the_hard_limit() -> None:
    many = Descriptors(nodes=most(), instances=0, here=0, working=0)
    with pytest.raises(UllageError) as caught:
        many.provide()
    assert caught.value.kind is errors.HOST_DESCRIPTORS
    assert len(caught.value.message) <= 120
