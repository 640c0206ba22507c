"""The README's two commands on a Debian that has never seen the project (`make fresh`)."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.programuses import ROOT

pytestmark = [
    pytest.mark.lab,
    pytest.mark.root,
    # Everything is fetched and built anew, on a machine that others use too.
    pytest.mark.timeout(3000),
    pytest.mark.skipif(shutil.which("cargo") is None, reason="it has the host's Rust"),
]

ASK_FOR_PROGRAMS = (
    "tests/test_packages.py",
    "tests/meters/energy",
    "tests/experiments/studies/test_elastic_clock_runs.py",
    "tests/engine/test_launcher.py",
    "tests/workloads",
)


def on_a_fresh_debian(command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["scripts/fresh-root", "bash", "-c", command],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def remains() -> list[str]:
    groups = [str(place) for place in Path("/sys/fs/cgroup").glob("**/ullage-fresh")]
    roots = [str(place) for place in Path("/var/tmp").glob("ullage-fresh.*")]
    devices = [str(place) for place in Path("/sys/class/net").glob("ullage-fresh*")]
    rules = subprocess.run(["iptables-save"], capture_output=True, text=True, check=True).stdout
    return [*groups, *roots, *devices, *(rule for rule in rules.splitlines() if "10.219." in rule)]


def test_it_has_only_what_the_readme_asks_for_and_leaves_nothing() -> None:
    done = on_a_fresh_debian(
        "make --version >&2 && cargo --version >&2 || exit 8;"
        " type -t python3 gcc cc ip git ps qemu-img; ls /proc/sys/net/ipv4/conf; exit 7"
    )
    assert done.returncode == 7, done.stderr
    assert done.stdout.splitlines()[1:] == ["all", "default", "eth0", "lo"]
    assert remains() == []


@pytest.mark.long
def test_make_test_installs_all_that_tests_ask_for() -> None:
    tests = " ".join(ASK_FOR_PROGRAMS)
    done = on_a_fresh_debian(f"make test-needs programs && scripts/run-tests fresh -rs {tests}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line for line in done.stdout.splitlines() if "needs " in line] == []
    assert remains() == []


@pytest.mark.long
def test_the_demo_runs() -> None:
    done = on_a_fresh_debian("make demo PLAN=tests/lab/fresh.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "On this machine container (crun)" in done.stdout
    assert remains() == []
