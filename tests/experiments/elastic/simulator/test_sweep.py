"""`ullage elastic sweep`: points, seeds, intervals, threads and a cluster."""

import json
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, cast

import dask
import pytest
import yaml
from distributed import LocalCluster
from typer.testing import CliRunner

from ullage.cli.main import app
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.common.yamlfile import read
from ullage.experiments.elastic.simulator import cluster, sweep

PLAIN: dict[str, Any] = {
    "room": 20,
    "arrivals": {"kind": "poisson", "rate": 1, "viewers": 300},
    "video": {"length": "60s"},
    "patience": "5s",
    "allocation": "4s",
    "seeds": 12,
    "vary": {"patience": ["1s", "10s"], "policy.unused": ["keep", "release"]},
}


def written(folder: Path, **changes: Any) -> Path:
    file = folder / "sweep.yaml"
    file.write_text(yaml.safe_dump(PLAIN | changes, sort_keys=False))
    return file


def refused(folder: Path, **changes: Any) -> UllageError:
    with pytest.raises(UllageError) as error:
        sweep.load(read(written(folder, **changes)))
    assert error.value.kind is errors.PLAN_BAD_FIELD
    return error.value


def test_every_point_has_every_seed_and_an_interval(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    arguments = ["elastic", "sweep", str(written(tmp_path))]
    result = CliRunner().invoke(app, [*arguments, "--json"])
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert [point["varied"]["patience"] for point in document["points"]] == [
        "1s",
        "1s",
        "10s",
        "10s",
    ]
    for point in document["points"]:
        assert len(point["each"]) == 12
        waits = point["figures"]["waited_mean"]
        assert 0 <= waits["low"] <= waits["mean"] <= waits["high"]
        assert waits["bootstrap_low"] <= waits["mean"] <= waits["bootstrap_high"]
    impatient, patient = (document["points"][i]["figures"]["PcBl"] for i in (0, 2))
    assert 0 < impatient["low"] <= impatient["mean"] <= impatient["high"] < 1
    # Nobody was blocked with any seed: that is no reason to be sure.
    assert (patient["mean"], patient["low"], patient["high"]) == (0, None, None)
    table = CliRunner().invoke(app, arguments).stdout
    assert "12 seeds a point; intervals of 95 %" in table
    assert "policy.unused" in table


def test_who_is_turned_away_has_a_column_where_anybody_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    for most, has_column in (([3, 9], False), ([0, 9], True)):
        file = written(tmp_path, vary={"nodes.max": most})
        result = CliRunner().invoke(app, ["elastic", "sweep", str(file)])
        assert result.exit_code == 0, result.output
        assert ("turned_away_viewers" in result.stdout) == has_column, result.stdout


def test_points_meet_the_same_viewers(tmp_path: Path) -> None:
    _, points = sweep.load(read(written(tmp_path)))
    first, *_, last = (json.loads(point.texts(12)[3]) for point in points)
    assert first["seed"] == last["seed"] == 4
    assert first["policy"] == {"name": "elastic-movie", "unused": "keep"}
    assert last["policy"] == {"name": "elastic-movie", "unused": "release"}


@pytest.mark.parametrize(
    ("vary", "line", "reason"),
    [
        ({"room": [1, -1]}, 12, "room: found -1"),
        ({"policy": [{"name": "spare", "node": 1}]}, 12, "did you mean nodes?"),
        ({"room.much": [3]}, 12, "room.much is no field"),
        ({"": [3]}, 12, "'' is no field"),
        ({"policy": [3]}, 12, "policy: found 3; a mapping"),
        ({"room": []}, 11, "from 1 to 10000 points, and these are 0"),
        ({"room": list(range(200)), "seed": list(range(200))}, 11, "these are 40000"),
    ],
)
def test_what_cannot_vary_is_told_with_its_line(
    tmp_path: Path, vary: dict[str, Any], line: int, reason: str
) -> None:
    message = refused(tmp_path, vary=vary).message
    assert reason in message
    assert f"sweep.yaml:{line}:" in message


def test_a_field_that_does_not_vary_is_told_where_it_stands(tmp_path: Path) -> None:
    assert "sweep.yaml:10: seeds: found 1" in refused(tmp_path, seeds=1).message
    assert "sweep.yaml:8: patience" in refused(tmp_path, patience="soon", vary={}).message


def test_values_that_are_all_alike_have_no_interval() -> None:
    estimate = sweep.summarise([{"PcBl": 0.25}] * 10, 0.95)["PcBl"]
    assert (estimate.mean, estimate.seeds) == (0.25, 10)
    assert {estimate.low, estimate.high, estimate.bootstrap_low, estimate.bootstrap_high} == {None}
    assert sweep.summarise([{"PcBl": 0.25}, {}], 0.95) == {}
    few = sweep.summarise([{"PcBl": 0.25}, {"PcBl": 0.75}], 0.95)["PcBl"]
    assert (few.low, few.high, few.bootstrap_low) == (0, 1, None)
    waits = sweep.summarise(
        [{"waited_mean": 1.0, "jitter": 1.0}, {"waited_mean": 2.0, "jitter": 2.0}], 0.95
    )
    assert waits["waited_mean"].low == 0
    assert (waits["jitter"].low or 0) < 0


def local(*, threads: int, processes: bool = False) -> LocalCluster:
    """A scheduler and one worker."""
    return LocalCluster(
        n_workers=1,
        threads_per_worker=threads,
        processes=processes,
        host="127.0.0.1",
        protocol="tcp",
        dashboard_address=":0",
        worker_dashboard_address=":0",
    )


def test_a_cluster_finds_what_threads_find(tmp_path: Path) -> None:
    _, points = sweep.load(read(written(tmp_path, vary={})))
    with local(threads=2) as workers:
        far = sweep.run(points, 12, workers.scheduler_address)
    assert far == sweep.run(points, 12, None)


@pytest.mark.parametrize(
    ("library", "words"),
    [
        ("dask", ()),
        ("distributed", ("--dask", "tcp://127.0.0.1:1")),
        ("dask_jobqueue", ("--dask", "slurm:2")),
        ("cryptography", ("--dask", "slurm:2")),
    ],
)
def test_a_library_that_a_wheel_leaves_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: str, words: tuple[str, ...]
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    done = CliRunner().invoke(app, ["elastic", "sweep", str(written(tmp_path)), *words])
    assert isinstance(done.exception, UllageError)
    assert done.exception.kind is errors.HOST_MISSING and library in done.exception.hint


def test_a_cluster_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "ANSWER_S", 1.0)
    _, points = sweep.load(read(written(tmp_path, vary={})))
    with pytest.raises(UllageError) as error:
        sweep.run(points, 2, "tcp://127.0.0.1:1")
    assert error.value.kind is errors.SIMULATION_NO_CLUSTER


