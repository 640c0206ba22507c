"""The links of a plan's network: where they are refused, and what a run keeps of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.enginekit import run
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.common.yamlfile import parse
from ullage.engine import resolved
from ullage.plan import schema
from ullage.plan.matrix import Matrix, resolve

PLAN = """\
name: links
baseline: native
network: {network}
environments:
  native: {{provider: native}}
  other: {other}
workloads:
  - {workload}
"""
IPERF3 = "{name: iperf3}"


def matrix(
    network: str = "{rate: 1Gbit}", other: str = "{provider: oci}", workload: str = IPERF3
) -> Matrix:
    document = parse(PLAN.format(network=network, other=other, workload=workload))
    return resolve(schema.check(document), document)


def test_every_endpoint_has_the_plans_link() -> None:
    link = matrix("{rate: 100Mbit, queue: 20ms}").link
    assert link is not None
    assert (link.rate, link.queue) == (1e8, 0.02)


@pytest.mark.parametrize("network", ["1Gbit", "{}", "{rate: fast}", "{links: 2}"])
def test_what_is_no_link(network: str) -> None:
    with pytest.raises(UllageError, match=":3"):
        matrix(network)


def test_a_link_that_nothing_uses_is_refused() -> None:
    with pytest.raises(UllageError, match="no workload of the plan uses") as caught:
        matrix(workload="{name: sysbench-cpu}")
    assert caught.value.kind is errors.PLAN_IMPOSSIBLE_MATRIX


@pytest.mark.parametrize(
    "other",
    [
        "{provider: qemu, network: user}",
        "{provider: command, label: x, list: [a], create: [[b]], exec: [c], destroy: [[d]]}",
    ],
)
def test_who_has_a_network_of_its_own_is_refused(other: str) -> None:
    with pytest.raises(UllageError, match="other has a network of its own") as caught:
        matrix(other=other)
    assert caught.value.kind is errors.PLAN_IMPOSSIBLE_MATRIX


def test_a_run_goes_on_over_the_links_that_it_began_with(tmp_path: Path) -> None:
    _, folder = run(tmp_path, ["name: command, argv: ['true']"], blocks=1)
    record = folder.resolved
    assert record.network is None
    faster = record.model_copy(update={"network": {"rate": 1e9, "queue": 0.01}})
    assert "the network's links" in resolved.changed(record, faster)
