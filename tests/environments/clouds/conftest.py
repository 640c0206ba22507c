"""A cloud that stands for a test, and the credentials of nobody."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from testing.clouds import ec2 as double
from testing.clouds import openstack

SECRET = "s3cret-s3cret"


@pytest.fixture
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIANOTONE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture
def cloud(credentials: None) -> Iterator[double.Ec2Double]:
    with double.cloud() as here:
        yield here


@pytest.fixture
def stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[openstack.OpenStackDouble]:
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(tmp_path / "clouds.yaml"))
    with openstack.cloud(tmp_path) as here:
        yield here
