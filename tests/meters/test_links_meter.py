"""Meter `links`: what bonds of a made-up sysfs tell, and who asks."""

from __future__ import annotations

from pathlib import Path

import pytest

from ullage.host.network import cables
from ullage.meters.base import Scene
from ullage.meters.links import Links

TAG = "u0000001"


@pytest.fixture
def sysfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(cables, "DEVICES", tmp_path)
    (tmp_path / f"{TAG}-br").mkdir()
    return tmp_path


def bundle(sysfs: Path, device: str, name: str, count: int = 2) -> list[Path]:
    """The near bond of a device of that endpoint; gives what its cables say of themselves."""
    bond = sysfs / f"{TAG}-b{device}"
    (bond / "bonding").mkdir(parents=True)
    (bond / "ifalias").write_text(f"{name}\n")
    ends = [f"{TAG}-{letter}{device}" for letter in "nopq"[:count]]
    (bond / "bonding/slaves").write_text(" ".join(ends) + "\n")
    for end in ends:
        (sysfs / end / "bonding_slave").mkdir(parents=True)
        says(sysfs / end, "up", 0)
    return [sysfs / end for end in ends]


def says(end: Path, state: str, failures: int) -> None:
    (end / "bonding_slave/mii_status").write_text(f"{state}\n")
    (end / "bonding_slave/link_failure_count").write_text(f"{failures}\n")


def meter(*instances: str, tag: str = TAG) -> Links:
    links = Links()
    links.watch(Scene(tag=tag, instances=instances))
    links.begin()
    return links


def test_those_who_take_part_are_counted_and_nobody_else(sysfs: Path) -> None:
    bundle(sysfs, "v2", "native-0")
    bundle(sysfs, "v3", "crun-0")
    dead, _ = bundle(sysfs, "t4", "vm-0")
    says(dead, "down", 3)
    assert meter("native-0", "crun-0").end() == {"cables": 4, "down": 0, "failures": 0}
    assert meter("vm-0").end() == {"cables": 2, "down": 1, "failures": 0}


def test_without_sysfs_nothing_is_told(sysfs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cables, "DEVICES", sysfs / "none")
    assert meter("native-0").end() == {}


def test_one_that_dies_and_one_that_comes_back_meanwhile(sysfs: Path) -> None:
    first, second = bundle(sysfs, "v2", "native-0")
    says(second, "down", 1)
    links = meter("native-0")
    says(first, "up", 2)
    says(second, "up", 1)
    assert links.end() == {"cables": 2, "down": 1, "failures": 2}


def test_several_devices_of_one_instance_are_its_links_together(sysfs: Path) -> None:
    bundle(sysfs, "t4", "vm-0")
    bundle(sysfs, "x4", "vm-0", 3)
    assert meter("vm-0").end()["cables"] == 5


def test_without_bundles_nothing_is_told(sysfs: Path) -> None:
    assert meter("native-0").end() == {}
    assert meter("native-0", tag="").end() == {}
