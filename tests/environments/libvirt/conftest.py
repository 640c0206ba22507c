"""One libvirtd for all tests of a file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.libvirtkit import Libvirtd, libvirtd


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Libvirtd]:
    with libvirtd(tmp_path_factory.mktemp("libvirtd")) as running:
        yield running
