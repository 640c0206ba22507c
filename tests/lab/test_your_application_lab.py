"""The guide's story of a shop: built by Docker, tried, measured in four environments, and gated."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.lab.dockerkit import daemon
from tests.lab.traces import left_by
from ullage.host.image import build
from ullage.runs.reader import RunFolder, newest_run

pytestmark = [
    pytest.mark.lab,
    pytest.mark.root,
    pytest.mark.usefixtures("agent_binary"),
    pytest.mark.skipif(shutil.which("dockerd") is None, reason="needs docker.io"),
]

STORY: Final = Path(__file__).parents[2] / "docs/plans/your-application"
PATIENT: Final = "deadline_s: 60\n    late_limit_s: 5 "
"""This machine may be busy: what counts here is who wins, and by far."""
SLEEP: Final = "my $price = 0;\n            select undef, undef, undef, 0.2;"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """The story's folder, beside a daemon whose only image is a Debian."""
    folder = tmp_path / "app"
    shutil.copytree(STORY, folder)
    for plan in folder.glob("*.yaml"):
        plan.write_text(plan.read_text().replace("late_limit_s: 0.5", PATIENT))
    debian = asyncio.run(build(())).tar
    with daemon(tmp_path):
        subprocess.run(["docker", "import", debian, "debian:bookworm"], check=True)
        yield folder


def docker_build(folder: Path) -> None:
    # Debian's Docker has no BuildKit.
    env = {**os.environ, "DOCKER_BUILDKIT": "0"}
    argv = ["docker", "build", "--quiet", "--tag", "shop", "."]
    subprocess.run(argv, cwd=folder, env=env, check=True)


def ullage(folder: Path, *argv: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "ullage", *argv],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    print(done.stdout, done.stderr)
    return done.returncode, done.stdout


def test_the_story(place: Path) -> None:
    docker_build(place)
    plan = place / "shop.yaml"
    plan.write_text(plan.read_text().replace("min: 6, max: 6", "min: 1, max: 1"))
    code, _ = ullage(place, "run", "shop.yaml")
    folder = RunFolder.open(newest_run(place / "runs"))
    assert code == 0
    assert {trial.environment for trial in folder.trials if trial.status == "ok"} == {
        "native",
        "native~again",
        "container",
        "system",
        "vm",
    }
    code, _ = ullage(place, "run", "gate.yaml")
    assert code == 0
    before = str(newest_run(place / "runs"))
    line = ("--baseline", before, "--worse-than", "90%", "--allow", "image")
    patient = ("--inconclusive", "extend", "--extend", "10m")
    code, printed = ullage(place, "gate", "run", "gate.yaml", *line, *patient)
    assert (code, "Passed." in printed) == (0, True)
    shop = place / "shop.pl"
    shop.write_text(shop.read_text().replace("my $price = 0;", SLEEP))
    docker_build(place)
    report = place / "gate.xml"
    code, printed = ullage(place, "gate", "run", "gate.yaml", *line, "--junit", str(report))
    assert (code, "shown to be more than 90 % worse" in printed) == (1, True)
    assert "<failure" in report.read_text()
    assert left_by(place / "runs") == []