def waiting(text: str) -> str:
    """The second of two tasks ends when the test has."""
    if text == "1":
        OVER.wait(60)
    return text


OVER: Final = threading.Event()


def test_workers_that_go_for_good_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """It waited for ever."""
    monkeypatch.setattr(cluster, "ANSWER_S", 1.0)
    with (
        local(threads=1) as workers,
        pytest.raises(UllageError, match="its workers are gone") as error,
    ):
        try:
            cluster.on_cluster(
                workers.scheduler_address, waiting, ["0", "1"], lambda *_: workers.scale(0)
            )
        finally:
            OVER.set()
    assert error.value.kind is errors.SIMULATION_NO_CLUSTER


def test_a_scheduler_that_goes_in_the_middle() -> None:
    """It was a traceback."""
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "1s"}),
        local(threads=1) as workers,
        pytest.raises(UllageError, match="its scheduler is gone") as error,
    ):
        cluster.on_cluster(
            workers.scheduler_address, str, ["0", "1"], lambda *_: workers.sync(_end, workers)
        )
    assert error.value.kind is errors.SIMULATION_NO_CLUSTER


async def _end(workers: LocalCluster) -> None:
    assert workers.scheduler is not None
    await workers.scheduler.close()


def test_a_simulation_whose_workers_are_killed() -> None:
    """As where its memory is not enough: it was a traceback."""
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        local(threads=1, processes=True) as workers,
        pytest.raises(UllageError, match="had its worker killed") as error,
    ):
        cluster.on_cluster(
            workers.scheduler_address, exec, ["import os; os._exit(1)"], lambda *_: None
        )
    assert error.value.kind is errors.SIMULATION_NO_CLUSTER


class Silent:
    """A scheduler with a worker now and then, and no result before an hour, on its own clock."""

    def __init__(self, has_worker: Callable[[float], bool]) -> None:
        self.now = 0.0
        self._has_worker = has_worker

    def monotonic(self) -> float:
        return self.now

    def sleep(self, duration_s: float) -> None:
        self.now += duration_s

    def next_batch(self, *, block: bool) -> list[str]:
        assert not block
        return ["a result"] if self.now > 3600 else []

    def scheduler_info(self, n_workers: int = 1) -> dict[str, list[str]]:
        return {"workers": ["one"] * n_workers if self._has_worker(self.now) else []}

    def gather(self, futures: list[str]) -> list[str]:
        return futures


def silent(monkeypatch: pytest.MonkeyPatch, has_worker: Callable[[float], bool]) -> Silent:
    scheduler = Silent(has_worker)
    monkeypatch.setattr(cluster, "time", scheduler)
    monkeypatch.setattr("distributed.as_completed", lambda _: scheduler)
    return scheduler


