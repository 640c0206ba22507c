"""What tests of elastic runs share."""

from __future__ import annotations

import pytest

from ullage.common.errors import UllageError
from ullage.experiments.elastic.run import front, viewers
from ullage.host import binaries


@pytest.fixture
def built() -> None:
    """The programs, where somebody has built them: `make programs`."""
    try:
        for name in (front.PROGRAM, viewers.PROGRAM):
            binaries.program(name)
    except UllageError:
        pytest.skip("needs `make programs`")
