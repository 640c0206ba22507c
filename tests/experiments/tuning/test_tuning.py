"""Which settings are tried, the plan that follows, and what is said of its run."""

from __future__ import annotations

from pathlib import Path

import pytest

from testing.synthetic import ENVIRONMENTS, WORKLOADS, make_run
from ullage.cli.output import tune as output
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.experiments.tuning import screening
from ullage.experiments.tuning import settings as known
from ullage.experiments.tuning.outcome import outcome
from ullage.experiments.tuning.plan import (
    BASE,
    PROVEN,
    TUNED,
    TuneRequest,
    campaign,
    confirmation,
    names,
)
from ullage.experiments.tuning.settings import SETTINGS, TuneHost, select
from ullage.plan import matrix, schema
from ullage.runs.reader import RunFolder

HOST = TuneHost(cpus=2, kvm=False)


@pytest.fixture(autouse=True)
def bare_host(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No vhost and no huge pages, wherever this runs."""
    monkeypatch.setattr(known, "VHOST", tmp_path / "vhost-net")
    monkeypatch.setattr("ullage.environments.qemu.memory._POOLS", tmp_path)


def test_a_workload_has_the_settings_that_it_may_feel() -> None:
    network = select("network", HOST)
    assert [s.name for s in network.settings] == ["queues", "offloads", "vcpus"]
    assert set(network.absent) == {"vhost", "nic", "hugepages", "cpu_model"}
    assert "modprobe vhost_net" in network.absent["vhost"]
    assert "has reserved none" in network.absent["hugepages"]
    disk = select("disk", HOST)
    assert [s.name for s in disk.settings] == [
        *("disk.cache", "disk.aio", "disk.bus", "io_thread"),
        "vcpus",
    ]
    assert [s.name for s in select("cpu", TuneHost(cpus=1, kvm=True)).settings] == ["cpu_model"]


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (["turbo"], "turbo: no such setting"),
        (["vhost"], "vhost: no "),
        (["queues", "nic"], "nic: with it queues mean nothing"),
    ],
)
def test_what_cannot_be_tried_is_refused(names: list[str], reason: str) -> None:
    with pytest.raises(UllageError, match=reason) as caught:
        select("network", HOST, names)
    assert caught.value.kind is errors.TUNE_NO_SETTING
    assert "disk.cache" in caught.value.hint


def test_nothing_to_tune_is_said() -> None:
    with pytest.raises(UllageError, match="the VM has one CPU") as caught:
        select("cpu", TuneHost(cpus=1, kvm=False))
    assert caught.value.kind is errors.TUNE_NO_SETTING


@pytest.mark.parametrize("resource", ["network", "disk"])
def test_the_plan_is_one_that_runs(resource: str) -> None:
    """Its environments have the options of the design's runs, row by row."""
    settings = select(resource, HOST).settings  # type: ignore[arg-type]
    workload = {"network": "iperf3", "disk": "sysbench-fileio"}[resource]
    request = TuneRequest(workload={"name": workload}, blocks=2, cpus=2, options={"accel": "tcg"})
    plan, document = schema.loads(campaign(request, settings))
    cells = matrix.resolve(plan, document)
    design = screening.design(len(settings))
    assert [cell.key for cell in cells.environments[: len(design)]] == names(settings)
    assert plan.baseline == BASE
    assert plan.repeat.instances == 1
    for cell, levels in zip(cells.environments, design, strict=False):
        options = cell.provider.options
        for setting, level in zip(settings, levels, strict=True):
            value = options
            for part in setting.name.split("."):
                value = getattr(value, part)
            expected = setting.value(level)
            assert value == expected or (setting.name == "disk.aio" and level < 0)


def test_the_saved_plan_has_what_is_proven_and_what_seems_better() -> None:
    settings = select("disk", HOST).settings
    request = TuneRequest(workload={"name": "sysbench-fileio"}, cpus=2)
    text = confirmation(request, settings, settings[:1], settings[:2])
    plan, document = schema.loads(text)
    cells = matrix.resolve(plan, document)
    assert [cell.key for cell in cells.environments][:3] == [BASE, PROVEN, TUNED]
    alike, _ = schema.loads(confirmation(request, settings, settings[:1], settings[:1]))
    assert list(alike.environments) == [BASE, TUNED]


def test_every_setting_is_an_option_of_a_vm() -> None:
    for setting in SETTINGS:
        request = TuneRequest(workload={"name": "sysbench-cpu"}, cpus=2)
        for text in (campaign(request, [setting]), confirmation(request, [setting], [], [setting])):
            matrix.resolve(*schema.loads(text))


def campaign_run(path: Path, blocks: int, failures: list[tuple[int, str, str]]) -> RunFolder:
    """Three settings: the second makes it a tenth better, the third a twentieth worse."""
    rows = zip(names(SETTINGS[:3]), screening.design(3), strict=True)
    truth = {
        name: (1 / 1.1 if levels[1] > 0 else 1) * (1.05 if levels[2] > 0 else 1)
        for name, levels in rows
    }
    records = [ENVIRONMENTS[4].model_copy(update={"key": name}) for name in truth]
    path = make_run(
        path,
        blocks=blocks,
        environments=records,
        workloads=WORKLOADS[:1],
        truth={(name, WORKLOADS[0].key): ratio for name, ratio in truth.items()},
        noise_sd=0.005,
        failures=failures,
        raw=False,
    )
    return RunFolder.open(path)


def test_what_was_planted_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = campaign_run(tmp_path / "run", 4, [(1, BASE, WORKLOADS[0].key)])
    result = outcome(folder, SETTINGS[:3])
    assert (result.blocks, result.left_out) == (3, 1)
    assert [effect.ratio for effect in result.effects] == pytest.approx(
        [1, 1 / 1.1, 1.05], abs=0.01
    )
    assert [setting.name for setting in result.proven] == [SETTINGS[1].name]
    assert SETTINGS[2] not in result.better
    output.show(result)
    printed = capsys.readouterr().out
    assert "Proven in 3 blocks: `queues: 2` makes events_rate 1.1" in printed
    assert "1 block left out: a trial had no figure" in printed
    fields = output.as_dict(result)
    assert (fields["proven"], fields["blocks"]) == (["queues"], 3)


def test_too_few_whole_blocks_are_said(tmp_path: Path) -> None:
    folder = campaign_run(tmp_path / "run", 2, [(1, BASE, WORKLOADS[0].key)])
    with pytest.raises(UllageError, match="1 of 2 blocks have every figure") as caught:
        outcome(folder, SETTINGS[:3])
    assert caught.value.kind is errors.TUNE_TOO_FEW
