"""The clouds that are fakes, and what their tests share."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pytest

from testing.clouds.cloudstack import KEY, SECRET, CloudStackFake
from testing.clouds.ec2 import Ec2Double
from testing.clouds.fake import CloudFake, standing
from testing.clouds.opennebula import SESSION, OneFake
from tests.environments import containerkit as kit
from ullage.common.errors import UllageError
from ullage.common.quantities import memory_bytes
from ullage.environments.base import Instance, InstanceSpec
from ullage.environments.clouds.cloudstack import CloudStack, CloudStackOptions
from ullage.environments.clouds.ec2 import Ec2, Ec2Options
from ullage.environments.clouds.opennebula import OpenNebula, OpenNebulaOptions
from ullage.environments.clouds.options import CloudOptions
from ullage.environments.clouds.provider import CloudProvider
from ullage.host import user_commands

PUBLIC_KEY: Final = (
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGIlc0TGf5Gr4h9F2mrCjbFqBHnnwuySMvFeOJBZdBZL"
)


@dataclass(frozen=True)
class CloudKind:
    """One sort of cloud, and its provider."""

    fake: Callable[[], CloudFake]
    provider: type[CloudProvider]
    options: type[CloudOptions]
    credentials: Callable[..., dict[str, str]]
    """Written below that directory, with another secret too; the environment that leads there."""


def _one_credentials(directory: Path, session: str = SESSION) -> dict[str, str]:
    file = directory / "one_auth"
    file.write_text(session + "\n")
    return {"ONE_AUTH": str(file)}


def _cloudstack_credentials(directory: Path, secret: str = SECRET) -> dict[str, str]:
    file = directory / "cloudstack.ini"
    file.write_text(f"[cloudstack]\nendpoint = http://nowhere\nkey = {KEY}\nsecret = {secret}\n")
    return {"CLOUDSTACK_CONFIG": str(file)}


KINDS = {
    "cloudstack": CloudKind(CloudStackFake, CloudStack, CloudStackOptions, _cloudstack_credentials),
    "opennebula": CloudKind(OneFake, OpenNebula, OpenNebulaOptions, _one_credentials),
}


PLAN = """
name: cloud
baseline: native
resources: {{cpus: {cpus}, memory: host}}
allow: [pinning]
environments:
  native: {{provider: native}}
  cloud: {cloud}
workloads:
  - {{name: command, argv: [sha256sum, /bin/bash]}}
blocks: {{min: 3, max: 3}}
"""


@contextmanager
def standing_cloud(
    name: str, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[CloudFake]:
    kind = KINDS[name]
    for variable, text in kind.credentials(directory).items():
        monkeypatch.setenv(variable, text)
    with standing(kind.fake()) as fake:
        yield fake


def provider(cloud: CloudFake | Ec2Double, **more: Any) -> CloudProvider:
    fields = cloud.plan(**more)
    name = fields.pop("provider")
    if name == "ec2":
        return Ec2(Ec2Options.model_validate(fields))
    return KINDS[name].provider(KINDS[name].options.model_validate(fields))


def spec(run: kit.Run, cloud: CloudFake) -> InstanceSpec:
    """An instance of the whole host."""
    cpu_ids = tuple(range(cloud.cpus))
    return replace(run.spec(), cpu_ids=cpu_ids, memory_bytes=memory_bytes(), network=None)


@asynccontextmanager
async def running(cloud: CloudFake, **more: Any) -> AsyncIterator[tuple[kit.Run, Instance]]:
    async with kit.running(provider(cloud, **more)) as run:
        yield run, await run.create(spec(run, cloud))
    assert cloud.left() == []
    assert [r for r in user_commands.records() if r.tag == run.tag] == []


def refused(cloud: CloudFake, **more: Any) -> UllageError:
    """Why none could be made; nothing is left of it."""

    async def attempt() -> UllageError:
        with pytest.raises(UllageError) as caught:
            async with running(cloud, **more):
                pass
        return caught.value

    error = asyncio.run(attempt())
    assert cloud.left() == []
    return error


def done(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


def nothing_comes_any_more(tag: str) -> None:
    """The time is over in which a request that nobody has answered may still be carried out."""
    (record,) = [record for record in user_commands.records() if record.tag == tag]
    assert record.may_come
    user_commands.keep(record.model_copy(update={"may_come_until": time.time()}))
