"""Makes the wheel: `python -m scripts.wheel BUILT` packs the sources with what was built.

BUILT is a folder as `ullage/` is one: `_clock.abi3.so`, and `bin/` with the agent and programs.
The wheel's tag is what they need: an architecture, CPython's stable ABI, a C library's version.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection

from scripts import man_pages
from ullage.host import build

ROOT: Final = Path(__file__).resolve().parent.parent
MODULES: Final = ("_clock.abi3.so", "_elastic.abi3.so")
MACHINES: Final = {"EM_X86_64": "x86_64", "EM_AARCH64": "aarch64"}
_SETUP: Final = """from setuptools import Distribution, setup

class Built(Distribution):
    def has_ext_modules(self):
        return True

setup(
    distclass=Built,
    data_files=[("share/man/man1", {pages!r})],
    options={{"bdist_wheel": {{"py_limited_api": "cp311", "plat_name": {platform!r}}}}},
)
"""


def make(built: Path, out: Path) -> Path:
    """The wheel, in `out`."""
    with tempfile.TemporaryDirectory(prefix="ullage-wheel-") as name:
        tree = Path(name)
        for file in ("pyproject.toml", "README.md", "LICENSE", *sources()):
            (tree / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / file, tree / file)
        add(built, tree / "ullage")
        pages = man_pages.write(tree / "man")
        setup = _SETUP.format(
            pages=[str(page.relative_to(tree)) for page in pages],
            platform=platform(tree / "ullage"),
        )
        (tree / "setup.py").write_text(setup, encoding="utf-8")
        pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
        pip += ["wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(tree / "wheel")]
        subprocess.run([*pip, str(tree)], check=True)
        (wheel,) = (tree / "wheel").glob("*.whl")
        out.mkdir(parents=True, exist_ok=True)
        return Path(shutil.move(wheel, out / wheel.name))


def sources() -> list[str]:
    """The package's files but for what is built. Nobody is asked: a tree needs no git."""
    files = (file for file in (ROOT / "ullage").rglob("*") if file.is_file())
    paths = (file.relative_to(ROOT) for file in files)
    return sorted(
        str(path)
        for path in paths
        if "__pycache__" not in path.parts and path.parts[1] != "bin" and path.suffix != ".so"
    )


def add(built: Path, package: Path) -> None:
    """What was built, and of which commit."""
    shutil.copytree(built / "bin", package / "bin")
    for module in MODULES:  # one shared object holds both
        shutil.copy(built / MODULES[0], package / module)
    (package / build.FILE).write_text(f"{build.of_clone(ROOT) or 'unknown'}\n", encoding="ascii")


def platform(package: Path) -> str:
    """`manylinux_2_35_x86_64`: of what the host loads. Programs with an MPI run in images."""
    machines, versions = set(), {(2, 17)}
    files = [package / module for module in MODULES]
    files += [file for file in (package / "bin").iterdir() if file.is_file()]
    for file in files:
        with file.open("rb") as stream:
            try:
                elf = ELFFile(stream)
            except ELFError:  # a wheel for guests, a text
                continue
            machines.add(MACHINES[elf["e_machine"]])
            versions.update(_versions(elf))
    (machine,) = machines
    major, minor = max(versions)
    return f"manylinux_{major}_{minor}_{machine}"


def _versions(elf: ELFFile) -> Iterator[tuple[int, int]]:
    """Of the C library, as its symbols ask for them: `GLIBC_2.35`."""
    section = elf.get_section_by_name(".gnu.version_r")
    if isinstance(section, GNUVerNeedSection):
        for _, needs in section.iter_versions():
            for need in needs:
                if need.name.startswith("GLIBC_"):
                    major, minor = need.name.removeprefix("GLIBC_").split(".")[:2]
                    yield int(major), int(minor)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("built", type=Path)
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    arguments = parser.parse_args()
    print(make(arguments.built.resolve(), arguments.out))


if __name__ == "__main__":
    main()
