"""A Hyper-V host that stands for a test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from testing.hyperv.host import HypervDouble, hyperv_host


@pytest.fixture
def hyperv() -> Iterator[HypervDouble]:
    with hyperv_host() as double:
        yield double
