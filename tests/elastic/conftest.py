"""What tests of elastic runs share."""

from __future__ import annotations

import pytest

from ullage import ours
from ullage.elastic import frontprocess, viewersprocess
from ullage.errors import UllageError


@pytest.fixture
def built() -> None:
    """The programs, where somebody has built them: `make programs`."""
    try:
        for name in (frontprocess.PROGRAM, viewersprocess.PROGRAM):
            ours.program(name)
    except UllageError:
        pytest.skip("needs `make programs`")
