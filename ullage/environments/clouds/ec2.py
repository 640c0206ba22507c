"""The `ec2` provider: Amazon's API, and the clouds of others that speak it."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, Literal, cast

from pydantic import Field, model_validator

from ullage.common.errors import CLOUD_CREDENTIALS, CLOUD_LACKS, HOST_MISSING, UllageError
from ullage.common.text import printable
from ullage.environments.base import Options
from ullage.environments.clouds.driver import (
    ApiFault,
    Driver,
    Flavor,
    Machine,
    NotAnAnswerError,
    Request,
    State,
    Trouble,
)
from ullage.environments.clouds.http import TOO_MANY, after_s, answer_fault
from ullage.environments.clouds.options import CloudOptions, Endpoint, Word
from ullage.environments.clouds.provider import CloudProvider
from ullage.environments.clouds.tags import check_key

_TAG: Final = "ullage-tag"
_MOST: Final = "max-instances"
_OURS: Final = re.compile(r"ullage-(u[0-9a-f]{7})-")
"""How the key of an instance of ours is called: its run's tag, then its own name."""
_STATES: Final[Mapping[str, State]] = {
    "pending": "pending",
    "running": "running",
    "shutting-down": "failed",
    "stopping": "failed",
    "stopped": "failed",
    "terminated": "gone",
}
_CODES: Final[Mapping[Trouble, frozenset[str]]] = {
    "credentials": frozenset(
        {
            "AuthFailure",
            "ExpiredToken",
            "ExpiredTokenException",
            "InvalidClientTokenId",
            "MissingAuthenticationToken",
            "OptInRequired",
            "PendingVerification",
            "RequestExpired",
            "SignatureDoesNotMatch",
            "UnauthorizedOperation",
        }
    ),
    "quota": frozenset(
        {
            "InstanceLimitExceeded",
            "InsufficientFreeAddressesInSubnet",
            "InsufficientInstanceCapacity",
            "MaxSpotInstanceCountExceeded",
            "VcpuLimitExceeded",
        }
    ),
    "again": frozenset(
        {
            "InternalError",
            "InternalFailure",
            "RequestLimitExceeded",
            "ServiceUnavailable",
            "Throttling",
            "ThrottlingException",
            "Unavailable",
        }
    ),
}
_NOT_NOW: Final = frozenset({"RequestLimitExceeded", "Throttling", "ThrottlingException"})
"""Of `again`: it limits our calls, and has done nothing."""
_LACKING: Final = ("InvalidInstanceType", ".NotFound", ".Malformed", ".Unknown", ".Unavailable")
_WITHOUT: Final = (
    "NoCredentialsError",
    "PartialCredentialsError",
    "CredentialRetrievalError",
    "NoAuthTokenError",
    "SSOError",
    "LoginError",
)
"""botocore's exceptions where it has no credentials to use."""
_CONNECT_S: Final = 10
_ANSWER_S: Final = 60
_MOST_PAGES: Final = 1000
_SETTLED_S: Final = 300.0
"""What was launched so long ago is shown by all of EC2: until then an answer may not know it yet,
and a list may lack it."""
_ENDING: Final = "shutting-down"


class Ec2Options(CloudOptions):
    """Fields of an `ec2` environment in the plan."""

    endpoint: Endpoint | None = Field(
        None, description="of a cloud that is not Amazon's: `https://cloud.example:8788`"
    )
    api: Literal["amazon", "plain"] = Field(
        "amazon",
        description="`plain`: nothing that came after 2014, as OpenStack's ec2-api has it: tags of"
        " what is launched, sizes of instance types",
    )
    spot: bool = Field(False, strict=True, description="may be taken back at any time, for less")
    placement_group: Word | None = Field(None, description="a group that is there already")
    metadata_tokens: Literal["optional", "required"] | None = Field(
        None,
        description="`required`: its metadata service answers by IMDSv2 alone; left out: as its"
        " image and the account have it, which is `required` for Amazon's own newer images",
    )

    @model_validator(mode="after")
    def _as_old_as_its_api(self) -> Ec2Options:
        if self.api == "plain" and self.metadata_tokens:
            raise ValueError("`api: plain` knows no `metadata_tokens`")
        return self


