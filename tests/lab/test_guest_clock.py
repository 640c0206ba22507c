"""A real guest's clock over virtio-serial: emulated, and halted between trials."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ullage.environments.agent.client import Command
from ullage.environments.base import Instance, InstanceSpec
from ullage.environments.qemu.options import QemuOptions
from ullage.environments.qemu.provider import Qemu
from ullage.host import claims, clock, image, paths
from ullage.host.cgroups import Group
from ullage.host.network.bridge import Network

pytestmark = [pytest.mark.lab, pytest.mark.root]
TRIALS = 12
"""So many times is it halted, woken up, looked at, used and looked at again."""


def test_bounds_over_virtio_serial(tag: str, agent_binary: Path) -> None:
    asyncio.run(_guest(tag, agent_binary))
    assert Group.find(tag).directories == []


async def _guest(tag: str, agent: Path) -> None:
    claims.claim(tag, "lab")
    provider = Qemu(QemuOptions.model_validate({"accel": "tcg"}))
    await provider.check()
    built = await image.build(provider.packages())
    network = await Network.create(tag)
    try:
        name = "vm-0"
        state, data = paths.state_dir(tag) / name, paths.data_dir(tag) / name
        state.mkdir()
        data.mkdir()
        vm = await provider.create(
            InstanceSpec(
                tag=tag,
                name=name,
                cpu_ids=(0, 1),
                cpu_quota=None,
                memory_bytes=512 << 20,
                image=built,
                agent=agent,
                state_dir=state,
                data_dir=data,
                network=network,
            )
        )
        try:
            await _look(vm)
        finally:
            await vm.destroy()
    finally:
        await network.destroy()


async def _look(vm: Instance) -> None:
    agent = vm.agent
    facts = agent.clock_claims
    print(f"\nclock inside: {facts.source}, cores within {facts.ordered_ns} ns, {facts.reasons}")
    assert not facts.shared, "it is another kernel"
    for number in range(TRIALS):
        await vm.freeze()
        await asyncio.sleep(0.2)
        await vm.thaw()
        before = agent.clock
        halted = agent.take_looks()[-1]
        assert halted.why == "thaw"
        at_ns = clock.ordered_ns() + 2_000_000 + 10 * agent.rtt_ns
        length = "5" if number == TRIALS - 1 else "0.3"
        finished, _, _ = await agent.run(Command(("sleep", length)), at_ns=at_ns)
        after = await agent.sync("after")
        ours = before.closed_by(after.first)
        done = finished.corrected(ours)
        moved = after.first.fix.offset_ns - before.first.fix.offset_ns
        between = after.first.fix.local_ns - before.first.fix.local_ns
        unsure = (before.bound_ns + after.bound_ns) / between * 1e6
        first = before.first
        print(f"trial {number}: look ± {before.bound_ns / 1e3:.1f} us", end=", ")
        print(f"{first.messages} messages, {first.took_ns / 1e6:.2f} ms", end="; ")
        print(f"corrected ± {done.clock_bound_ns / 1e3:.1f} us", end=", ")
        print(f"99.9 % ± {done.clock_sure_ns / 1e3:.1f} us", end="; ")
        print(f"drift {moved / between * 1e6:+.2f} ± {unsure:.2f} ppm")
        # What can be seen from here without its clock.
        assert at_ns <= done.start_ns + done.clock_bound_ns
        assert done.end_ns - done.clock_bound_ns <= done.arrived_ns
        assert done.end_ns - done.start_ns >= float(length) * 0.99e9
        assert done.clock_sure_ns <= done.clock_bound_ns
    assert agent.residual_ns() is None, "it stood still in between, so no line joins the trials"
