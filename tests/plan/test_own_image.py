"""`image:` of the user's own: what a plan may say, and who needs an entry point."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.host.container_image.imagekit import Entry, layer, save
from tests.support import commandkit
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.common.yamlfile import parse
from ullage.plan import schema
from ullage.plan.matrix import Matrix, require_entry_point, resolve
from ullage.runs.records import ImageConfig, ImageRecord

PLAN = """\
name: own
baseline: native
image: {image}
environments:
  native: {{provider: native}}
  other: {{provider: native}}
workloads:
  - {{name: command{argv}}}
"""


def resolved(image: str, argv: str = "") -> Matrix:
    document = parse(PLAN.format(image=image, argv=argv))
    return resolve(schema.check(document), document)


def test_the_entry_point_of_an_own_image() -> None:
    matrix = resolved("{oci: app:1}")
    record = ImageRecord(kind="oci", digest="sha256:0", reference="app:1", config=ImageConfig())
    with pytest.raises(UllageError) as caught:
        require_entry_point(matrix, record)
    assert caught.value.kind is errors.IMAGE_NO_ENTRY
    says = record.model_copy(update={"config": ImageConfig(cmd=("serve",))})
    require_entry_point(matrix, says)
    require_entry_point(resolved("{oci: app:1}", ', argv: ["true"]'), record)


@pytest.mark.parametrize("image", ["built", "host", "{packages: [jq]}"])
def test_no_other_image_has_one(image: str) -> None:
    with pytest.raises(UllageError, match="only an image of yours has an entry point") as caught:
        resolved(image)
    assert caught.value.kind is errors.PLAN_IMPOSSIBLE_MATRIX


@pytest.mark.parametrize(
    "image",
    [
        "{}",
        "{root: read-only}",
        "{root: writable, packages: [jq], oci: app:1}",
        "{oci: app:1, packages: [jq]}",
        "{oci: -v}",
        "{packages: [--x]}",
        "{files: {app: relative}}",
        "{files: {app: /opt/../etc}}",
        "{run: [make]}",
        "{run: [[]]}",
        "mine",
    ],
)
def test_what_is_no_image(image: str) -> None:
    with pytest.raises(UllageError) as caught:
        resolved(image, ', argv: ["true"]')
    assert caught.value.kind is errors.PLAN_BAD_FIELD


@pytest.mark.root
def test_image_build_takes_the_image_that_the_plan_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ULLAGE_CACHE_DIR", str(tmp_path / "cache"))
    archive = save(tmp_path / "app.tar", [layer(Entry("app", b"mine"))], Cmd=["/app"])
    plan = tmp_path / "plan.yaml"
    plan.write_text(PLAN.format(image=f"{{oci: 'docker-archive:{archive}'}}", argv=""))
    done = commandkit.ullage("image", "build", str(plan), "--json")
    assert done.code == 0, done.stderr
    root = Path(json.loads(done.stdout)["root"])
    assert (root / "app").read_bytes() == b"mine"
    plan.write_text(PLAN.format(image="host", argv=', argv: ["true"]'))
    host = commandkit.ullage("image", "build", str(plan))
    assert (host.code, host.stdout) == (0, "")
    assert "nothing is built" in host.stderr