class Ec2(CloudProvider):
    """An instance of Amazon EC2, or of another cloud that speaks its API (`endpoint`).

    boto3 makes it, with the credentials that boto3 finds by itself (`~/.aws`, the environment);
    none of them stands in the plan or the run folder. `cloud` is a profile. The plan's image is
    sent there by ssh and unpacked on the instance's own disk, and workloads run in it: the same
    bytes as everywhere, on the kernel of `boot_image`. EC2 cannot pause, so what is idle runs on,
    with nothing of ours in it. `ullage cloud list ec2` shows what runs have there.
    Needs `pip install 'ullage[clouds]'`. Seen on moto's server with real processes behind it, never
    on Amazon's.
    """

    name: ClassVar[str] = "ec2"
    options_model: ClassVar[type[Options]] = Ec2Options
    last_seen: ClassVar[str] = (
        "never: moto's server with real machines behind it, and an OpenStack's ec2-api"
    )

    def __init__(self, options: Options) -> None:
        assert isinstance(options, Ec2Options)
        super().__init__(options)
        self._options = options

    def driver(self) -> Driver:
        return Ec2Driver(self._options)

    def treatments(self) -> dict[str, str]:
        more = {
            "spot": "yes" if self._options.spot else None,
            "placement group": self._options.placement_group,
            "metadata tokens": self._options.metadata_tokens,
        }
        return super().treatments() | {name: word for name, word in more.items() if word}


