"""One direction: which room may import which, held by the contracts of pyproject.toml.

What may import what stands there and nowhere else. Here they are kept, and seen to be red when one
is broken on purpose; what reads a run loads nothing that measures; and no two files need each
other.
"""

from __future__ import annotations

import linecache
import shutil
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Final

import grimp
import pytest

from tests.test_old_folders import OLD

ROOT: Final = Path(__file__).parent.parent
LINT: Final = Path(sys.executable).with_name("lint-imports")
MEASURING: Final = ("engine", "plan", "nodes", "meters", "workloads", "environments", "host")
LONGEST: Final = 14
"""Files that one import may pull in, one by another; lower it whenever it can be."""
READING: Final = (
    ("show", "run/*"),
    ("report", "run/*"),
    ("export", "run/*"),
    ("compare", "run/*", "run/*"),
    ("elastic", "show", "elastic/*"),
    ("elastic", "report", "elastic/*"),
    ("elastic", "export", "elastic/*"),
    ("study", "show", "cmu-overhead", "run/*"),
    ("study", "show", "elastic-clock", "clock/*", "elastic/*", "study/*"),
)
LOADED: Final = """
import sys
from ullage.cli.main import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
print("loaded", *(name for name in sys.modules if name.startswith("ullage.")), file=sys.stderr)
"""


def contracts(folder: Path) -> subprocess.CompletedProcess[str]:
    """Hold the package in a folder against the contracts."""
    argv = [str(LINT), "--no-cache", "--no-logo", str(ROOT / "pyproject.toml")]
    return subprocess.run(
        argv,
        check=False,
        cwd=folder,
        env={"PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
    )


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A folder with a copy of the package's sources."""
    only = shutil.ignore_patterns("bin", "*.so", "__pycache__")
    shutil.copytree(ROOT / "ullage", tmp_path / "ullage", ignore=only)
    return tmp_path


def test_the_contracts_are_kept() -> None:
    done = contracts(ROOT)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("importer", "imported"),
    [
        ("report/page", "engine.engine"),
        ("host/image", "analysis.overhead"),
        ("environments/base", "plan.matrix"),
        ("runs/reader", "host.paths"),
        ("stats/interval", "runs.reader"),
        ("experiments/run", "cli.options"),
    ],
)
def test_a_broken_contract_names_both(copied: Path, importer: str, imported: str) -> None:
    file = copied / "ullage" / f"{importer}.py"
    line = f"def later() -> None:\n    import ullage.{imported}\n"  # a lazy one counts too
    file.write_text(f"{file.read_text()}\n\n{line}")
    done = contracts(copied)
    assert done.returncode == 1, done.stdout + done.stderr
    output = " ".join(done.stdout.split())
    assert f"ullage.{importer.replace('/', '.')} -> ullage.{imported}" in output


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The old folders, where pages and tables may be written beside them."""
    place = tmp_path_factory.mktemp("old") / "folders"
    shutil.copytree(OLD, place)
    return place


@pytest.mark.parametrize("argv", READING, ids=lambda argv: " ".join(argv[:2]))
def test_what_reads_loads_nothing_that_measures(old: Path, argv: tuple[str, ...]) -> None:
    paths = [str(path) for word in argv for path in (old.glob(word) if "*" in word else [word])]
    done = subprocess.run(
        [sys.executable, "-c", LOADED, *paths],
        check=False,
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    loaded = done.stderr.splitlines()[-1].split()[1:]
    assert "ullage.cli.main" in loaded
    rooms = tuple(f"ullage.{room}" for room in MEASURING)
    assert [name for name in loaded if name.startswith(rooms)] == []


Imports = dict[str, set[str]]


def imports(*, lazy: bool) -> Imports:
    """Module → modules that it imports; without those that a function imports, if not `lazy`."""
    graph = grimp.build_graph("ullage", exclude_type_checking_imports=True, cache_dir=None)
    return {
        module: {
            other
            for other in graph.find_modules_directly_imported_by(module)
            if lazy or _at_the_top(graph, module, other)
        }
        for module in graph.modules
    }


def _at_the_top(graph: grimp.ImportGraph, importer: str, imported: str) -> bool:
    places = graph.get_import_details(importer=importer, imported=imported)
    file = _file(importer)
    lines = (linecache.getline(str(file), place["line_number"]) for place in places)
    return any(not line.startswith(" ") for line in lines)


def _file(module: str) -> Path:
    path = ROOT / module.replace(".", "/")
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def chain(graph: Imports) -> list[str]:
    """The longest way from a file to one that it needs, file by file."""
    best: dict[str, list[str]] = {}
    for module in TopologicalSorter(graph).static_order():
        below = max((best[other] for other in graph[module]), key=len, default=[])
        best[module] = [module, *below]
    return max(best.values(), key=len)


def test_no_two_files_need_each_other() -> None:
    TopologicalSorter(imports(lazy=True)).prepare()


def test_no_import_is_a_long_chain() -> None:
    longest = chain(imports(lazy=False))
    assert len(longest) <= LONGEST, " > ".join(longest)
