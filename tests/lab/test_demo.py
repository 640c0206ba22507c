"""`make demo`, as a new user types it: four environments, four resources, one page."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lab.traces import left_by
from ullage.runs.reader import RunFolder

pytestmark = [pytest.mark.lab, pytest.mark.root]

DEMO = Path(__file__).parents[2] / "demo.yaml"


def test_the_demo(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ullage", "run", str(DEMO), "--runs", str(tmp_path), "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["failed"] == 0
    assert answer["blocks"] >= 6
    weighed = {(c["environment"], c["resource"]) for c in answer["comparisons"] if c["primary"]}
    assert weighed == {
        (environment, resource)
        for environment in ("container", "lxc", "vm")
        for resource in ("cpu", "memory", "disk", "network")
    }
    assert all(c["interval"] and c["verdict"] for c in answer["comparisons"] if c["primary"])
    assert {c["resource"] for c in answer["again"]} == {"cpu", "memory", "disk", "network"}
    image = RunFolder.open(Path(answer["folder"])).resolved.image
    assert image is not None and image.digest.startswith("sha256:")
    assert "sysbench" in image.packages
    page = Path(answer["report"]).read_text(encoding="utf-8")
    assert "</html>" in page
    assert 'src="http' not in page and 'href="http' not in page
    assert not left_by(tmp_path)
