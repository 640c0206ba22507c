"""The programs under test, built once."""

from pathlib import Path

import pytest

from tests.mpi.wtime_kit import build


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("programs")
    build(folder)
    return folder
