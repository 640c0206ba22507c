"""Environments with a container image each: an old one beside a new one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.host.container_image import imagekit
from tests.support.commandkit import ullage
from ullage.common import errors
from ullage.plan import matrix, schema
from ullage.runs.reader import RunFolder, newest_run

pytestmark = pytest.mark.root

PLAN = """\
name: two
baseline: old
environments:
  old: {{provider: {old}, image: {{oci: "docker-archive:old.tar"}}}}
  new: {{provider: {new}, image: {{oci: "docker-archive:new.tar"}}}}
workloads:
  - name: command
    metrics: {{age: {{unit: s, better: lower, primary: true, regex: "age ([0-9]+)"}}}}
blocks: {{min: 2, max: 2}}
{more}
"""
ALLOWED = "allow: [userland]"


@pytest.fixture(autouse=True)
def places_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("STATE", "DATA", "CACHE"):
        monkeypatch.setenv(f"ULLAGE_{name}_DIR", str(tmp_path / name.lower()))


def written(folder: Path, old: str = "native", new: str = "native", more: str = ALLOWED) -> Path:
    for name, age in (("old", 7), ("new", 3)):
        layers = [imagekit.busybox()]
        entry = ["/bin/echo", f"age {age}"]
        imagekit.save(folder / f"{name}.tar", layers, Entrypoint=entry)
    file = folder / "plan.yaml"
    file.write_text(PLAN.format(old=old, new=new, more=more))
    return file


@pytest.mark.parametrize(("old", "new"), [("native", "native"), ("oci", "oci")])
def test_each_runs_from_its_own(tmp_path: Path, old: str, new: str) -> None:
    written(tmp_path, old, new)
    done = ullage("run", "plan.yaml", cwd=tmp_path)
    assert done.code == 0, done.stderr
    folder = RunFolder.open(newest_run(tmp_path / "runs"))
    values = {trial.environment: trial.metrics["age"] for trial in folder.trials}
    assert values == {"old": 7, "old~again": 7, "new": 3}
    images = {e.key: e.image and e.image.reference for e in folder.resolved.environments}
    assert images == {
        "old": "docker-archive:old.tar",
        "old~again": "docker-archive:old.tar",
        "new": "docker-archive:new.tar",
    }
    assert folder.resolved.image is None
    page = (folder.path / "report.html").read_text()
    assert "docker-archive:new.tar (sha256:" in page and "each environment&#39;s own" in page


def test_no_other_image_is_built_for_them(tmp_path: Path) -> None:
    written(tmp_path)
    done = ullage("image", "build", "plan.yaml", cwd=tmp_path)
    assert done.code == 0, done.stderr
    lines = sorted(line.split(" ")[1] for line in done.stdout.splitlines())
    assert lines == ["docker-archive:new.tar", "docker-archive:old.tar"]
    assert len(list((tmp_path / "cache/images").glob("*/rootfs.tar"))) == 2


def test_that_they_differ_must_be_meant(tmp_path: Path) -> None:
    layers = [imagekit.busybox(), imagekit.layer(imagekit.Entry("etc/more", b"more"))]
    written(tmp_path, more="")
    imagekit.save(tmp_path / "new.tar", layers, Entrypoint=["/bin/echo", "age 3"])
    done = ullage("run", "plan.yaml", cwd=tmp_path)
    assert f"error[{errors.PARITY_UNEQUAL.code}]" in done.stderr and "userland" in done.stderr


def test_a_run_goes_on_with_the_same_images_only(tmp_path: Path) -> None:
    file = written(tmp_path)
    assert ullage("run", "plan.yaml", cwd=tmp_path).code == 0
    imagekit.save(tmp_path / "other.tar", [imagekit.busybox()], Entrypoint=["/bin/echo", "age 5"])
    file.write_text(file.read_text().replace("new.tar", "other.tar").replace("max: 2", "max: 4"))
    folder = newest_run(tmp_path / "runs")
    (folder / "plan.yaml").write_text(file.read_text())
    again = ullage("run", "--resume", str(folder), cwd=tmp_path)
    assert f"error[{errors.RUN_CHANGED.code}]" in again.stderr and "environment new" in again.stderr


def test_the_image_may_be_what_varies() -> None:
    text = PLAN.format(old="native", new="native", more=ALLOWED)
    names = '["shop:1", "shop:2"]'
    text = text.replace('image: {oci: "docker-archive:new.tar"}', f"vary: {{image.oci: {names}}}")
    cells = matrix.resolve(*schema.loads(text))
    assert [e.image and e.image.oci for e in cells.environments] == [
        "docker-archive:old.tar",
        "shop:1",
        "shop:2",
        "docker-archive:old.tar",
    ]


def test_lxc_needs_no_image_of_the_plan(tmp_path: Path) -> None:
    text = written(tmp_path, "native", "lxc", f"image: host\n{ALLOWED}").read_text()
    assert [e.image is None for e in matrix.resolve(*schema.loads(text)).environments] == [
        False
    ] * 3
