"""Specifications of simulations: what they become, and what is said of bad ones."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.experiments.elastic.elastic_made import SyntheticEnvironment, SyntheticRun, make
from ullage.common import errors
from ullage.common.errors import ErrorKind, UllageError
from ullage.experiments.elastic import folder as folders
from ullage.experiments.elastic.analysis import latencies
from ullage.experiments.elastic.analysis.reading import ElasticRun
from ullage.experiments.elastic.simulator import spec
from ullage.experiments.elastic.simulator.spec import Simulation

NAN = float("nan")

PLAIN: dict[str, Any] = {
    "room": 100,
    "arrivals": {"kind": "poisson", "rate": 0.2, "viewers": 400},
    "allocation": "60s",
}


def written(folder: Path, data: object) -> Path:
    file = folder / "spec.yaml"
    file.write_text(yaml.safe_dump(data, sort_keys=False))
    return file


def loaded(folder: Path, **changes: Any) -> Simulation:
    return spec.load(written(folder, PLAIN | changes))


def refused(folder: Path, kind: ErrorKind = errors.PLAN_BAD_FIELD, **changes: Any) -> UllageError:
    with pytest.raises(UllageError) as error:
        loaded(folder, **changes)
    assert error.value.kind is kind, error.value
    return error.value


def test_every_field_reaches_the_simulator(tmp_path: Path) -> None:
    rust = loaded(
        tmp_path,
        policy={"name": "hysteresis", "idle_s": 30},
        nodes={"max": 9, "min": 2, "allocation": "one_per_need", "waiting_room": 50},
        video={"length": {"kind": "log-normal", "mean": "30m", "deviation": "10m"}},
        patience={"kind": "weibull", "scale": 60, "shape": 2},
        reconnect="1s",
        allocation={
            "stages": {"TcI": "20s", "TiI": "5s"},
            "slow_down": {1: 1, 8: 3},
            "gives_up": 99,
        },
        release="2s",
        failures={
            "never_ready": 0.1,
            "retries": 2,
            "lifetime": {"kind": "exponential", "mean": "1h"},
        },
        hosts={"count": 3, "nodes_each": 4, "placement": "pack", "first_image": "30s"},
        warm_up="5m",
        points=7,
        seed=9,
    ).rust
    assert rust["application"]["max_nodes"] == 9
    assert rust["application"]["waiting_room"] == 50
    assert rust["policy"] == {"name": "hysteresis", "idle_s": 30}
    assert rust["watch"] == {"kind": "log-normal", "mean_s": 1800, "sd_s": 600}
    assert rust["patience"] == {"kind": "weibull", "scale_s": 60, "shape": 2}
    assert rust["reconnect"] == {"kind": "fixed", "s": 1}
    stages = rust["allocation"]["rows"][0]["stages"]
    assert [(stage["name"], stage["time"]["s"]) for stage in stages] == [("TcI", 20), ("TiI", 5)]
    assert rust["allocation"]["slow_down"][1] == {"concurrent": 8, "factor": 3}
    assert rust["allocation"]["gives_up_s"] == 99
    assert rust["failures"]["lifetime"] == {"kind": "exponential", "mean_s": 3600}
    assert rust["hosts"]["first_image"] == {"kind": "fixed", "s": 30}
    assert (rust["warm_up_s"], rust["points"], rust["seed"], rust["sessions"]) == (300, 7, 9, 400)


def test_every_kind_of_arrivals(tmp_path: Path) -> None:
    trace = tmp_path / "trace.txt"
    trace.write_text("3\n# later\n1.5\n")
    kinds: list[dict[str, Any]] = [
        {"kind": "uniform", "rate": 2, "lasting": "1m"},
        {"kind": "trace", "file": str(trace)},
        {"kind": "surge", "rate": 1, "peak": 9, "at": 60, "for": "10s", "viewers": 99},
        {"kind": "flash-crowd", "rate": 1, "peak": 9, "at": 60, "decay": "10s", "viewers": 99},
        {"kind": "daily", "rate": 1, "swing": 0.5, "peak_at": "20h", "viewers": 99},
        {"kind": "profile", "rates": [1, 0, 3], "step": "1h", "viewers": 99},
    ]
    arrivals = [loaded(tmp_path, arrivals=kind).rust["arrivals"] for kind in kinds]
    assert [kind_of["kind"] for kind_of in arrivals] == [kind["kind"] for kind in kinds]
    assert arrivals[1]["at_s"] == [1.5, 3.0]
    assert arrivals[2]["from_s"] == 60
    assert arrivals[2]["for_s"] == 10
    assert (arrivals[3]["from_s"], arrivals[3]["decay_s"]) == (60, 10)


def test_a_bad_field_is_told_as_it_was_written_with_its_line(tmp_path: Path) -> None:
    ours = refused(tmp_path, arrivals={"kind": "poisson", "rate": -1, "viewers": 1})
    assert "spec.yaml:4: arrivals.rate: found -1" in ours.message
    theirs = refused(tmp_path, patience={"kind": "gamma", "mean": 0, "deviation": 3})
    assert "spec.yaml:9: patience.mean: found 0; 0 is not allowed" in theirs.message
    policy = refused(tmp_path, policy={"name": "threshold", "up": 7})
    assert policy.message.startswith(
        f"{tmp_path}/spec.yaml:9: policy.up: found 7; allowed: a number"
    )
    assert "column" not in policy.message
    for plain, expected in (
        ("-5s", "a duration such as"),
        (-5, "input should be"),
        (True, "a duration"),
    ):
        message = refused(tmp_path, patience=plain)
        assert f"spec.yaml:7: patience: found {plain!r}; {expected}" in message.message
        assert message.hint.startswith("patience: `null`")
    assert "allocation: found -3; input" in refused(tmp_path, allocation=-3).message
    long = refused(tmp_path, video={"length": 1e12})
    assert "video.length: found 1000000000000.0; 1000000000000 is not allowed" in long.message
    deviation = {"kind": "log-normal", "mean": 3, "deviation": 0}
    assert "patience.deviation: found 0" in refused(tmp_path, patience=deviation).message
    unknown = refused(tmp_path, policy={"name": "spair"})
    assert "did you mean spare?" in unknown.message
    nodes = refused(tmp_path, nodes={"max": 2, "min": 3})
    assert "nodes.min: found 3; allowed: 0 to max_nodes, which is 2" in nodes.message
    assert "did you mean" in refused(tmp_path, errors.PLAN_UNKNOWN_FIELD, pacience=3).hint


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"arrivals": {"kind": "poisson", "viewers": 3}}, "`kind: poisson` needs `rate`"),
        ({"arrivals": {"kind": "poisson", "rate": 1}}, "say `viewers`, or `lasting`"),
        (
            {"arrivals": {"kind": "daily", "rate": 1, "swing": 2, "peak_at": 3, "viewers": 9}},
            "swing",
        ),
        ({"arrivals": {"kind": "profile", "rates": [1, NAN], "step": 1, "viewers": 9}}, "rates.1"),
        (
            {"allocation": {"time": 3, "slow_down": {1: NAN}}},
            "slow_down.1: found nan; input should",
        ),
        ({"allocation": {"table": "took.csv", "copy": "real"}}, "`copy` belongs to `run`"),
        ({"patience": {"kind": "uniform", "low": 1}}, "`kind: uniform` needs `high`"),
        ({"patience": {"kind": "uniform", "low": 3, "high": 1}}, "patience.high"),
        (
            {"allocation": {"kind": "uniform", "low": 3, "high": 1}},
            "allocation.high: found 1; 1 is not allowed; it must be low or more",
        ),
        (
            {"allocation": {"time": {"kind": "gamma", "mean": 0, "deviation": 1}}},
            "allocation.time.mean: found 0",
        ),
        ({"allocation": "1000000000h"}, "allocation: found '1000000000h'; 36"),
        ({"allocation": {"time": 3, "slow_down": {0: 2}}}, "slow_down.0: found '0'; input"),
        ({"environments": {"lxc": {"provider": "lxc"}}}, "this is the plan of a run"),
        ({"policy": {"name": "predictor", "alpha": NAN}}, "`alpha` is nan"),
        ({"allocation": {"gives_up": 3}}, "say one of `run`, `table`, `time` and `stages`"),
        ({"allocation": {"time": 3, "environment": "lxc"}}, "`environment` belongs to"),
        ({"allocation": "soon"}, "a duration such as"),
        ({"failures": {"never_ready": 0.5}}, "allocation.gives_up: found nothing; is needed"),
        ({"vary": {"room": [1, 2]}}, "one simulation has no such field"),
        ({"hosts": {"count": 0, "nodes_each": 1}, "patience": None}, "patience"),
        (
            {"allocation": {"time": "60s", "gives_up": "30s"}, "patience": None},
            "concurrent allocations takes longer than allocation.gives_up: else all fail",
        ),
    ],
)
def test_what_does_not_go_together_is_said(
    tmp_path: Path, changes: dict[str, Any], reason: str
) -> None:
    assert reason in refused(tmp_path, **changes).message


def test_a_file_that_is_no_specification(tmp_path: Path) -> None:
    with pytest.raises(UllageError) as error:
        spec.load(written(tmp_path, [1, 2]))
    assert error.value.kind is errors.PLAN_BAD_FIELD
    trace = tmp_path / "trace.txt"
    for line in ("soon", "nan", "inf", "-1"):
        trace.write_text(f"1\n{line}\n")
        bad = refused(
            tmp_path, errors.ELASTIC_BAD_TRACE, arrivals={"kind": "trace", "file": str(trace)}
        )
        assert f"line 2: '{line}'" in bad.message


def test_latencies_of_a_table_by_number_at_a_time(tmp_path: Path) -> None:
    table = tmp_path / "took.csv"
    rows = ["seconds,concurrent,environment"]
    rows += [f"{20 + n},1,vm" for n in range(3)]
    rows += [f"{40 + n},4,vm" for n in range(3)] + ["90,8,vm", "1,1,lxc"]
    table.write_text("\n".join(rows) + "\n")
    source = {"table": str(table), "environment": "vm"}
    by_number = loaded(tmp_path, allocation=source).rust["allocation"]["rows"]
    values = [row["stages"][0]["time"]["values_s"] for row in by_number]
    assert [row["concurrent"] for row in by_number] == [1, 4]
    # One value makes no distribution: it goes with those of the next smaller number.
    assert values == [[20, 21, 22], [40, 41, 42, 90]]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("time\n3\n", ":1: no table of allocation times: no column is called `seconds`"),
        ("seconds\n3\nsoon\n", ":3: no table of allocation times: seconds is 'soon'"),
        ("seconds\n-3\n", ":2: "),
        ("seconds\nnan\n", ":2: "),
        ("seconds,concurrent\n3,0\n", "concurrent is 0, not 1 or more"),
    ],
)
def test_a_bad_table_is_told_with_its_line(tmp_path: Path, text: str, reason: str) -> None:
    table = tmp_path / "took.csv"
    table.write_text(text)
    error = refused(tmp_path, errors.SIMULATION_BAD_TABLE, allocation={"table": str(table)})
    assert reason in error.message


def test_tables_without_rows_columns_or_a_file(tmp_path: Path) -> None:
    table = tmp_path / "took.csv"
    allocation = {"table": str(table), "environment": "vm"}
    assert (
        "No such file"
        in refused(tmp_path, errors.SIMULATION_BAD_TABLE, allocation=allocation).message
    )
    table.write_text("seconds\n3\n")
    refused(tmp_path, errors.SIMULATION_BAD_TABLE, allocation=allocation)
    table.write_text("seconds,environment\n3,lxc\n")
    refused(tmp_path, errors.SIMULATION_NO_LATENCIES, allocation=allocation)


def test_latencies_of_a_run_in_the_users_time(tmp_path: Path) -> None:
    environments = {
        "lxc": SyntheticEnvironment(tar_s=0.5, boot_delay_s=0.25),
        "qemu": SyntheticEnvironment(tar_s=2.0),
    }
    run = make(tmp_path, SyntheticRun(environments=environments, time_scale=60, repetitions=2))
    source = {"run": str(run), "environment": "lxc"}
    rows = loaded(tmp_path, allocation=source).rust["allocation"]["rows"]
    took = rows[0]["stages"][0]["time"]["values_s"]
    injected = [act.injected_s for act in _ready(run)]
    assert len(took) == len(injected) > 3
    measured = sorted(seconds for _, _, seconds in _allocations(run))
    assert sorted(took) == pytest.approx([s + 59 * injected[0] for s in measured])
    # One whose viewers turn out not to have come as they should does not count any more.
    summary = folders.repetition_folder(run, "lxc", 1) / folders.VIEWERS
    summary.write_text(json.dumps({"valid": False}))
    rows = loaded(tmp_path, allocation=source).rust["allocation"]["rows"]
    assert 0 < len(rows[0]["stages"][0]["time"]["values_s"]) < len(took)
    for environment in (None, "kvm"):
        bad = {"run": str(run), "environment": environment}
        error = refused(tmp_path, errors.SIMULATION_NO_LATENCIES, allocation=bad)
        assert "lxc, qemu" in error.message
    missing = {"run": str(tmp_path / "none"), "environment": "lxc"}
    refused(tmp_path, errors.RUN_NOT_FOUND, allocation=missing)


def _allocations(run: Path) -> list[tuple[int, Any, float]]:
    repetitions = ElasticRun.open(run).of("lxc")
    return [node for repetition in repetitions for node in latencies.allocations(repetition.acts)]


def _ready(run: Path) -> list[Any]:
    return [act for _, act, _ in _allocations(run)]


@pytest.mark.parametrize(
    ("length", "window"),
    [
        ("30m", 60),
        (60, 6),
        ({"kind": "exponential", "mean": 100}, 10),
        ({"kind": "uniform", "low": 10, "high": 30}, 2),
        ({"kind": "empirical", "values": [10, 50]}, 3),
        ({"kind": "weibull", "scale": 100, "shape": 2}, 8.8623),
        ({"kind": "weibull", "scale": 100, "shape": 0.001}, 60),
        ({"kind": "pareto", "least": 100, "shape": 2}, 20),
        ({"kind": "pareto", "least": 1, "shape": 0.1}, 60),
        ({"kind": "normal", "mean": 0, "deviation": 100}, 7.9788),
        ({"kind": "normal", "mean": 100, "deviation": 0}, 10),
    ],
)
def test_instability_looks_back_a_minute_or_a_tenth_of_the_mean_video(
    tmp_path: Path, length: Any, window: float
) -> None:
    rust = loaded(tmp_path, video={"length": length}).rust
    assert rust["window_s"] == pytest.approx(window, rel=1e-4)


def test_what_is_written_for_the_simulator_is_json(tmp_path: Path) -> None:
    simulation = loaded(tmp_path)
    assert json.loads(simulation.text(seed=3, points=0))["seed"] == 3
    assert json.loads(simulation.text())["seed"] == 1
