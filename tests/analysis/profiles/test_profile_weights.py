"""A profile from a run folder: which trials count, what is refused, what is said."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.analysis.profilekit import CROSS, THREE, made_profile, survey
from ullage.analysis.profiles import words
from ullage.analysis.profiles.model import COMMAND, PROBE, UNDISTURBED, Profile, load
from ullage.analysis.profiles.weights import profile
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.experiments.profile.loads import SECONDS
from ullage.runs.events import Reason, Trial
from ullage.runs.reader import RunFolder
from ullage.runs.records import EnvironmentRecord, Resolved, Resource, WorkloadRecord

Spoil = Callable[[Trial], Trial]


def folder(
    weights: Sequence[float],
    blocks: int = 6,
    noise: float = 0.01,
    spoil: Spoil = lambda trial: trial,
    cross: np.ndarray[tuple[int, ...], np.dtype[np.float64]] = CROSS,
) -> RunFolder:
    """As the engine leaves it: 2 s of the command, 0.4 s of each probe."""
    rng = np.random.default_rng(1)
    trials: list[Trial] = []
    for block in range(blocks):
        for h, environment in enumerate((UNDISTURBED, *THREE)):
            slower = cross[h - 1] if h else np.ones(len(THREE))
            figures = {COMMAND: 2 * (1 + float((slower - 1) @ np.array(weights)))}
            figures |= {PROBE + r: 0.4 * float(slower[q]) for q, r in enumerate(THREE)}
            for workload, seconds in figures.items():
                trials.append(
                    spoil(
                        Trial(
                            trial=f"b{block:03d}-t{len(trials):03d}",
                            block=block,
                            order=0,
                            position=0,
                            environment=environment,
                            workload=workload,
                            status="ok",
                            epoch_ns=1,
                            start_ns=1,
                            end_ns=2,
                            metrics={"seconds": seconds * float(np.exp(rng.normal(0, noise)))},
                        )
                    )
                )
    resolved = Resolved(
        ullage="0",
        run="x",
        tag="u0000000",
        name="x",
        seed=1,
        baseline=UNDISTURBED,
        confidence=0.95,
        margin=0.02,
        resources={},
        blocks={},
        environments=tuple(
            EnvironmentRecord(key=key, label=key, provider="native")
            for key in (UNDISTURBED, *THREE)
        ),
        workloads=(
            WorkloadRecord(
                key=COMMAND,
                workload=COMMAND,
                resource="other",
                title="x",
                parameters={},
                metrics=(SECONDS,),
                duration_s=1,
            ),
            *(
                WorkloadRecord(
                    key=PROBE + resource,
                    workload=PROBE + resource,
                    resource=resource,
                    title="x",
                    parameters={},
                    metrics=(SECONDS,),
                    duration_s=1,
                )
                for resource in THREE
            ),
        ),
    )
    return RunFolder(Path("profiles/x"), resolved, tuple(trials), truncated=False)


def failed(environment: str, workload: str, blocks: set[int]) -> Spoil:
    def spoil(trial: Trial) -> Trial:
        if (trial.environment, trial.workload) != (environment, workload):
            return trial
        if trial.block not in blocks:
            return trial
        reason = Reason(code="not-valid", message="it ended with 7")
        return trial.model_copy(update={"status": "invalid", "metrics": {}, "reason": reason})

    return spoil


def shares(measured: Profile) -> dict[str, float]:
    return {weight.name: weight.share.estimate for weight in measured.weights}


def test_known_weights_come_out_of_a_run_folder() -> None:
    measured = profile(folder((0.5, 0.1, 0.3)), survey(unused={"network": "it sent no packet"}))
    expected = {"cpu": 0.5, "memory": 0.1, "disk": 0.3, "network": 0.0}
    assert shares(measured) == pytest.approx(expected, abs=0.06)
    assert measured.rest.estimate == pytest.approx(0.1, abs=0.06)
    assert (measured.blocks, measured.dropped, measured.normalised) == (6, 0, False)
    for weight in measured.weights:
        assert 0 <= weight.share.low <= weight.share.estimate <= weight.share.high <= 1
    assert len(measured.covariance) == len(measured.weights)
    assert {(s.hindrance, s.of) for s in measured.slowdowns} == {
        (h, q) for h in THREE for q in (None, *THREE)
    }
    assert "Network: it sent no packet." in words.notes(measured)


def test_what_sleeps_waits_for_nothing_that_was_slowed() -> None:
    measured = profile(folder((0.0, 0.0, 0.0)), survey())
    assert measured.rest.estimate == pytest.approx(1.0, abs=0.03)
    assert measured.rest.high == 1.0


def test_weights_over_one_are_divided_by_their_sum() -> None:
    measured = profile(folder((0.9, 0.0, 0.6)), survey())
    assert measured.normalised
    assert measured.total.estimate == pytest.approx(1.5, abs=0.1)
    assert sum(shares(measured).values()) == pytest.approx(1.0)
    assert measured.rest.estimate == 0.0
    (sentence,) = (note for note in words.notes(measured) if "divided by that" in note)
    assert sentence.startswith("Together they came to 1.")


def test_a_block_with_a_failed_trial_is_left_out_and_counted() -> None:
    spoil = failed("disk", COMMAND, {3})
    measured = profile(folder((0.5, 0.1, 0.3), blocks=12, spoil=spoil), survey())
    assert (measured.blocks, measured.dropped) == (11, 1)
    assert "1 block left out, in which a trial failed." in list(words.notes(measured))


@pytest.mark.parametrize(
    ("environment", "workload", "expected"),
    [
        ("disk", COMMAND, "3 of 6 trials of the command failed with disk slowed: it ended with 7"),
        (UNDISTURBED, "probe-cpu", "3 of 6 trials of the probe-cpu failed: it ended with 7"),
    ],
)
def test_too_many_failures_give_no_weights(environment: str, workload: str, expected: str) -> None:
    with pytest.raises(UllageError) as caught:
        profile(folder((0.5, 0.1, 0.3), spoil=failed(environment, workload, {1, 2, 4})), survey())
    assert caught.value.kind is errors.PROFILE_NO_FIGURE
    assert expected in caught.value.message


def test_one_block_gives_no_weights() -> None:
    with pytest.raises(UllageError) as caught:
        profile(folder((0.5, 0.1, 0.3), blocks=1), survey())
    assert caught.value.kind is errors.PROFILE_NO_FIGURE
    assert "1 blocks are whole, 2 are needed" in caught.value.message


def test_a_hindrance_that_does_nothing_is_no_hindrance() -> None:
    weak = CROSS.copy()
    weak[1] = 1.0
    measured = profile(folder((0.5, 0.1, 0.3), cross=weak), survey())
    assert set(shares(measured)) == {"cpu", "disk"}
    assert "which is not surely slower" in measured.survey.absent["memory"]
    assert any(note.startswith("Memory has no weight: ") for note in words.notes(measured))


@pytest.mark.parametrize("lost", ["cpu", "disk"])
def test_a_slowdown_lost_in_the_noise_gives_no_weights(lost: Resource) -> None:
    weak = CROSS.copy()
    weak[THREE.index(lost)] = 1.0
    with pytest.raises(UllageError) as caught:
        profile(folder((0.5, 0.1, 0.3), cross=weak), survey())
    assert caught.value.kind is errors.PROFILE_NO_FIGURE
    assert f"{lost}: what should slow it" in caught.value.message


def test_nothing_slowed_is_nothing_known() -> None:
    with pytest.raises(UllageError) as caught:
        profile(folder((0.5, 0.1, 0.3), cross=np.ones((3, 3))), survey())
    assert caught.value.kind is errors.PROFILE_NOTHING


def test_the_line_to_paste_adds_up_to_one_and_says_what_it_lacks() -> None:
    measured = profile(folder((0.5, 0.1, 0.3)), survey())
    line = words.weights_line(measured)
    assert line is not None
    parts = [float(assignment.partition("=")[2]) for assignment in line.split(",")]
    assert sum(parts) == pytest.approx(1.0)
    assert words.paste(measured, None) == f"ullage weigh RUN --weights {line}"
    assert "that no resource slows" in str(words.left_out(measured))
    asleep = profile(folder((0.0, 0.0, 0.0), noise=0.0), survey())
    assert words.weights_line(asleep) is None
    assert "nothing to weigh" in words.paste(asleep, None)


def test_work_in_bursts_that_a_quota_misses_is_the_cpus() -> None:
    short = profile(folder((0.1, 0.0, 0.3)), survey(cpu_seconds=1.2))
    assert short.bursts == pytest.approx(0.5, abs=0.05)
    assert shares(short)["cpu"] == pytest.approx(0.6, abs=0.06)
    assert short.rest.estimate == pytest.approx(0.1, abs=0.06)
    assert any("in bursts so short" in note for note in words.notes(short))
    cpu = next(w for w in short.weights if w.name == "cpu")
    assert cpu.share.low < 0.15, "that all of it is the CPU's is not sure"


def test_work_while_something_else_is_waited_for_is_not_counted_twice() -> None:
    waiting = profile(folder((0.1, 0.0, 0.9)), survey(cpu_seconds=1.2))
    assert waiting.bursts == pytest.approx(0.0, abs=0.05)
    plain = profile(folder((0.8, 0.0, 0.1)), survey(cpu_seconds=1.6))
    assert not any("in bursts" in note for note in words.notes(plain))


def test_work_that_was_done_the_first_time_is_said() -> None:
    measured = profile(folder((0.5, 0.1, 0.3)), survey(seconds=0.2, first_seconds=3.0))
    assert any("it had nothing left to do" in note for note in words.notes(measured))


def test_a_saved_profile_is_the_same_one(tmp_path: Path) -> None:
    measured = profile(folder((0.5, 0.1, 0.3)), survey())
    file = tmp_path / "p.json"
    file.write_text(measured.model_dump_json())
    assert load(file) == measured


@pytest.mark.parametrize("text", ["", "{}", '{"format": 2}', "[1]", "\x00", " " * (5 << 20)])
def test_what_is_no_profile_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "p.json"
    file.write_text(text)
    with pytest.raises(UllageError) as caught:
        load(file)
    assert caught.value.kind is errors.PROFILE_BAD_FILE
    with pytest.raises(UllageError):
        load(tmp_path / "missing.json")


HALF = {"estimate": 0.5, "low": 0.4, "high": 0.6}
CPU = {"resources": ["cpu"], "share": HALF, "unclipped": HALF}
DISK = CPU | {"resources": ["disk"]}


@pytest.mark.parametrize(
    ("spoilt", "expected"),
    [
        ({"covariance": [[1e-4, 0.0]]}, "the covariance has not 2 rows and columns"),
        ({"covariance": [[1e-4], [1e-4]]}, "the covariance has not 2 rows and columns"),
        ({"covariance": [[1e-4]]}, "the covariance has not 2 rows and columns"),
        ({"covariance": [[float("nan"), 0.0], [0.0, 1e-4]]}, "the covariance is not finite"),
        ({"covariance": [[-1e-4, 0.0], [0.0, 1e-4]]}, "the covariance is that of no weights"),
        ({"covariance": [[1e-4, 5e-5], [0.0, 1e-4]]}, "the covariance is that of no weights"),
        ({"blocks": 1}, "blocks: Input should be greater than or equal to 2"),
        ({"confidence": 1.0}, "confidence: Input should be less than 1"),
        ({"weights": [], "covariance": []}, "weights: Tuple should have at least 1 item"),
        ({"weights": [CPU, DISK | {"share": HALF | {"estimate": 1.2}}]}, "the share of disk is"),
        ({"weights": [CPU, DISK | {"share": HALF | {"low": -0.2}}]}, "the share of disk is not"),
        ({"weights": [CPU, DISK | {"share": HALF | {"estimate": float("nan")}}]}, "finite number"),
        ({"weights": [CPU, DISK | {"share": HALF | {"estimate": 0.6}}]}, "are more than 1"),
        ({"weights": [CPU, CPU]}, "a resource has two weights"),
        ({"bursts": 0.6}, "the bursts are no part of the CPU's share"),
    ],
)
def test_a_profile_that_nothing_can_be_drawn_from_is_refused(
    tmp_path: Path, spoilt: dict[str, object], expected: str
) -> None:
    file = tmp_path / "p.json"
    document = json.loads(made_profile({"cpu": 0.5, "disk": 0.5}).model_dump_json())
    file.write_text(json.dumps(document))
    assert load(file).blocks == 6
    file.write_text(json.dumps(document | spoilt))
    with pytest.raises(UllageError) as caught:
        load(file)
    assert caught.value.kind is errors.PROFILE_BAD_FILE
    assert expected in caught.value.message
    assert "Value error" not in caught.value.message