class Ec2Driver(Driver):
    """By boto3."""

    once_a_token: ClassVar[bool] = True

    def __init__(self, options: Ec2Options) -> None:
        """HOST_MISSING, CLOUD_CREDENTIALS, CLOUD_LACKS."""
        try:
            import boto3  # noqa: PLC0415 - an extra: who has no cloud need not have it
            import botocore.config  # noqa: PLC0415
            import botocore.exceptions  # noqa: PLC0415
            import botocore.parsers  # noqa: PLC0415
        except ImportError as error:
            command = "pip install 'ullage[clouds]'"
            raise UllageError(HOST_MISSING, what="boto3", command=command) from error
        self._errors: Any = botocore.exceptions
        self._unreadable: Any = botocore.parsers.ResponseParserError
        self._options = options
        config = botocore.config.Config(
            retries={"total_max_attempts": 1},  # we have a budget of our own
            connect_timeout=_CONNECT_S,
            read_timeout=_ANSWER_S,
        )
        try:
            session = boto3.Session(profile_name=options.cloud, region_name=options.region)
            client = session.client("ec2", endpoint_url=options.endpoint, config=config)
        except botocore.exceptions.NoRegionError as error:
            reason = "no region; say `region:`"
            raise UllageError(CLOUD_LACKS, cloud="EC2", call="its client", reason=reason) from error
        except botocore.exceptions.BotoCoreError as error:
            raise UllageError(
                CLOUD_CREDENTIALS, cloud="EC2", reason=printable(str(error), 300)
            ) from error
        client.meta.events.register("before-parse.ec2", _see_limit)
        self._client: Any = client
        self._launched: dict[str, tuple[str, float]] = {}
        """Name → the id that its request was answered with, and when."""
        self._ended: set[str] = set()
        """Those that the cloud has taken a request to end."""

    @property
    def title(self) -> str:
        return f"EC2 at {self._options.endpoint or self._client.meta.region_name}"

    def fault(self, error: Exception) -> ApiFault | None:
        errors, reason = self._errors, printable(str(error), 400)
        if isinstance(error, errors.ClientError):
            answer = cast(Mapping[str, Any], getattr(error, "response", {}))
            return _fault(answer, reason)
        if isinstance(error, _LimitedError):
            return answer_fault(TOO_MANY, error.headers, reason)
        if isinstance(error, _of(errors, _WITHOUT)):
            return ApiFault("credentials", reason)
        if isinstance(error, errors.ParamValidationError):
            return ApiFault("refused", reason)
        if isinstance(error, errors.BotoCoreError | self._unreadable | NotAnAnswerError):
            return ApiFault("again", reason)
        return None

    def flavor(self, name: str) -> Flavor | None:
        if self._options.api == "plain":
            return None
        answer = self._client.describe_instance_types(InstanceTypes=[name])
        kinds = _part(answer, "InstanceTypes")
        if not kinds:
            raise NotAnAnswerError(f"no instance type {name}")
        memory = kinds[0]["MemoryInfo"]["SizeInMiB"] << 20
        return Flavor(kinds[0]["VCpuInfo"]["DefaultVCpus"], memory)

    def find_image(self, name: str) -> str:
        if name.startswith("ami-"):
            images = _part(self._client.describe_images(ImageIds=[name]), "Images")
        else:
            named = [{"Name": "name", "Values": [name]}]
            images = _part(self._client.describe_images(Filters=named), "Images")
        if not images:
            raise UllageError(
                CLOUD_LACKS, cloud=self.title, call="find_image", reason=f"no image {name!r}"
            )
        newest = max(images, key=lambda image: str(image.get("CreationDate", "")))
        return str(newest["ImageId"])

    def limits(self) -> str:
        answer = self._client.describe_account_attributes(AttributeNames=[_MOST])
        # Not every cloud that speaks the API tells only what it is asked for.
        values = [
            value.get("AttributeValue")
            for attribute in _part(answer, "AccountAttributes")
            if attribute.get("AttributeName") == _MOST
            for value in _part(attribute, "AttributeValues")
        ]
        return ", ".join(f"at most {printable(str(value), 20)} instances" for value in values)

    def launch(self, request: Request) -> Machine:
        self._import_key(request)
        answer = self._client.run_instances(**self._wanted(request))
        instances = _part(answer, "Instances")
        if not instances:
            raise NotAnAnswerError("it names no instance")
        machine = _machine(instances[0])
        self._launched.setdefault(request.name, (machine.id, time.monotonic()))
        return machine

    def _import_key(self, request: Request) -> None:
        try:
            self._client.import_key_pair(
                KeyName=request.name,
                PublicKeyMaterial=request.public_key.encode(),
                **self._tags("key-pair", request),
            )
        except self._errors.ClientError as error:
            if error.response["Error"].get("Code") != "InvalidKeyPair.Duplicate":
                raise
            check_key(self.title, request, self._known_key(request.name))

    def _known_key(self, name: str) -> object:
        """The public half of the key of that name, or what the older API tells of it."""
        more = {} if self._options.api == "plain" else {"IncludePublicKey": True}
        pairs = _part(self._client.describe_key_pairs(KeyNames=[name], **more), "KeyPairs")
        return pairs[0].get("PublicKey" if more else "KeyFingerprint")

    def _wanted(self, request: Request) -> dict[str, Any]:
        options, placement = self._options, {}
        tokens = options.metadata_tokens
        if request.zone:
            placement["AvailabilityZone"] = request.zone
        if options.placement_group:
            placement["GroupName"] = options.placement_group
        by_id = [group for group in request.security_groups if group.startswith("sg-")]
        by_name = [group for group in request.security_groups if group not in by_id]
        wanted = {
            "ImageId": request.image,
            "InstanceType": request.flavor,
            "KeyName": request.name,
            "SubnetId": request.network,
            "Placement": placement,
            "SecurityGroupIds": by_id,
            "SecurityGroups": by_name,
            "UserData": request.user_data,
            "InstanceMarketOptions": {"MarketType": "spot"} if options.spot else None,
            "MetadataOptions": {"HttpTokens": tokens} if tokens else None,
        }
        return {name: value for name, value in wanted.items() if value} | {
            "MinCount": 1,
            "MaxCount": 1,
            "ClientToken": request.token,
            "InstanceInitiatedShutdownBehavior": "terminate",
            **self._tags("instance", request),
        }

    def _tags(self, kind: str, request: Request) -> dict[str, Any]:
        """Where the API takes any; else the key's name is the instance's, and has its tag."""
        if self._options.api == "plain":
            return {}
        tags = {"Name": request.name, _TAG: request.tag}
        words = [{"Key": key, "Value": text} for key, text in tags.items()]
        return {"TagSpecifications": [{"ResourceType": kind, "Tags": words}]}

    def machine(self, identifier: str) -> Machine:
        try:
            answer = self._client.describe_instances(InstanceIds=[identifier])
        except self._errors.ClientError as error:
            if not _unknown(error):
                raise
            return self._absent(identifier)
        machines = _all_of(answer)
        return machines[0] if machines else self._absent(identifier)

    def _absent(self, identifier: str) -> Machine:
        """It has gone; or an answer comes from where its launch is not known yet."""
        launched_s = [at_s for known, at_s in self._launched.values() if known == identifier]
        young = any(time.monotonic() - at_s < _SETTLED_S for at_s in launched_s)
        if young and identifier not in self._ended:
            return Machine(identifier, "", "", "pending", "launched, and not shown yet")
        return Machine(identifier, "", "", "gone", "not known any more")

    def machines(self, tag: str | None = None) -> list[Machine]:
        ours = _named(f"tag:{_TAG}", tag) if tag else _named("tag-key", _TAG)
        # Not every other cloud's have tags.
        filters = [] if self._options.endpoint else [ours]
        pages = self._client.get_paginator("describe_instances").paginate(Filters=filters)
        every: list[Machine] = []
        for number, page in enumerate(pages):
            if number == _MOST_PAGES:
                raise NotAnAnswerError("a list of instances without an end")
            every += _all_of(page)
        ours_too = [machine for machine in every if machine.tag and tag in {None, machine.tag}]
        return [machine for machine in ours_too if machine.state != "gone"]

    def console(self, identifier: str) -> str:
        answer = self._client.get_console_output(InstanceId=identifier)
        return str(answer.get("Output", ""))

    def remove(self, name: str, tag: str) -> bool:
        machines = {one.id: one for one in self.machines(tag) if one.name == name}
        if own := self._launched.get(name):  # a list may lack what has just been launched
            machine = machines.get(own[0]) or self.machine(own[0])
            machines |= {machine.id: machine} if machine.state != "gone" else {}
        for machine in machines.values():
            if not machine.words.startswith(_ENDING):
                self._terminate(machine.id)
        if not machines:
            self._client.delete_key_pair(KeyName=name)  # no error where there is none
        return not machines

    def _terminate(self, identifier: str) -> None:
        try:
            self._client.terminate_instances(InstanceIds=[identifier])
        except self._errors.ClientError as error:
            if not _unknown(error):
                raise
        else:
            self._ended.add(identifier)


