"""The engine on real native instances: what works, and every way in which a trial can go wrong."""

import asyncio
import json
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.enginekit import Quiet, engine, prepare, resumed, run
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.engine.engine import Engine
from ullage.runs.reader import RunFolder
from ullage.runs.records import JOURNAL
from ullage.runs.verify import verify

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("places_of_its_own")]


def by_status(folder: RunFolder) -> Mapping[str, set[str]]:
    keys_by_status: dict[str, set[str]] = {}
    for trial in folder.trials:
        keys_by_status.setdefault(trial.workload, set()).add(trial.status)
    return keys_by_status


def test_a_plain_run(tmp_path: Path) -> None:
    outcome, folder = run(tmp_path, ['name: command, argv: ["echo", "hello"]'])
    assert (outcome.reason, outcome.blocks, outcome.trials, outcome.failed) == ("blocks", 2, 6, 0)
    assert {trial.environment for trial in folder.trials} == {"native", "other", "native~again"}
    for trial in folder.trials:
        (role,) = trial.roles
        assert (folder.path / str(role.stdout)).read_text() == "hello\n"
        assert trial.metrics["seconds"] == pytest.approx((trial.end_ns - trial.start_ns) / 1e9)
        assert role.status == 0
        meters = {meter.name for meter in folder.resolved.meters}
        assert set(trial.meters) == meters - {"guest"} >= {"host"}
    assert folder.resolved.environments[0].nuisances["memory"] == "256MiB"
    assert folder.finished is not None
    assert folder.finished.reason == "blocks"


def test_failures_have_reasons_and_no_figures(tmp_path: Path) -> None:
    outcome, folder = run(
        tmp_path,
        [
            'name: command, as: good, argv: ["true"]',
            'name: command, as: bad-status, argv: ["false"]',
            'name: command, as: absent, argv: ["no-such-program"]',
            'name: command, as: slow, argv: ["sleep", "60"], timeout_s: 0.2',
            'name: command, as: garbage, argv: ["head", "-c", "100000", "/dev/urandom"],'
            " expect_output: fine",
            'name: command, as: hostile, argv: ["printf", "</script><script>alert(1)</script>"],'
            " expect_output: fine",
        ],
        blocks=1,
    )
    assert by_status(folder) == {
        "good": {"ok"},
        "bad-status": {"invalid"},
        "absent": {"failed"},
        "slow": {"failed"},
        "garbage": {"invalid"},
        "hostile": {"invalid"},
    }
    assert outcome.failed == 15
    for trial in folder.trials:
        assert (trial.reason is None) == (trial.status == "ok")
        assert bool(trial.metrics) == (trial.status == "ok")
    codes = {trial.workload: trial.reason.code for trial in folder.trials if trial.reason}
    assert codes["slow"] == "timeout"
    assert codes["bad-status"] == "not-valid"


def test_an_instance_that_dies_fails_its_trial_and_is_made_again(tmp_path: Path) -> None:
    died = f"{tmp_path}/died$(echo $PWD | tr / _)"
    script = f"test -e {died} && exit 0; touch {died}; kill -9 $PPID; sleep 5"
    _, folder = run(
        tmp_path, [f'name: command, argv: ["sh", "-c", "{script}"], timeout_s: 20'], blocks=2
    )
    first, second = folder.trials[:3], folder.trials[3:]
    assert {trial.status for trial in first} == {"failed"}
    assert all(trial.reason and "agent" in trial.reason.code for trial in first)
    assert {trial.status for trial in second} == {"ok"}
    provisioned = [event for event in folder.events if event.event == "provisioned"]
    assert len(provisioned) == 6


