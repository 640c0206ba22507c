"""Instances of EC2: moto's server, with a real machine behind each instance."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError

from testing.clouds import ec2 as double
from testing.clouds.ec2 import an_error
from testing.clouds.fake import Answer
from tests.environments import containerkit as kit
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.common.quantities import memory_bytes
from ullage.environments.base import Instance, InstanceSpec
from ullage.environments.clouds.driver import NotAnAnswerError
from ullage.environments.clouds.ec2 import Ec2, Ec2Driver, Ec2Options
from ullage.host import paths, user_commands

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("agent_binary", "credentials")]


def provider(cloud: double.Ec2Double, **more: Any) -> Ec2:
    fields = cloud.plan(**more)
    del fields["provider"]
    return Ec2(Ec2Options.model_validate(fields))


def spec(run: kit.Run, cloud: double.Ec2Double) -> InstanceSpec:
    """An instance of the whole host."""
    cpu_ids = tuple(range(cloud.cpus))
    return replace(run.spec(), cpu_ids=cpu_ids, memory_bytes=memory_bytes(), network=None)


@asynccontextmanager
async def running(cloud: double.Ec2Double, **more: Any) -> AsyncIterator[tuple[kit.Run, Instance]]:
    async with kit.running(provider(cloud, **more)) as run:
        yield run, await run.create(spec(run, cloud))
    assert cloud.left() == []
    assert [r for r in user_commands.records() if r.tag == run.tag] == []


@pytest.mark.parametrize("host_key", ["inject", pytest.param("console", marks=pytest.mark.lab)])
@kit.in_a_loop
async def test_made_used_and_removed(cloud: double.Ec2Double, host_key: str) -> None:
    async with running(cloud, host_key=host_key) as (run, instance):
        assert len(cloud.left()) == 2, "the instance and its key"
        assert (await kit.sh(instance, "hostname; cat /etc/debian_version"))[1].startswith(
            "c-0\n12"
        )
        assert (await kit.sh(instance, "touch /here"))[0].status != 0, "the image is read-only"
        assert (await kit.sh(instance, "echo x > /data/file; cat /data/file"))[1] == "x"
        await instance.freeze()
        await instance.thaw()
        (record,) = [r for r in user_commands.records() if r.tag == run.tag]
        assert "s3cret" not in record.model_dump_json()
        await instance.destroy()
        assert cloud.left() == []


@pytest.mark.lab
@kit.in_a_loop
async def test_the_clock_over_ssh_holds_its_bound(cloud: double.Ec2Double) -> None:
    """It is this host's clock, only nobody says so: what is told of it must contain the truth."""
    async with running(cloud) as (_, instance):
        assert not instance.agent.clock_claims.shared
        for _ in range(5):
            seen = await instance.agent.sync()
            assert abs(seen.offset_ns) <= seen.bound_ns
            assert instance.agent.rtt_ns // 2 <= seen.bound_ns, "no narrower than half the way"


async def refused(cloud: double.Ec2Double, **more: Any) -> UllageError:
    """Why none could be made; nothing is left of it."""
    with pytest.raises(UllageError) as caught:
        async with running(cloud, **more):
            pass
    assert cloud.left() == []
    return caught.value


@pytest.mark.parametrize(
    ("code", "status", "kind"),
    [
        ("AuthFailure", 401, errors.CLOUD_CREDENTIALS),
        ("RequestExpired", 400, errors.CLOUD_CREDENTIALS),
        ("VcpuLimitExceeded", 400, errors.CLOUD_QUOTA),
        ("InsufficientInstanceCapacity", 500, errors.CLOUD_QUOTA),
        ("InvalidAMIID.NotFound", 400, errors.CLOUD_LACKS),
        ("InvalidParameterCombination", 400, errors.CLOUD_REFUSED),
    ],
)
@kit.in_a_loop
async def test_a_refusal_in_the_clouds_own_words(
    cloud: double.Ec2Double, code: str, status: int, kind: errors.ErrorKind
) -> None:
    answer = an_error(code, status, "no more of that")
    cloud.trouble = lambda action: answer if action == "RunInstances" else None
    error = await refused(cloud)
    assert error.kind is kind
    assert "no more of that" in error.message
    assert cloud.calls.count("RunInstances") == 1, "it is not asked again"