class _LimitedError(Exception):
    """Somebody before the API limits our calls."""

    def __init__(self, headers: Mapping[str, Any]) -> None:
        super().__init__(f"HTTP {TOO_MANY}")
        self.headers = headers


def _see_limit(response_dict: Mapping[str, Any], **_: object) -> None:
    """botocore cannot read a proxy's 429, and drops with it how long we are to wait."""
    if response_dict["status_code"] == TOO_MANY and b"<Code>" not in response_dict["body"]:
        raise _LimitedError(response_dict["headers"])


def _of(errors: Any, names: Sequence[str]) -> tuple[type[Exception], ...]:
    """The exceptions of these names, as far as this botocore has them."""
    return tuple(getattr(errors, name) for name in names if hasattr(errors, name))


def _unknown(error: Any) -> bool:
    """Does that error say that there is no such instance?"""
    return bool(error.response["Error"].get("Code") == "InvalidInstanceID.NotFound")


def _fault(answer: Mapping[str, Any], reason: str) -> ApiFault:
    """Of an answer that is an error."""
    about = answer.get("ResponseMetadata", {})
    code, status = str(answer.get("Error", {}).get("Code")), int(about.get("HTTPStatusCode", 0))
    wait_s = after_s(about.get("HTTPHeaders", {}))
    undone = code in _NOT_NOW or status == TOO_MANY
    for trouble, codes in _CODES.items():
        if code in codes:
            return ApiFault(trouble, reason, wait_s, undone=undone)
    if status == TOO_MANY or status >= 500:
        return ApiFault("again", reason, wait_s, undone=undone)
    if status in {401, 403}:
        return ApiFault("credentials", reason)
    return ApiFault("lacks" if code.endswith(_LACKING) else "refused", reason)


def _part(answer: Mapping[str, Any], name: str) -> Sequence[Mapping[str, Any]]:
    """A list of the answer, which is there in every one."""
    part = answer.get(name)
    if not isinstance(part, list):
        raise NotAnAnswerError(f"an answer without {name}")
    return part


def _all_of(answer: Mapping[str, Any]) -> list[Machine]:
    reservations = _part(answer, "Reservations")
    return [_machine(one) for group in reservations for one in _part(group, "Instances")]


def _machine(instance: Mapping[str, Any]) -> Machine:
    try:
        tags = {str(tag["Key"]): str(tag["Value"]) for tag in instance.get("Tags", ())}
        state, key = str(instance["State"]["Name"]), str(instance.get("KeyName", ""))
        named = _OURS.match(key)
        reason = str(instance.get("StateReason", {}).get("Message") or "")
        return Machine(
            id=str(instance["InstanceId"]),
            name=tags.get("Name", key),
            tag=tags.get(_TAG, named[1] if named else ""),
            state=_STATES.get(state, "pending"),
            words=printable(f"{state}: {reason}" if reason else state, 300),
            private=instance.get("PrivateIpAddress"),
            public=instance.get("PublicIpAddress"),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise NotAnAnswerError(f"an instance that cannot be read: {error!r}") from error


def _named(name: str, *values: str) -> dict[str, object]:
    return {"Name": name, "Values": list(values)}