def test_two_factors_interrupted_and_resumed(tmp_path: Path) -> None:
    workloads = [
        'name: command, as: naps, argv: ["sleep", "0.05"], vary: {timeout_s: [5, 6]}',
        'name: command, as: nothing, argv: ["true"], vary: {timeout_s: [5, 6]}',
    ]
    checked, cells, folder = prepare(tmp_path, workloads, blocks=4)

    async def interrupted() -> None:
        task = asyncio.create_task(Engine(checked, cells, folder, Quiet()).run())
        while len(list(folder.glob("trials/*"))) < 8:
            await asyncio.sleep(0.01)
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(interrupted())
    before = RunFolder.open(folder)
    assert before.finished is not None
    assert before.finished.reason == "interrupted"
    assert 0 < len(before.trials) < 48
    outcome = asyncio.run(Engine(checked, cells, folder, Quiet(), resume=True).run())
    after = RunFolder.open(folder)
    assert (outcome.reason, len(after.trials)) == ("blocks", 48)
    assert after.trials[: len(before.trials)] == before.trials
    assert after.resolved.seed == before.resolved.seed


def test_a_block_whose_end_was_not_written_keeps_its_trials(tmp_path: Path) -> None:
    """`kill -9` between the last trial of a block and the line that closes it."""
    first_run = engine(tmp_path, ['name: command, argv: ["sleep", "0.1"]'], blocks=2)
    asyncio.run(first_run.run())
    file = first_run.folder / JOURNAL
    lines = file.read_bytes().splitlines(keepends=True)
    (_, last) = [i for i, line in enumerate(lines) if b'"event":"block"' in line]
    file.write_bytes(b"".join(lines[:last]))
    before = RunFolder.open(first_run.folder)
    assert [block.block for block in before.blocks] == [0]
    assert before.complete_blocks == (0, 1), "it has all its trials"
    assert before.spent_s > before.blocks[0].seconds + 3 * 0.1, "a budget counts it"
    outcome = asyncio.run(resumed(first_run).run())
    after = RunFolder.open(first_run.folder)
    assert (outcome.reason, outcome.blocks) == ("blocks", 2)
    assert after.trials == before.trials, "none of it is done again"


def test_a_block_of_which_trials_were_lost_does_only_these_again(tmp_path: Path) -> None:
    first_run = engine(tmp_path, ['name: command, argv: ["true"]'], blocks=2)
    asyncio.run(first_run.run())
    file = first_run.folder / JOURNAL
    lines = file.read_bytes().splitlines(keepends=True)
    trials = [i for i, line in enumerate(lines) if b'"event":"trial"' in line]
    file.write_bytes(b"".join(lines[: trials[-1]]) + lines[trials[-1]][:20])
    before = RunFolder.open(first_run.folder)
    asyncio.run(resumed(first_run).run())
    after = RunFolder.open(first_run.folder)
    assert after.trials[:5] == before.trials and len(after.trials) == 6
    assert after.complete_blocks == (0, 1)
    assert [block.block for block in after.blocks] == [0, 1]


def test_unequal_environments_are_refused_and_allowed_by_name(tmp_path: Path) -> None:
    more = ", resources: {cpus: 1, memory: 512MiB}"
    workloads = ['name: command, argv: ["true"]']
    with pytest.raises(UllageError) as caught:
        run(tmp_path, workloads, other=more)
    assert caught.value.kind is errors.PARITY_UNEQUAL
    assert "memory" in caught.value.message
    _, folder = run(tmp_path, workloads, other=more, extra="allow: [memory]\n")
    assert [row.nuisance for row in folder.resolved.parity if row.allowed] == ["memory"]


def test_too_large_for_this_host(tmp_path: Path) -> None:
    for resources in ("{cpus: 1000, memory: 1GiB}", "{cpus: 1, memory: 9999TiB}"):
        with pytest.raises(UllageError) as caught:
            run(tmp_path, ['name: command, argv: ["true"]'], other=f", resources: {resources}")
        assert caught.value.kind is errors.HOST_TOO_SMALL


