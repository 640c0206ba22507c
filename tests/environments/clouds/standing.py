"""Any of the clouds that tests have, and its provider."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testing.clouds import ec2, openstack
from testing.clouds.fake import CloudFake
from tests.environments.clouds import cloudkit, test_openstack
from ullage.environments.clouds.provider import CloudProvider

Cloud = CloudFake | ec2.Ec2Double | openstack.OpenStackDouble


def standing_one(
    request: pytest.FixtureRequest, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Cloud]:
    """The one that the parameter names."""
    if request.param in cloudkit.KINDS:
        with cloudkit.standing_cloud(request.param, directory, monkeypatch) as fake:
            fake.hollow = True
            yield fake
    else:
        yield request.getfixturevalue("cloud" if request.param == "ec2" else "stack")


def provider(cloud: Cloud, **more: Any) -> CloudProvider:
    """With its smallest plan, and what more it says."""
    if isinstance(cloud, openstack.OpenStackDouble):
        return test_openstack.provider(cloud, **more)
    return cloudkit.provider(cloud, **more)
