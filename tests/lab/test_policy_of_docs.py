"""The policy of docs/guide/elastic-policies.md compiles as it stands there and passes all tests."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.lab

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/guide/elastic-policies.md").read_text()


def test_the_policy_of_the_page_is_one_file_and_one_line(tmp_path: Path) -> None:
    for name in ("Cargo.toml", "Cargo.lock", "rust-toolchain.toml"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / "rust", tmp_path / "rust")
    policies = tmp_path / "rust/elastic/src/policy"
    (source,) = re.findall(r"```rust\n(.*?)```", PAGE, re.DOTALL)
    (policies / "fixed.rs").write_text(source)
    listed = (policies / "mod.rs").read_text()
    line = "    elastic_movie::ElasticMovie,\n"
    assert listed.count(line) == 1
    (policies / "mod.rs").write_text(listed.replace(line, f"{line}    fixed::Fixed,\n"))
    stories = tmp_path / "rust/elastic/tests/policies.rs"
    stories.write_text(
        stories.read_text()
        + """
#[test]
fn fixed_nodes_stay() {
    let config = Config { allocation: Allocation::OnePerNeed, ..Config::new(1) };
    let mut story = Story::of(config, json!({"name": "fixed", "nodes": 2}));
    assert_eq!(story.then(0, Event::Tick), [allocate(0), allocate(1)]);
    story.ready(1, 0);
    story.ready(1, 1);
    story.request(2, 7);
    assert_eq!(story.finished(3, 7), []);
}
"""
    )
    subprocess.run(
        ["cargo", "test", "--locked", "--quiet", "-p", "ullage-elastic"],
        check=True,
        cwd=tmp_path,
        env=os.environ | {"CARGO_TARGET_DIR": str(tmp_path / "target")},
        timeout=1000,
    )