@kit.in_a_loop
async def test_a_limit_of_calls_is_waited_out(cloud: double.Ec2Double) -> None:
    bad = 2

    def trouble(action: str) -> Answer | None:
        nonlocal bad
        bad -= action == "DescribeInstanceTypes"
        return an_error("RequestLimitExceeded", 503) if bad >= 0 else None

    cloud.trouble = trouble
    await provider(cloud).check()
    assert cloud.calls.count("DescribeInstanceTypes") == 3


@pytest.mark.lab
@kit.in_a_loop
async def test_a_lost_answer_makes_no_second_instance(cloud: double.Ec2Double) -> None:
    cloud.lost = 2
    async with running(cloud):
        assert cloud.calls.count("RunInstances") == 3
        assert len(cloud.machines) == 1


@kit.in_a_loop
async def test_one_that_never_boots(cloud: double.Ec2Double) -> None:
    cloud.dead = True
    error = await refused(cloud, deadline_s=5)
    assert error.kind is errors.CLOUD_NOT_UP
    assert "port 22: Connection refused" in error.message


@kit.in_a_loop
async def test_somebody_else_answers(cloud: double.Ec2Double) -> None:
    cloud.impostor = True
    assert (await refused(cloud)).kind is errors.CLOUD_HOST_KEY


@kit.in_a_loop
async def test_a_flavor_of_another_size(cloud: double.Ec2Double) -> None:
    error = await refused(cloud, flavor="t3.micro")
    assert error.kind is errors.CLOUD_FLAVOR
    assert "RunInstances" not in cloud.calls


@kit.in_a_loop
async def test_between_endpoints_it_is_refused(cloud: double.Ec2Double) -> None:
    async with kit.running(provider(cloud)) as run:
        with pytest.raises(UllageError) as caught:
            await run.create(replace(spec(run, cloud), network=run.network))
    assert caught.value.kind is errors.CLOUD_NETWORK


@pytest.mark.lab
@kit.in_a_loop
async def test_one_that_vanishes(cloud: double.Ec2Double) -> None:
    async with running(cloud) as (_, instance):
        cloud.vanish()
        async with asyncio.timeout(60):
            while instance.alive:
                await asyncio.sleep(0.05)
        error = await instance.why_gone()
        assert error is not None
        assert error.kind is errors.CLOUD_VANISHED
        assert "terminated" in error.message


