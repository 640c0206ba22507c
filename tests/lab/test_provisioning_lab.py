"""Instances made and taken away by every provider, interrupted and killed in the middle."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from benchmarks.elastic import allocation
from tests.lab.runkit import ran
from tests.lab.traces import left_by
from tests.support import allocationkit
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.environments.agent.client import Command
from ullage.environments.containers.lxc import Lxc, LxcOptions
from ullage.environments.provisioning.allocate import allocate, release
from ullage.host import disks, image, leftovers
from ullage.host.cgroups import Group
from ullage.runs.allocations import Batch
from ullage.runs.reader import sessions

pytestmark = [pytest.mark.lab, pytest.mark.root]

PLAN = """\
name: provisioned
baseline: native
resources: {cpus: 1, memory: 256MiB}
environments:
  native: {provider: native}
  container: {provider: oci}
  lxc: {provider: lxc}
  vm: {provider: qemu, boot_deadline_s: 600}
workloads:
  - {name: provisioning, limit_s: 600, vary: {copy: [backing, real], count: [1, 2]}}
blocks: {min: 1, max: 1}
"""
SIZED = """\
name: sized
baseline: lxc
resources: {cpus: 1, memory: 256MiB}
environments:
  lxc: {provider: lxc}
  vm: {provider: qemu, boot_deadline_s: 900, vary: {image_format: [raw, qcow2]}}
workloads:
  - {name: provisioning, limit_s: 900, release_limit_s: 300, copy: real, image_size: 700MB}
blocks: {min: 1, max: 1}
"""
SYSTEMD = """\
name: booted
baseline: vm
resources: {cpus: 1, memory: 512MiB}
environments:
  vm: {provider: qemu, boot: systemd, boot_deadline_s: 900}
  lxc: {provider: lxc, boot: systemd, boot_deadline_s: 900}
workloads:
  - {name: provisioning, limit_s: 1000}
blocks: {min: 1, max: 1}
"""
MANY = """\
name: many
baseline: lxc
resources: {cpus: 1, memory: 256MiB}
environments:
  lxc: {provider: lxc}
  vm: {provider: qemu, boot_deadline_s: 600}
workloads:
  - {name: provisioning, count: 4}
blocks: {min: 50, max: 50}
"""


def ullage(*argv: str) -> list[str]:
    return [sys.executable, "-m", "ullage", *argv]


def test_every_provider_with_and_without_a_copy(tmp_path: Path) -> None:
    folder = ran(tmp_path, PLAN)
    assert len(folder.trials) == 5 * 4
    for done in folder.trials:
        assert done.status == "ok", done.reason
        raw = folder.path / "trials" / done.trial / "main.stdout"
        batch = Batch.model_validate_json(raw.read_text())
        assert all("replied" in instance.steps for instance in batch.instances)
    names = [figure.name for figure in allocation.rows(folder)]
    assert "TaR, native, allocate 1" in names
    assert "TlR, container (lxc), allocate 2, image copied" in names


def test_images_of_a_size_in_both_formats(tmp_path: Path) -> None:
    """A VM boots from a copy of its disk in either format, with what fills it up beside it."""
    folder = ran(tmp_path, SIZED)
    assert [done.status for done in folder.trials] == ["ok"] * 4
    treatments = {e.key: e.treatments for e in folder.resolved.environments}
    assert treatments["vm[image_format=qcow2]"]["image"] == "qcow2"
    assert "image" not in treatments["vm[image_format=raw]"]
    for done in folder.trials:
        raw = folder.path / "trials" / done.trial / "main.stdout"
        assert Batch.model_validate_json(raw.read_text()).image_size == 700_000_000


def test_a_whole_debian_boots(tmp_path: Path) -> None:
    folder = ran(tmp_path, SYSTEMD)
    assert [done.status for done in folder.trials] == ["ok"] * 3
    assert folder.resolved.environments[1].treatments["boot"] == "systemd"


def debian(**fields: Any) -> tuple[Lxc, image.Image]:
    """A provider whose containers boot with systemd, and an image that has it."""
    provider = Lxc(LxcOptions(boot="systemd", **fields))
    return provider, asyncio.run(image.build(provider.packages()))


def test_what_systemd_has_written_goes_when_nothing_of_it_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    provider, built = debian()
    real, pids = disks.remove_tree, dict[str, set[int]]()

    def remove(directory: Path) -> None:
        pids[directory.name] = Group.find(directory.parent.name, "a-0").pids()
        real(directory)

    monkeypatch.setattr(disks, "remove_tree", remove)

    async def scenario() -> None:
        async with allocationkit.node(provider, built) as node:
            allocated = await allocate(node, "a-0")
            is_running = Command(("systemctl", "is-system-running"))
            _, state, _ = await allocated.instance.agent.run(is_running)
            assert state.strip() in {b"running", b"degraded"}  # all that is to start has started
            await release(allocated)

    asyncio.run(scenario())
    assert pids["a-0.layer"] == set()


def test_a_container_that_does_not_boot_in_time() -> None:
    provider, built = debian(boot_deadline_s=0.01)

    async def scenario() -> UllageError:
        async with allocationkit.node(provider, built) as node:
            with pytest.raises(UllageError) as caught:
                await allocate(node, "a-0")
            return caught.value

    error = asyncio.run(scenario())
    assert error.kind is errors.INSTANCE_NOT_STARTED
    assert "its systemd has not started everything within 0.01 s" in error.message


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_stopped_in_the_middle_of_a_batch(tmp_path: Path, how: signal.Signals) -> None:
    plan, runs = tmp_path / "plan.yaml", tmp_path / "runs"
    plan.write_text(MANY)
    build = ullage("image", "build", str(plan))
    subprocess.run(build, check=True, capture_output=True)
    controller = subprocess.Popen(
        ullage("run", str(plan), "--runs", str(runs)),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 600
        while not list(runs.glob("*/trials/*/main.stdout")):  # a batch is over, so the next begins
            assert time.monotonic() < deadline
            assert controller.poll() is None
            time.sleep(0.05)
        time.sleep(0.5)
        controller.send_signal(how)
        controller.wait(timeout=300)
    finally:
        controller.kill()
        controller.wait()
    if how is signal.SIGKILL:
        assert left_by(runs), "a killed run should leave its environments"
        # What `ullage clean` does, for this run alone: others may work on this host.
        (session,) = sessions(next(runs.iterdir()))
        assert leftovers.remove(leftovers.find(session.tag)) == []
    assert not left_by(runs)


def test_sixteen_at_once(tmp_path: Path) -> None:
    text = MANY.replace("count: 4", "count: 16").replace("50", "1")
    folder = ran(tmp_path, text.replace("  vm: {provider: qemu, boot_deadline_s: 600}\n", ""))
    for done in folder.trials:
        assert done.status == "ok", done.reason
        curve = done.metrics["allocated"]
        assert isinstance(curve, list)
        assert [x for x, _ in curve] == [float(n) for n in range(1, 17)]
