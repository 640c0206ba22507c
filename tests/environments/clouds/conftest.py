"""A cloud that stands for a test, and the credentials of nobody."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from testing.clouds import ec2 as double

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
