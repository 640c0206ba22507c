"""What several test files need."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.environments.agent import client
from ullage.host import paths

# A shell's `&` has SIGINT ignored, and `nohup` SIGHUP: whoever is started would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# Side by side, tests have one: what is piped has no width.
os.environ.pop("COLUMNS", None)

# The machine is shared: how long an example takes says nothing.
settings.register_profile("shared", deadline=None)
settings.load_profile("shared")

pytest_plugins = ["tests.support.enginekit", "tests.support.meterkit"]

CHECKOUT = Path(__file__).resolve().parent.parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that need root are skipped for others, and say so."""
    if os.geteuid() != 0:
        for item in items:
            if item.get_closest_marker("root"):
                item.add_marker(pytest.mark.skip(reason="needs root"))


@pytest.fixture(scope="session")
def agent_binary() -> Path:
    """The real agent, built when it is missing."""
    try:
        return client.binary()
    except UllageError as error:
        if error.kind is not errors.AGENT_BINARY_MISSING or shutil.which("cargo") is None:
            raise
    target = "x86_64-unknown-linux-gnu"
    subprocess.run(
        [
            "cargo",
            "build",
            "--release",
            "--locked",
            "--package",
            "ullage-agent",
            "--target",
            target,
        ],
        cwd=CHECKOUT,
        env={**os.environ, "RUSTFLAGS": "-C target-feature=+crt-static"},
        check=True,
        timeout=900,
    )
    return client.binary()


@pytest.fixture
def tag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A new tag; its state and data are below the test's own directory."""
    monkeypatch.setenv("ULLAGE_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("ULLAGE_DATA_DIR", str(tmp_path / "data"))
    yield paths.new_tag()


@pytest.fixture(scope="session")
def tiny_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root directory with a shell and a few programs of this host, and their libraries."""
    root = tmp_path_factory.mktemp("root")
    for name in ("bin", "dev", "etc", "proc", "run", "sys", "tmp", "data"):
        (root / name).mkdir()
    for program in ("sh", "cat", "ls", "mkdir", "nproc", "sleep"):
        source = Path(str(shutil.which(program))).resolve()
        shutil.copy(source, root / "bin" / program)
        listed = subprocess.run(["ldd", source], capture_output=True, text=True, check=True).stdout
        for library in (word for word in listed.split() if word.startswith("/")):
            target = root / library.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(library, target)
    return root