def test_a_disk_of_data_that_others_fill_stops_the_run(tmp_path: Path) -> None:
    """It is not the run folder's: nobody looked at it."""
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(small)], check=True)
    fill = f'"head -c 4000000 /dev/zero > {small}/others || true"'
    try:
        checked, cells, folder = prepare(
            tmp_path,
            [f'name: command, argv: ["sh", "-c", {fill}]'],
            other=f", disk: {{path: {small}}}",
            blocks=3,
        )
        with pytest.raises(UllageError) as caught:
            asyncio.run(Engine(checked, cells, folder, Quiet()).run())
        assert caught.value.kind is errors.RUN_DISK_LOW
        assert str(small) in caught.value.message
        assert [path.name for path in small.iterdir()] == ["others"]
        (small / "others").write_bytes(bytes(4_100_000))
        free = Engine(checked, cells, folder, Quiet(), resume=True)
        asyncio.run(free.run())
        assert "disk-low" in {warned.code for warned in RunFolder.open(folder).warnings}
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_a_full_disk_stops_the_run_and_it_can_be_resumed(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(small)]
    subprocess.run(mount, check=True)
    try:
        noisy = 'name: command, argv: ["head", "-c", "60000", "/dev/zero"]'
        checked, cells, folder = prepare(small, [noisy], blocks=4)
        with pytest.raises(UllageError) as caught:
            asyncio.run(Engine(checked, cells, folder, Quiet()).run())
        assert caught.value.kind is errors.RUN_DISK_LOW
        before = RunFolder.open(folder)
        assert all(trial.status == "ok" for trial in before.trials)
        subprocess.run([*mount[:3], "-o", "remount,size=8m", str(small)], check=True)
        asyncio.run(Engine(checked, cells, folder, Quiet(), resume=True).run())
        after = RunFolder.open(folder)
        assert len(after.trials) == 12
        assert after.trials[: len(before.trials)] == before.trials
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_a_run_takes_no_more_of_the_disk_than_its_plan_allows(tmp_path: Path) -> None:
    noisy = 'name: command, argv: ["head", "-c", "60000", "/dev/zero"]'
    checked, cells, folder = prepare(tmp_path, [noisy], blocks=4, extra="outputs: 300KiB\n")
    with pytest.raises(UllageError) as caught:
        asyncio.run(Engine(checked, cells, folder, Quiet()).run())
    assert caught.value.kind is errors.RUN_OUTPUTS_FULL
    before = RunFolder.open(folder)
    assert 0 < len(before.trials) < 12
    assert before.finished is not None
    assert "its plan allows 300KiB" in before.finished.message
    more = checked.model_copy(update={"outputs": 10_000_000})
    asyncio.run(Engine(more, cells, folder, Quiet(), resume=True).run())
    after = RunFolder.open(folder)
    assert len(after.trials) == 12
    assert after.trials[: len(before.trials)] == before.trials
    assert {checked.state for checked in verify(folder)} == {"holds"}


def test_several_instances_start_together(tmp_path: Path) -> None:
    _, folder = run(
        tmp_path,
        ['name: command, argv: ["sleep", "0.1"]'],
        other=", instances: 3",
        extra="allow: [instances]\n",
    )
    several = [trial for trial in folder.trials if trial.environment == "other"]
    for trial in several:
        assert len(trial.instances) == 3
        assert trial.spread_ns is not None
        values = [figures["seconds"] for figures in trial.instances.values()]
        assert trial.metrics["seconds"] == pytest.approx(sum(values) / 3)  # type: ignore[arg-type]


def test_who_starts_alone_waits_for_no_instant(tmp_path: Path) -> None:
    alone = ['name: command, argv: ["true"]']
    _, folder = run(tmp_path, alone, other=", instances: 2", extra="allow: [instances]\n")
    late = {"native": set[bool](), "other": set[bool]()}
    for trial in folder.trials:
        late[trial.environment.partition("~")[0]] |= {role.late_ns > 0 for role in trial.roles}
    assert late["native"] == {False}
    assert True in late["other"], "two cannot both be there at the very nanosecond"


def test_the_journal_is_json_lines(tmp_path: Path) -> None:
    _, folder = run(tmp_path, ['name: command, argv: ["true"]'], blocks=1)
    lines = (folder.path / JOURNAL).read_text().splitlines()
    assert json.loads(lines[0])["event"] == "started"
    assert json.loads(lines[-1])["event"] == "finished"
