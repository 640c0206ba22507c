"""A program that somebody asks for is one that the Makefile installs: machines may be fresh."""

from __future__ import annotations

import inspect
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.packagelists import installed_by, owners, with_dependencies
from tests.support.programuses import ROOT, ProgramUse, programs
from ullage import environments, workloads
from ullage.environments.containers import runtimes
from ullage.plan import schema
from ullage.workloads.command import OwnCommand

pytestmark = pytest.mark.skipif(shutil.which("dpkg-query") is None, reason="lists are of Debian's")

IN_DOM0: Final = {
    "xen-utils-common": "tests/lab/test_xen_guest_lab.py",
    "xenstore-utils": "the same",
}
"""Packages that only Xen's dom0 has use for → the lab's test that has them in a guest."""

README: Final = {"make", "cargo"}
"""What the README asks for."""

ALSO: Final = {"chromium-browser": "chromium", "xenstore-read": "xenstore-utils"}
"""A program that is not installed here, or has another name → its package."""

IN_IMAGES: Final = {
    "apache2": "tests/lab/test_web_lab.py",
    "mariadb-client-core": "tests/lab/test_oltp_lab.py",
    "mariadb-server-core": "tests/lab/test_oltp_lab.py",
    "netpipe-mpich2": "tests/lab/test_mpi_lab.py",
    "netpipe-openmpi": "tests/lab/test_mpi_lab.py",
    "nfs-common": "tests/lab/test_b_eff_io_lab.py",
    "nfs-kernel-server": "tests/lab/test_b_eff_io_lab.py",
    "nginx": "tests/lab/test_web_lab.py",
    "openjdk-17-jre-headless": "tests/lab/test_testdfsio_lab.py",
    "postgresql-15": "tests/lab/test_oltp_lab.py",
}
"""Packages of workloads that no test runs on the host → the test that has them in an image."""


def sources(folder: str, but: str = "") -> list[Path]:
    files = sorted((ROOT / folder).rglob("*.py"))
    return [file for file in files if not but or ROOT / but not in file.parents]


def held_by_nobody(requests: Iterable[ProgramUse], target: str) -> list[str]:
    """In words, whatever is asked for and that the target does not install."""
    requests = list(requests)
    named = {one.program: one.package for one in requests if one.package}
    held = with_dependencies(installed_by(target))
    here = owners({Path(one.program).name for one in requests})
    words = []
    for one in requests:
        name = Path(one.program).name
        package = named.get(one.program) or ALSO.get(name) or here.get(name, name)
        if package in IN_DOM0:
            continue
        if name not in README and not _of_nobody(one.program) and package not in held:
            words.append(f"{one.place}: `make {target}` installs no {one.program} ({package})")
    return words


def _of_nobody(program: str) -> bool:
    """A path at which nothing is, as a test wants it, or a script of ours."""
    path = Path(program)
    return (path.is_absolute() and not path.exists()) or (len(path.parts) > 1 and _ours(path))


def _ours(path: Path) -> bool:
    return (ROOT / path).is_relative_to(ROOT) and (ROOT / path).exists()


def of_workload(workload: type[workloads.Workload[Any]]) -> list[str]:
    """In words, its packages that `make test` does not install and no image of the lab holds."""
    held = with_dependencies(installed_by("test"))
    lacking = [name for name in workload.packages if name not in held and name not in IN_IMAGES]
    return [f"{workload.name}: `make test` installs no {name}" for name in lacking]


def asked_in(files: Iterable[Path]) -> list[ProgramUse]:
    return [one for file in files for one in programs(file)]


def test_what_tests_and_the_tool_ask_for_is_installed_by_make_test() -> None:
    requests = asked_in([*sources("ullage"), *sources("tests", but="tests/lab")])
    assert {"crun", "ffmpeg", "ip", "perf", "unshare"} <= {one.program for one in requests}
    assert held_by_nobody(requests, "test") == []


def test_what_the_lab_asks_for_is_installed_by_make_lab() -> None:
    requests = asked_in(sources("tests/lab"))
    assert "dockerd" in {one.program for one in requests}
    assert held_by_nobody(requests, "lab") == []


def test_what_the_demos_providers_ask_for_is_installed_by_make_demo() -> None:
    plan, _ = schema.load(ROOT / "demo.yaml")
    providers = [environments.get(one.provider) for one in plan.environments.values()]
    requests = asked_in(map(Path, [*map(inspect.getfile, providers), runtimes.__file__]))
    assert {"crun", "lxc-start", "qemu-img"} <= {one.program for one in requests}
    assert held_by_nobody(requests, "demo") == []


@pytest.mark.parametrize("workload", workloads.WORKLOADS, ids=lambda workload: workload.name)
def test_what_a_workload_needs_is_installed_or_in_an_image(
    workload: type[workloads.Workload[Any]],
) -> None:
    assert of_workload(workload) == []


def test_each_package_of_images_is_one_of_a_workload_and_has_its_test() -> None:
    packages = {name for workload in workloads.WORKLOADS for name in workload.packages}
    assert set(IN_IMAGES) <= packages
    assert all("mark.lab" in (ROOT / file).read_text() for file in IN_IMAGES.values())


@pytest.mark.parametrize(
    ("source", "program"),
    [
        ('needed("frobnicate", "frobtools")', "frobnicate (frobtools)"),
        ('shutil.which("frobnicate")', "frobnicate (frobnicate)"),
        ('subprocess.run(["frobnicate", "-v"], check=True)', "frobnicate (frobnicate)"),
    ],
)
def test_a_program_in_no_list_is_named_with_the_target(
    source: str, program: str, tmp_path: Path
) -> None:
    file = tmp_path / "made_up.py"
    file.write_text(source)
    words = f"made_up.py:1: `make test` installs no {program}"
    assert held_by_nobody(programs(file), "test") == [words]


def test_a_workload_whose_package_is_in_no_list_is_named() -> None:
    made_up = type("MadeUp", (OwnCommand,), {"name": "made-up", "packages": ("frobtools",)})
    assert of_workload(made_up) == ["made-up: `make test` installs no frobtools"]


def test_what_only_make_test_installs_is_not_installed_by_the_demo() -> None:
    assert "ffmpeg" in installed_by("test")
    assert "gcc" in installed_by("demo")
    assert "ffmpeg" not in installed_by("demo")
