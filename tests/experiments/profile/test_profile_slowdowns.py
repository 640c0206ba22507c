"""Slow-downs on the real thing: they are in force inside, counted, and leave nothing."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from ullage.common.commands import run
from ullage.common.quantities import memory_bytes
from ullage.environments.agent import client
from ullage.environments.agent.client import Command
from ullage.environments.base import InstanceSpec
from ullage.experiments.profile import disk
from ullage.experiments.profile.slowdowns import PERIOD_US, Hindered, HinderedOptions, netns
from ullage.host import cgroups, leftovers

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("agent_binary")]


def spec(tag: str, tmp_path: Path) -> InstanceSpec:
    for name in ("state", "data"):
        (tmp_path / name / tag / "slow-0").mkdir(parents=True)
    return InstanceSpec(
        tag=tag,
        name="slow-0",
        cpu_ids=(0,),
        cpu_quota=None,
        memory_bytes=memory_bytes(),
        image=None,
        agent=client.binary(),
        state_dir=tmp_path / "state" / tag / "slow-0",
        data_dir=tmp_path / "data" / tag / "slow-0",
        network=None,
    )


def left(tag: str) -> list[leftovers.Leftover]:
    """But the directories, which the fleet makes and removes."""
    remaining = leftovers.find(tag, force=True)
    return [leftover for leftover in remaining if leftover.kind not in ("state", "data")]


def settings(tag: str, *names: str) -> list[str]:
    """What the files of the instance's groups say, of those that there are."""
    directories = cgroups.Group.find(tag, "slow-0").directories
    return [(p / n).read_text().strip() for p in directories for n in names if (p / n).exists()]


@pytest.mark.parametrize(
    ("share", "quota", "period"), [(0.25, 2500, PERIOD_US), (0.02, 1000, 50_000)]
)
def test_a_quota_holds_in_short_periods(
    tag: str, tmp_path: Path, share: float, quota: int, period: int
) -> None:
    async def work() -> list[str]:
        instance = await Hindered(HinderedOptions(cpu=share)).create(spec(tag, tmp_path))
        try:
            return settings(tag, "cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.max")
        finally:
            await instance.destroy()

    assert asyncio.run(work()) in ([str(quota), str(period)], [f"{quota} {period}"])
    assert left(tag) == []


def test_what_goes_through_it_is_counted(tag: str, tmp_path: Path) -> None:
    device = disk.whole_disk(tmp_path)
    provider = Hindered(HinderedOptions(alone=True, link=8_000_000_000, device=device))
    script = (
        "import os, socket\n"
        "a, b = socket.socket(2, 2), socket.socket(2, 2)\n"
        "a.bind(('127.0.0.1', 0))\n"
        "for _ in range(7): b.sendto(bytes(1000), a.getsockname()); a.recv(2000)\n"
        f"f = os.open({str(tmp_path / 'file')!r}, os.O_CREAT | os.O_WRONLY | os.O_DSYNC)\n"
        "for _ in range(5): os.write(f, bytes(8192))\n"
        "print([name for _, name in socket.if_nameindex()])\n"
    )

    async def work() -> tuple[str, str]:
        instance_spec = spec(tag, tmp_path)
        instance = await provider.create(instance_spec)
        try:
            await instance.freeze()
            await instance.thaw()
            qdiscs = await run(["tc", "-n", netns(instance_spec), "qdisc", "show", "dev", "lo"])
            command = Command(argv=(sys.executable, "-I", "-c", script))
            done, out, err = await instance.agent.run(command)
            assert done.status == 0, err
            return qdiscs, out.decode().strip()
        finally:
            await instance.destroy()

    shown, devices = asyncio.run(work())
    assert shown.startswith("qdisc tbf")
    assert "rate 8Gbit" in shown
    assert devices == "['lo']", "nothing but the loopback is there"
    assert provider.traffic is not None
    assert provider.traffic.packets >= 7
    assert provider.traffic.network_bytes >= 7000
    if device is not None and disk.tree() is not None:
        assert provider.traffic.disk.writes >= 5
        assert provider.traffic.disk.written_bytes >= 5 * 8192
    assert left(tag) == []


def test_a_limit_that_cannot_be_set_leaves_nothing(
    tag: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object) -> None:
        raise OSError("no such filter")

    monkeypatch.setattr("ullage.experiments.profile.loopback.shape", broken)
    provider = Hindered(HinderedOptions(alone=True, link=1000))
    with pytest.raises(OSError, match="no such filter"):
        asyncio.run(provider.create(spec(tag, tmp_path)))
    assert left(tag) == []
    assert cgroups.Group.find(tag).directories == []


def test_it_says_what_is_slow() -> None:
    options = {
        "CPU at 25%": HinderedOptions(cpu=0.25),
        "disk throttled": HinderedOptions(disk={"rbps": 1}),
        "network shaped": HinderedOptions(link=1),
        "native": HinderedOptions(alone=True),
    }
    for label, given in options.items():
        provider = Hindered(given)
        assert provider.label() == label
        assert (provider.treatments() == {}) == (label == "native")