@kit.in_a_loop
async def test_bytes_that_change_on_the_way(
    cloud: double.Ec2Double, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ullage.environments.clouds.ssh.sha256_of", lambda _: "0" * 64)
    assert (await refused(cloud)).kind is errors.CLOUD_IMAGE_CORRUPT


def test_clean_asks_the_cloud(cloud: double.Ec2Double) -> None:
    """The controller is gone: the cloud is asked by what it wrote down before it asked."""
    record = asyncio.run(_abandoned(cloud))
    assert len(cloud.left()) == 2
    assert user_commands.names(record.listing, 120) == {record.name}
    user_commands.remove(record)
    assert cloud.left() == []


async def _abandoned(cloud: double.Ec2Double) -> user_commands.Removal:
    """What is left where nobody undoes anything."""
    ours = provider(cloud)
    await ours.check()
    bare = kit.bare_spec(tag=paths.new_tag())
    record = ours._removal(bare)
    user_commands.keep(record)
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGIlc0TGf5Gr4h9F2mrCjbFqBHnnwuySMvFeOJBZdBZL"
    ours.driver().launch(ours._request(record.name, bare.tag, key, ""))
    return record


def test_without_credentials(cloud: double.Ec2Double, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    with pytest.raises(UllageError) as caught:
        asyncio.run(provider(cloud).check())
    assert caught.value.kind is errors.CLOUD_CREDENTIALS
    with pytest.raises(UllageError) as caught:
        Ec2(Ec2Options(cloud="nobody", flavor="f", boot_image="i")).driver()
    assert caught.value.kind is errors.CLOUD_CREDENTIALS


def test_without_the_client(cloud: double.Ec2Double, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(UllageError) as caught:
        provider(cloud).driver()
    assert caught.value.kind is errors.HOST_MISSING
    assert "ullage[clouds]" in caught.value.hint


def test_an_instance_that_fails(cloud: double.Ec2Double) -> None:
    async def gone_at_once() -> UllageError:
        cloud.stillborn = True
        return await refused(cloud)

    error = asyncio.run(gone_at_once())
    assert error.kind is errors.CLOUD_INSTANCE_FAILED
    assert "terminated" in error.message


def test_calls_and_answers_are_those_of_the_published_model(cloud: double.Ec2Double) -> None:
    """moto takes unknown images and checks little: botocore holds the API's own description."""
    from botocore.stub import Stubber

    full = {"zone": "us-east-1a", "security_groups": ["sg-1"], "network": "subnet-1"}
    more = {"spot": True, "placement_group": "near", "metadata_tokens": "required"}
    ours = provider(cloud, **more, **full)
    driver = Ec2Driver(ours._options)
    request = ours._request("ullage-u0000000-c-0", "u0000000", "ssh-ed25519 AAAA", "#cloud-config")
    wanted = driver._wanted(request)
    assert wanted["InstanceMarketOptions"] == {"MarketType": "spot"}
    assert wanted["MetadataOptions"] == {"HttpTokens": "required"}
    assert wanted["Placement"] == {"AvailabilityZone": "us-east-1a", "GroupName": "near"}
    addresses = {"PrivateIpAddress": "10.0.0.7", "PublicIpAddress": "203.0.113.7"}
    answer = {"InstanceId": "i-1", "State": {"Name": "pending", "Code": 0}, "Tags": []} | addresses
    with Stubber(driver._client) as stub:
        stub.add_response("import_key_pair", {"KeyName": request.name})
        stub.add_response("run_instances", {"Instances": [answer]}, wanted)
        machine = driver.launch(request)
        assert (machine.state, machine.private, machine.public) == (
            "pending",
            "10.0.0.7",
            "203.0.113.7",
        )
        stub.add_response("describe_instances", {"Reservations": [{"Instances": []}]})
        assert driver.machine("i-2").state == "gone"
        stub.add_client_error("describe_instances", "InvalidInstanceID.NotFound")
        assert driver.machine("i-2").state == "gone", "ec2-api forgets who has ended"
        stub.add_client_error("import_key_pair", "InvalidKeyPair.Duplicate")
        pair = {"KeyName": request.name, "PublicKey": f"{request.public_key} ullage"}
        query = {"KeyNames": [request.name], "IncludePublicKey": True}
        stub.add_response("describe_key_pairs", {"KeyPairs": [pair]}, query)
        stub.add_response("run_instances", {"Instances": []}, wanted)
        with pytest.raises(NotAnAnswerError):
            driver.launch(request)


@kit.in_a_loop
async def test_a_spot_instance_in_a_group_as_it_came_there(cloud: double.Ec2Double) -> None:
    """The server was asked for all of it, and says what it made."""
    cloud.groups = frozenset({"near"})
    more = {"spot": True, "placement_group": "near", "metadata_tokens": "required"}
    ours = provider(cloud, **more)
    assert {"spot": "yes", "placement group": "near", "metadata tokens": "required"}.items() <= (
        ours.treatments().items()
    )
    async with kit.running(ours) as run:
        await run.create(spec(run, cloud))
        (group,) = cloud.client().describe_instances(InstanceIds=list(cloud.machines))[
            "Reservations"
        ]
        (shown,) = group["Instances"]
        assert (shown["InstanceLifecycle"], shown["MetadataOptions"]["HttpTokens"]) == (
            "spot",
            "required",
        )
        assert cloud.wanted["Placement.GroupName"] == "near"
    assert cloud.left() == []


@kit.in_a_loop
async def test_a_placement_group_that_is_not_there(cloud: double.Ec2Double) -> None:
    error = await refused(cloud, placement_group="nowhere")
    assert error.kind is errors.CLOUD_LACKS
    assert "'nowhere' is unknown" in error.message
    assert cloud.calls.count("RunInstances") == 1, "it is not asked again"


def test_what_an_old_api_does_not_know(cloud: double.Ec2Double) -> None:
    wanted = Ec2Driver(provider(cloud)._options)._wanted
    request = provider(cloud)._request("ullage-u0000000-c-0", "u0000000", "ssh-ed25519 AAAA", "")
    assert "MetadataOptions" not in wanted(request), "its image and the account decide"
    with pytest.raises(ValidationError, match="knows no `metadata_tokens`"):
        provider(cloud, api="plain", metadata_tokens="required")


def test_what_has_just_been_launched_need_not_be_shown_yet(
    cloud: double.Ec2Double, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Amazon's answers come from several places: one may know of no launch that another took."""
    from botocore.stub import Stubber

    ours = provider(cloud)
    driver = Ec2Driver(ours._options)
    request = ours._request("ullage-u0000000-c-0", "u0000000", "ssh-ed25519 AAAA", "")
    answer = {"InstanceId": "i-1", "State": {"Name": "pending", "Code": 0}, "Tags": []}
    nothing: dict[str, Any] = {"Reservations": []}
    with Stubber(driver._client) as stub:
        stub.add_response("import_key_pair", {"KeyName": request.name})
        stub.add_response("run_instances", {"Instances": [answer]})
        driver.launch(request)
        for unknown in ("list", "error"):
            if unknown == "list":
                stub.add_response("describe_instances", nothing)
            else:
                stub.add_client_error("describe_instances", "InvalidInstanceID.NotFound")
            assert driver.machine("i-1").state == "pending"
        stub.add_response("describe_instances", nothing)
        stub.add_client_error("describe_instances", "InvalidInstanceID.NotFound")
        stub.add_client_error("terminate_instances", "InvalidInstanceID.NotFound")
        assert not driver.remove(request.name, request.tag), "nobody knows it: it may be there"
        stub.add_response("describe_instances", nothing)
        stub.add_response("describe_instances", nothing)
        stub.add_response("terminate_instances", {}, {"InstanceIds": ["i-1"]})
        assert not driver.remove(request.name, request.tag)
        stub.add_response("describe_instances", nothing)
        stub.add_response("describe_instances", nothing)
        stub.add_response("delete_key_pair", {})
        assert driver.remove(request.name, request.tag), "it was told to end, and is not there"
        driver._ended.clear()
        monkeypatch.setattr("ullage.environments.clouds.ec2._SETTLED_S", 0.0)
        stub.add_response("describe_instances", nothing)
        assert driver.machine("i-1").state == "gone"


def test_who_is_shutting_down_is_not_told_again(cloud: double.Ec2Double) -> None:
    from botocore.stub import Stubber

    ours = provider(cloud)
    driver, name = Ec2Driver(ours._options), "ullage-u0000000-c-0"
    one = {"InstanceId": "i-1", "KeyName": name, "State": {"Name": "running"}}
    ending = {"Reservations": [{"Instances": [one | {"State": {"Name": "shutting-down"}}]}]}
    with Stubber(driver._client) as stub:
        stub.add_response("describe_instances", {"Reservations": [{"Instances": [one]}]})
        stub.add_response("terminate_instances", {}, {"InstanceIds": ["i-1"]})
        assert not driver.remove(name, "u0000000")
        for _ in range(3):
            stub.add_response("describe_instances", ending)
            assert not driver.remove(name, "u0000000")


def test_an_api_without_tags_at_launch(cloud: double.Ec2Double) -> None:
    """OpenStack's ec2-api knows neither those nor instance types; the key's name says whose."""
    ours = provider(cloud, api="plain")
    driver = Ec2Driver(ours._options)
    assert driver.flavor("whatever") is None
    ours._image = cloud.image
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGIlc0TGf5Gr4h9F2mrCjbFqBHnnwuySMvFeOJBZdBZL"
    request = ours._request("ullage-u1234567-c-0", "u1234567", key, "")
    assert "TagSpecifications" not in driver._wanted(request)
    driver.launch(request)
    assert "DescribeInstanceTypes" not in cloud.calls
    assert [(one.name, one.tag) for one in driver.machines("u1234567")] == [
        (request.name, "u1234567")
    ]
    assert driver.machines("u7654321") == []
    while not driver.remove(request.name, "u1234567"):
        pass
    assert cloud.left() == []


def test_what_we_may_have_is_the_number_of_instances_alone(cloud: double.Ec2Double) -> None:
    """moto tells every attribute, whichever is asked for."""
    assert provider(cloud).driver().limits() == "at most 20 instances"