def test_workers_that_go_and_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """One look without any ended it: at 30 s, where they had been gone for a second."""
    scheduler = silent(monkeypatch, lambda now: now % 30 > 5)
    assert cluster._done(cast("Any", scheduler), ["a result"], lambda *_: None) == ["a result"]


def test_how_long_workers_may_be_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler = silent(monkeypatch, lambda now: now < 100)
    with pytest.raises(TimeoutError, match="its workers are gone"):
        cluster._done(cast("Any", scheduler), ["a result"], lambda *_: None)
    assert 100 + cluster.ANSWER_S - 3.5 < scheduler.now < 100 + cluster.ANSWER_S + 3.5


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("echo 'sbatch: error: invalid partition specified: x' >&2; exit 1", "invalid partition"),
        ("exit 1", "sbatch says nothing"),
    ],
)
def test_jobs_that_slurm_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, reason: str
) -> None:
    """Told at once, in its own words; nothing is left in the working directory."""
    (tmp_path / "bin").mkdir()
    sbatch = tmp_path / "bin" / "sbatch"
    sbatch.write_text(f"#!/bin/sh\n{words}\n")
    sbatch.chmod(0o755)
    monkeypatch.setenv("PATH", str(sbatch.parent), prepend=":")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(UllageError, match=reason) as error:
        cluster.on_cluster("slurm:2", str, ["0"], lambda *_: None)
    assert error.value.kind is errors.SIMULATION_NO_CLUSTER
    assert not list((tmp_path / "here").iterdir())


def test_an_sbatch_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was a traceback."""
    sbatch = tmp_path / "sbatch"
    sbatch.write_text("#!/bin/sh\nexec sleep 60\n")
    sbatch.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(cluster, "ANSWER_S", 0.5)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UllageError, match="sbatch does not answer") as error:
        cluster.on_cluster("slurm:2", str, ["0"], lambda *_: None)
    assert error.value.kind is errors.SIMULATION_NO_CLUSTER
    assert [file.name for file in tmp_path.iterdir()] == ["sbatch"]


@pytest.mark.parametrize("name", ["a b", "$(touch x)", "a;b", "`b`", "%j", "it's", "a\nb", "ü"])
def test_a_place_that_no_job_can_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """It stood in a shell's script as it is: in pieces, or run."""
    sbatch = tmp_path / "sbatch"
    sbatch.write_text(f"#!/bin/sh\ntouch {tmp_path}/asked\nexit 1\n")
    sbatch.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / name)
    with pytest.raises(UllageError, match="has signs that a job's script cannot") as error:
        cluster.on_cluster("slurm:2", str, ["0"], lambda *_: None)
    assert error.value.kind is errors.SIMULATION_NO_CLUSTER
    assert not (tmp_path / "asked").exists()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "executable", str(tmp_path / name / "python"))
    with pytest.raises(UllageError, match="has signs that a job's script cannot"):
        cluster.on_cluster("slurm:2", str, ["0"], lambda *_: None)


def test_no_job_and_too_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sbatch = tmp_path / "sbatch"
    sbatch.write_text("#!/bin/sh\nexit 0\n")
    sbatch.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    for number in (0, 1001):
        with pytest.raises(UllageError, match=f"{number} jobs; it takes 1 to 1000"):
            cluster.on_cluster(f"slurm:{number}", str, ["0"], lambda *_: None)
    with pytest.raises(UllageError, match="cannot simulate"):
        cluster.on_cluster("slurm:many", str, ["0"], lambda *_: None)


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("nonsense", "missing port number in address 'nonsense'"),
        ("", "cluster at '' cannot simulate: missing port number"),
        ("tcp://127.0.0.1:door", "invalid literal"),
        ("post://127.0.0.1:8786", "unknown address scheme 'post'"),
        ("tcp://no.such.host.invalid:8786", "cannot simulate"),
    ],
)
def test_an_address_that_cannot_be_one_is_told_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str, reason: str
) -> None:
    def never(*_: object, **__: object) -> None:
        pytest.fail("no client may be made: it goes on trying when the command is over")

    monkeypatch.setattr("distributed.Client", never)
    _, points = sweep.load(read(written(tmp_path, vary={})))
    with pytest.raises(UllageError) as error:
        sweep.run(points, 2, address)
    assert error.value.kind is errors.SIMULATION_NO_CLUSTER
    assert reason in error.value.message


def test_where_all_seeds_agree_the_table_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    sure = written(tmp_path, patience="1h", vary={"room": [20]}, confidence=0.99999999)
    table = CliRunner().invoke(app, ["elastic", "sweep", str(sure)]).stdout
    assert "0 (all 12 equal)" in table
    assert "intervals of 99.999999 %" in table


def test_what_fails_in_a_thread_ends_all() -> None:
    with pytest.raises(ValueError, match="application"):
        sweep.in_threads(["{}"] * 3, lambda done, of: None)
