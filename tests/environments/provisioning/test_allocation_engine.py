"""Trials that make instances of their own, in real runs on native instances."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from tests.support.enginekit import Quiet, engine, run
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.engine.engine import Engine
from ullage.environments.base import Instance, InstanceSpec
from ullage.environments.native import Native, NativeInstance
from ullage.environments.provisioning import node
from ullage.host import leftovers
from ullage.plan import matrix, schema
from ullage.runs.allocations import Batch
from ullage.runs.reader import RunFolder, sessions
from ullage.runs.writer import new_folder

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("places_of_its_own")]

TWO = "name: provisioning, count: 2, application: none"


def test_a_run_of_allocations(tmp_path: Path) -> None:
    outcome, folder = run(tmp_path, [TWO])
    assert outcome.failed == 0
    for done in folder.trials:
        assert done.status == "ok", done.reason
        assert done.roles == ()
        assert done.facts["requests within"].endswith(" ms")
        stored = (folder.path / "trials" / done.trial / "main.stdout").read_text()
        batch = Batch.model_validate_json(stored)
        assert len(batch.instances) == 2
        assert all(steps.name.startswith(done.trial) for steps in batch.instances)
        first = min(steps.steps["asked"] for steps in batch.instances)
        assert done.start_ns <= first < max(steps.released for steps in batch.instances)
        assert max(steps.released for steps in batch.instances) <= done.end_ns
        assert done.metrics["allocation_time"] == done.metrics["allocated"][-1][1]  # type: ignore[index]


def test_there_is_one_batch_however_many_instances_the_plan_has(tmp_path: Path) -> None:
    more = {"other": ", instances: 2", "extra": "allow: [instances]\n"}
    _, folder = run(tmp_path, [TWO], blocks=1, **more)
    for done in folder.trials:
        assert done.status == "ok", done.reason
        assert done.instances == {}
        assert len(done.metrics["allocated"]) == 2  # type: ignore[arg-type]


def test_iterations_of_allocations(tmp_path: Path) -> None:
    _, folder = run(tmp_path, [TWO], blocks=1, extra="repeat: {iterations: 2}\n")
    for done in folder.trials:
        assert done.status == "ok", done.reason
        assert len(done.iterations) == 2
        raw = folder.path / "trials" / done.trial
        assert sorted(file.name for file in raw.glob("*.stdout")) == [
            "main-i00.stdout",
            "main-i01.stdout",
        ]


def test_a_batch_that_cannot_be_made_is_a_failed_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Native.create

    async def create(self: Native, spec: InstanceSpec) -> Instance:
        if spec.name.startswith("b000-") and spec.name.endswith("-1"):
            raise UllageError(
                errors.INSTANCE_NOT_STARTED, provider="native", name=spec.name, reason="no luck"
            )
        return await real(self, spec)

    monkeypatch.setattr(Native, "create", create)
    _, folder = run(tmp_path, [TWO])
    for done in folder.trials:
        if done.block:
            assert done.status == "ok", done.reason
        else:
            assert done.status == "failed"
            assert done.metrics == {}
            assert done.reason is not None
            assert done.reason.code == "instance-not-started"
            assert "no luck" in done.reason.message


def test_one_that_does_not_stand_still_leaves_no_other_standing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who stood still after the trial could not answer, and would have to be made again."""
    freezes: Counter[str] = Counter()
    real = NativeInstance.freeze

    async def freeze(self: NativeInstance) -> None:
        freezes[self.name] += 1
        if (self.name, freezes[self.name]) == ("other-1", 2):  # the first one was when it was made
            await asyncio.sleep(0.2)
            raise UllageError(errors.CGROUP_STUCK, path="/x", state="FROZEN", seconds=10.0)
        await real(self)

    monkeypatch.setattr(NativeInstance, "freeze", freeze)
    more = {"other": ", instances: 2", "extra": "allow: [instances]\n"}
    _, folder = run(tmp_path, [TWO], blocks=1, **more)
    failed = [done.reason.code for done in folder.trials if done.reason]
    assert failed == ["cgroup-stuck"]
    assert "not-frozen" not in {warned.code for warned in folder.warnings}
    provisioned = [event.instance for event in folder.provisioned]
    assert len(provisioned) == len(set(provisioned)), "one was made again"


def test_more_vms_than_fit_are_refused_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Native, "keeps_memory", True)
    monkeypatch.setattr(node, "available_bytes", lambda: 1 << 30)
    refused = engine(tmp_path, ["name: provisioning, count: 16, application: none"])
    with pytest.raises(UllageError) as caught:
        asyncio.run(refused.run())
    assert caught.value.kind is errors.ALLOCATION_NO_ROOM
    assert RunFolder.open(refused.folder).trials == ()


def test_a_copy_of_the_hosts_userland_is_refused(tmp_path: Path) -> None:
    refused = engine(tmp_path, [TWO + ", copy: real"])
    with pytest.raises(UllageError) as caught:
        asyncio.run(refused.run())
    assert caught.value.kind is errors.ALLOCATION_NO_COPY


def test_interrupted_in_the_middle_of_a_batch(tmp_path: Path) -> None:
    """Ctrl-C: what was being made goes with everything else of the run."""
    checked, document = schema.loads(
        "name: cut\nbaseline: native\nimage: host\nresources: {cpus: 1, memory: 256MiB}\n"
        "environments: {native: {provider: native}}\n"
        "workloads: [{name: provisioning, count: 8, application: none}]\n"
        "blocks: {min: 50, max: 50}\n"
    )
    folder = new_folder(tmp_path, "cut")
    interrupted = Engine(checked, matrix.resolve(checked, document), folder, Quiet())

    async def scenario() -> str:
        task = asyncio.create_task(interrupted.run())
        async with asyncio.timeout(120):
            while not list(tmp_path.glob("state/*/b0*-t*i0-*")):
                assert not task.done()
                await asyncio.sleep(0.001)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        return sessions(folder)[0].tag

    assert leftovers.find(asyncio.run(scenario()), own=True) == []
