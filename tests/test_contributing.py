"""CONTRIBUTING's `Add a workload`, followed to the letter in a copy of the package."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ullage.workloads.registry import UNITS

ROOT = Path(__file__).resolve().parent.parent
NAME = "openssl-digest"

LIST = "import json, ullage.workloads as w; print(json.dumps([w.__file__, *w.names()]))"
RUN = """
import json, sys
from pathlib import Path
from tests.workloads.workload_runs import checked, run
from ullage import workloads

workload = workloads.get("openssl-digest")
parameters = workload.parameters_model(digest="sha512", block_size="8KiB")
print(json.dumps(checked(workload, parameters, run(workload, parameters, Path(sys.argv[1])))))
"""
GARBAGE = """
from ullage import workloads
from ullage.workloads.base import InvalidTrialError, Output

workload = workloads.get("openssl-digest")
half = ("+H:16384\\n+F:1:sha256:1.00", "+DT:sha256:1:16384")
for stdout, stderr in (("", ""), ("\\0", "nan"), half):
    try:
        workload.check(workload.parameters_model(), {"main": Output(0, None, stdout, stderr, 1.0)})
    except InvalidTrialError as error:
        print("refused:", error)
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package with the worked example added: its file, and its line in the list."""
    section = (ROOT / "CONTRIBUTING.md").read_text().partition("## Add a workload")[2]
    section = section.partition("\n## ")[0]
    ((file, code),) = re.findall(r"Save it as `([^`]+)`:\n\n```python\n(.*?)```", section, re.S)
    (added,) = re.findall(r"Add its line to `WORKLOADS`[^\n]*\n\n```\n(.*?)\n```", section, re.S)
    place = tmp_path_factory.mktemp("contributing")
    shutil.copytree(
        ROOT / "ullage", place / "ullage", ignore=shutil.ignore_patterns("__pycache__", "bin")
    )
    assert not (place / file).exists()
    (place / file).write_text(code)
    listed = place / "ullage/workloads/__init__.py"
    lines = listed.read_text().split("\n")
    first = lines.index("WORKLOADS: tuple[type[AnyWorkload], ...] = load(") + 1
    last = lines.index(")", first)
    assert "\n" not in added
    lines[first:last] = sorted([*lines[first:last], added])
    listed.write_text("\n".join(lines))
    return place


def python(copy: Path, *arguments: str) -> str:
    """Run Python with the copy in front of everything else."""
    path = os.pathsep.join([str(copy), str(ROOT)])
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=copy,
        env={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_workload_is_listed(copy: Path) -> None:
    file, *names = json.loads(python(copy, "-c", LIST))
    assert Path(file).is_relative_to(copy)
    assert NAME in names


def test_its_docs_are_generated(copy: Path) -> None:
    python(copy, "-m", "ullage.docs_reference")
    page = (copy / "docs/reference/workloads.md").read_text()
    section = page.partition(f"\n## {NAME}\n")[2].partition("\n## ")[0]
    assert "`openssl speed`" in section
    assert "| `digest` | `sha256`, `sha512` | `sha256` | the hash function |" in section
    assert "| `throughput` *primary* | B/s | higher |" in section


def test_a_real_run_of_it_is_parsed(copy: Path, tmp_path: Path) -> None:
    figures = json.loads(python(copy, "-c", RUN, str(tmp_path)))
    assert figures["throughput"] > 1_000_000
    assert f":sha512:{figures['throughput']:.2f}\n" in (tmp_path / "main.stdout").read_text()


def test_it_refuses_garbage(copy: Path) -> None:
    assert python(copy, "-c", GARBAGE).count("refused:") == 3


def test_it_keeps_the_house_style(copy: Path) -> None:
    file = str(copy / "ullage/workloads/openssl_digest.py")
    config = f"--config={ROOT / 'pyproject.toml'}"
    python(copy, "-m", "ruff", "check", config, file)
    python(copy, "-m", "ruff", "format", "--check", config, file)


def test_it_names_every_unit() -> None:
    (units,) = re.findall(
        r"Metrics have an SI unit \((.*?)\)", (ROOT / "CONTRIBUTING.md").read_text()
    )
    assert set(re.findall(r"`([^`]+)`", units)) == UNITS
