"""Every test here has the same key, and a terminal wide enough for whole lines."""

import pytest

from tests.experiments.clock.commands_kit import KEY
from ullage.experiments.clock.peer import VARIABLE


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, KEY)
    monkeypatch.setenv("COLUMNS", "200")
