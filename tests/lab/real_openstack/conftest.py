"""The cloud, for all files of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.lab.real_openstack.stack import Stack, started


@pytest.fixture(scope="package")
def stack() -> Iterator[Stack]:
    with started() as running, pytest.MonkeyPatch.context() as patch:
        patch.setenv("OS_CLIENT_CONFIG_FILE", str(running.clouds_yaml()))
        yield running
