"""Doubts about a run as a whole: each with a run that has it, and one that has not."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from testing.synthetic import WORKLOADS, make_run
from ullage.analysis import doubts
from ullage.analysis.comparison.model import Doubt
from ullage.runs.reader import RunFolder

CPU = WORKLOADS[0]
Change = Callable[[dict[str, Any], int], None]
Doubted = Callable[..., dict[str, Doubt]]


@pytest.fixture
def doubted(tmp_path: Path) -> Doubted:
    """Code → doubt of a made-up run; `change` alters its trials, given with their number."""

    def make(change: Change | None = None, **more: Any) -> dict[str, Doubt]:
        settings = {"blocks": 16, "noise_sd": 0.02, "failures": [], "workloads": [CPU], **more}
        path = make_run(tmp_path / "run", raw=False, **settings)
        lines, number = [], 0
        for line in (path / "journal.jsonl").read_text().splitlines():
            event = json.loads(line)
            if event["event"] == "trial":
                if change:
                    change(event, number)
                number += 1
            lines.append(json.dumps(event))
        (path / "journal.jsonl").write_text("\n".join(lines) + "\n")
        raised = doubts.of_run(RunFolder.open(path), ())
        return {d.code: d for d in raised if d.code != "no-again"}

    return make


def test_a_quiet_run_has_none(doubted: Doubted) -> None:
    assert doubted() == {}


def test_steal(doubted: Doubted) -> None:
    assert "took 5" in doubted(steal=0.05)["steal"].message


@pytest.mark.parametrize(
    ("model", "expected"),
    [("QEMU TCG CPU version 2.5+", True), ("QEMU Virtual CPU version 2.5+", False)],
)
def test_a_host_that_is_emulated_itself(model: str, expected: bool, tmp_path: Path) -> None:
    """A guest under KVM may have the other name too, and its CPU is real."""
    path = make_run(tmp_path / "run", raw=False, failures=[], workloads=[CPU], blocks=6)
    resolved = json.loads((path / "resolved.json").read_text())
    resolved["host"]["cpu_model"] = model
    (path / "resolved.json").write_text(json.dumps(resolved))
    raised = {doubt.code: doubt for doubt in doubts.of_run(RunFolder.open(path), ())}
    assert ("host-emulated" in raised) is expected
    if expected:
        assert f"its CPU is called {model}" in raised["host-emulated"].message


def test_the_frequency_falls_in_the_course_of_the_run(doubted: Doubted) -> None:
    def change(event: dict[str, Any], number: int) -> None:
        event["meters"]["cpu"] = {"frequency": 3.6e9 - 1e7 * number}

    message = doubted(change)["frequency"].message
    assert message.startswith(
        "The CPUs ran at 3.50 GHz in the first quarter of the run, and at 2.9"
    )


def test_the_frequency_scatters(doubted: Doubted) -> None:
    rng = np.random.default_rng(1)

    def change(event: dict[str, Any], _: int) -> None:
        event["meters"]["cpu"] = {"frequency": float(rng.normal(3e9, 6e8))}

    assert doubted(change) == {}


def test_heat(doubted: Doubted) -> None:
    def change(event: dict[str, Any], number: int) -> None:
        event["meters"]["cpu"] = {"throttled": 2.0 if number % 20 == 3 else 0.0}

    doubts = doubted(change)
    assert doubts["throttled"].message == "Heat slowed the CPU down in 4 of 80 trials."

    def cool(event: dict[str, Any], _: int) -> None:
        event["meters"]["cpu"] = {"throttled": 0.0}

    assert doubted(cool) == {}


@pytest.mark.parametrize("what", ["down", "failures"])
def test_a_bundle_with_a_dead_cable(doubted: Doubted, what: str) -> None:
    def change(event: dict[str, Any], number: int) -> None:
        whole = {"cables": 4.0, "down": 0.0, "failures": 0.0}
        dead = event["environment"] == "lxc" and event["block"] > 9
        event["meters"]["links"] = whole | ({what: 1.0} if dead else {})

    message = doubted(change)["link-down"].message
    assert f"was down in 6 trials, of {CPU.key} in lxc:" in message
    assert "link-down" not in doubted()


def test_vms_that_never_swapped(doubted: Doubted) -> None:
    def change(event: dict[str, Any], _: int) -> None:
        idle = event["environment"] == "lxc" and event["block"] > 9
        event["meters"]["swap"] = {"swapped": 0.0 if idle else 4096.0, "without": float(idle)}

    message = doubted(change)["never-swapped"].message
    assert f"in 6 trials, of {CPU.key} in lxc" in message
    assert "never-swapped" not in doubted()


def test_vms_of_which_nothing_moved_never_swapped_whatever_lies_in_swap(doubted: Doubted) -> None:
    """Cold pages of the boot stay there, and no trial asks for them."""

    def change(event: dict[str, Any], _: int) -> None:
        still = event["environment"] == "lxc" and event["block"] > 9
        event["meters"]["swap"] = {
            "swapped": 4096.0,
            "without": 0.0,
            "returned": 0.0 if still else 4096.0,
            "still": float(still),
        }

    doubt = doubted(change)["never-swapped"]
    assert f"in 6 trials, of {CPU.key} in lxc." in doubt.message
    assert "has not touched" not in doubt.advice


def test_a_vm_whose_pages_came_back_swapped_though_none_is_left_there(doubted: Doubted) -> None:
    def change(event: dict[str, Any], _: int) -> None:
        event["meters"]["swap"] = {"swapped": 0.0, "without": 1.0, "returned": 4096.0, "still": 0.0}

    assert "never-swapped" not in doubted(change)


def test_memory_pressure_names_the_worst_cell(doubted: Doubted) -> None:
    def change(event: dict[str, Any], _: int) -> None:
        event["meters"]["host"]["psi_memory"] = 0.2 if event["environment"] == "lxc" else 0.01

    message = doubted(change)["pressure"].message
    assert message == f"Some task waited for memory in 20 % of the time of {CPU.key} in lxc."


@pytest.mark.parametrize(("programs", "expected"), [(0.9, True), (0.5, False)])
def test_others_on_the_host(doubted: Doubted, programs: float, expected: bool) -> None:
    """The programs used 0.95 s of 2 s of CPU time; what others used is the rest."""

    def change(event: dict[str, Any], _: int) -> None:
        event["meters"]["host"] |= {"cpu_time": 2.0, "programs": programs, "controller": 0.005}

    doubts = doubted(change)
    assert ("co-tenant" in doubts) is expected
    if expected:
        assert "Others used 42 % of all CPU time during" in doubts["co-tenant"].message
        assert "vm" not in doubts["co-tenant"].message, "of a guest nobody knows"


def test_absolute_values_that_begin_otherwise(doubted: Doubted) -> None:
    """All environments alike, so no ratio shows it."""

    def change(event: dict[str, Any], _: int) -> None:
        if event["block"] < 4:
            event["metrics"] = {k: v / 4 for k, v in event["metrics"].items()}

    message = doubted(change, blocks=24, noise_sd=0.2)["warm-up"].message
    assert message.startswith("Absolute values begin otherwise than they go on in ")
    assert "(first 4 trials × " in message


def test_a_machine_in_two_states(doubted: Doubted) -> None:
    def change(event: dict[str, Any], _: int) -> None:
        if event["block"] % 2:
            event["metrics"] = {k: v * 8 for k, v in event["metrics"].items()}

    message = doubted(change)["bimodal"].message
    assert message.startswith("Absolute values stand in two groups in ")
    assert "of them × 8" in message or "of them × 7" in message


def test_values_without_a_logarithm_are_left_out(doubted: Doubted) -> None:
    def change(event: dict[str, Any], number: int) -> None:
        event["metrics"] = {k: v * (number % 3 - 1) for k, v in event["metrics"].items()}

    assert doubted(change) == {}


def test_alarms_on_clean_runs(doubted: Doubted) -> None:
    """Of 25 clean runs with all workloads, at most what 1 % of chance allows."""
    runs = 25
    alarms = sum(
        bool(doubted(seed=seed, blocks=12, workloads=WORKLOADS, tails="heavy"))
        for seed in range(runs)
    )
    assert alarms <= 0.01 * runs + 3 * math.sqrt(0.01 * 0.99 * runs)
