"""Instances whose programs are those of the cloud's image, not of the plan's."""

from __future__ import annotations

import pytest

from testing.clouds import openstack as double
from tests.environments import containerkit as kit
from tests.environments.clouds.test_openstack import provider, running
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.experiments import preflight
from ullage.experiments.elastic.plan import schema as elastic_schema
from ullage.plan import matrix, schema

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("agent_binary")]

PLAN = """\
name: own
baseline: native
resources: {cpus: 1, memory: 512MiB}
allow: [pinning]
environments:
  native: {provider: native}
  cloud: {provider: openstack, flavor: lab, boot_image: debian-12, userland: own}
workloads:
  - {name: command, argv: [uname, -r]}
"""


@kit.in_a_loop
async def test_the_plans_image_is_not_sent(stack: double.OpenStackDouble) -> None:
    """Its programs see the machine's own root, and a directory for data that they can write."""
    async with running(stack, userland="own") as (_, instance):
        assert "cloud_image" not in instance.agent.facts
        assert instance.data == "/var/lib/ullage-instance/data"  # the machine's own root has it
        touched = await kit.sh(instance, f"touch {instance.data}/one && ls {instance.data}")
        assert (touched[0].status, touched[1]) == (0, "one")
        assert (await kit.sh(instance, "hostname"))[1].startswith("c-0")


def test_it_must_be_allowed(stack: double.OpenStackDouble) -> None:
    assert provider(stack, userland="own").userland() == "of the image debian12 of openstack double"
    assert provider(stack).userland() is None
    assert "userland" not in provider(stack).options.model_dump(), "records of before stay"
    plan, document = schema.loads(PLAN, "plan.yaml")
    with pytest.raises(UllageError) as caught:
        preflight.refuse(plan, matrix.resolve(plan, document))
    assert caught.value.kind is errors.PARITY_UNEQUAL
    assert "userland" in caught.value.message
    text = PLAN.replace("[pinning]", "[pinning, userland]")
    preflight.refuse(*_resolved(text))


def _resolved(text: str) -> tuple[schema.Plan, matrix.Matrix]:
    plan, document = schema.loads(text, "plan.yaml")
    return plan, matrix.resolve(plan, document)


def test_images_of_one_name_in_two_clouds_are_two() -> None:
    clouds = "\n".join(
        f"  {name}: {{provider: openstack, cloud: {name}, flavor: lab, boot_image: debian-12, "
        "userland: own}"
        for name in ("one", "two")
    )
    head, _, _ = PLAN.partition("  native:")
    text = f"{head}{clouds}\n{PLAN[PLAN.index('workloads') :]}".replace("native", "one")
    with pytest.raises(UllageError) as caught:
        preflight.refuse(*_resolved(text))
    assert "of the image debian-12 of openstack one" in str(caught.value.message)


def test_nodes_of_an_elastic_run_serve_from_the_image() -> None:
    text = ELASTIC.replace("userland: image", "userland: own")
    elastic_schema.resolve(*elastic_schema.loads(ELASTIC))
    with pytest.raises(UllageError) as caught:
        elastic_schema.resolve(*elastic_schema.loads(text))
    assert caught.value.kind is errors.PLAN_BAD_FIELD
    assert caught.value.facts["line"] == 5


ELASTIC = """\
name: elastic
room: 4
resources: {cpus: 1, memory: 512MiB}
environments:
  cloud: {provider: openstack, flavor: lab, boot_image: debian-12, userland: image}
arrivals: {kind: poisson, rate: 0.01, viewers: 20}
"""
