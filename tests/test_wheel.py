"""The wheel holds all that a run needs, and says what it needs itself."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from scripts import wheel
from ullage.host import binaries


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wheel.make(wheel.ROOT / "ullage", tmp_path_factory.mktemp("dist"))


def test_it_holds_every_file_of_the_package(file: Path) -> None:
    with zipfile.ZipFile(file) as archive:
        held = {item.filename: item for item in archive.infolist()}
    assert set(wheel.sources()) - set(held) == set()
    assert {"ullage/_clock.abi3.so", "ullage/_elastic.abi3.so", "ullage/bin/build"} <= set(held)
    assert held["ullage/bin/ullage-agent"].external_attr >> 16 & 0o111
    programs = [file for file in binaries.DIRECTORY.rglob("*") if file.is_file()]
    assert {str(file.relative_to(wheel.ROOT)) for file in programs} <= set(held)
    assert "ullage-0.1.0.data/data/share/man/man1/ullage-elastic-run.1" in held


@pytest.mark.skipif(not (wheel.ROOT / ".git").exists(), reason="no clone")
def test_its_sources_are_those_that_git_has() -> None:
    argv = ["git", "-C", str(wheel.ROOT), "ls-files", "-co", "--exclude-standard", "ullage"]
    done = subprocess.run(argv, check=True, capture_output=True, text=True)
    listed = [file for file in done.stdout.splitlines() if (wheel.ROOT / file).is_file()]
    assert wheel.sources() == sorted(listed)


def test_its_name_says_what_it_runs_on(file: Path) -> None:
    assert wheel.platform(wheel.ROOT / "ullage").startswith("manylinux_2_")
    assert file.name.startswith("ullage-0.1.0-cp311-abi3-manylinux_2_")
    assert _install(file).returncode == 0


def test_pip_refuses_it_on_an_older_c_library(file: Path, tmp_path: Path) -> None:
    machine = file.stem.split("_", 3)[-1]
    later = tmp_path / f"ullage-0.1.0-cp311-abi3-manylinux_2_99_{machine}.whl"
    shutil.copy(file, later)
    refused = _install(later)
    assert refused.returncode == 1
    assert f"{later.name} is not a supported wheel on this platform" in refused.stderr


def _install(file: Path) -> subprocess.CompletedProcess[str]:
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install"]
    only = ["--dry-run", "--no-index", "--no-deps", "--force-reinstall"]
    return subprocess.run([*pip, *only, str(file)], check=False, capture_output=True, text=True)
