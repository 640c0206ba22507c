"""The preloaded MPI_Wtime when something is wrong, and what it must leave alone."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.mpi.wtime_kit import (
    MISSING,
    MPIS,
    ROOT,
    Job,
    job,
    library,
    measured,
    messages_of,
    own,
    records,
    stamps_of,
    stock,
)

pytestmark = pytest.mark.skipif(
    bool(MISSING), reason=f"no {', '.join(MISSING)}: apt-get install libopenmpi-dev libmpich-dev"
)


def same_as_stock(
    programs: Path, mpi: str, way: str, ranks: int = 2, **settings: str
) -> subprocess.CompletedProcess[str]:
    """The program's own output and its status are what they are without the preload."""
    plain = stock(mpi, ranks).run(programs / mpi / "work", way)
    done = job(mpi, ranks, **settings).run(programs / mpi / "work", way)

    assert own(done) == own(plain)
    assert len(own(done)) >= ranks
    # MPICH kills ranks that return without MPI_Finalize, or is too late for that.
    assert done.returncode == plain.returncode or (mpi, way) == ("mpich", "return")
    return done


@pytest.mark.parametrize("way", ["", "killed", "return"])
@pytest.mark.parametrize("mpi", MPIS)
def test_the_programs_output_and_end_stay_its_own(
    programs: Path, tmp_path: Path, mpi: str, way: str
) -> None:
    path = tmp_path / "%r.json"
    done = same_as_stock(programs, mpi, way, 3, ULLAGE_CLOCK_RECORD=str(path))
    assert "ullage" not in done.stderr
    written = sorted(file.name for file in tmp_path.iterdir())
    if way == "":
        assert written == ["0.json", "1.json", "2.json"]
    # Open MPI kills a job as soon as one rank leaves without MPI_Finalize.
    for name in written:
        (record,) = records(tmp_path / name)
        assert record.finalized == (way == "")
        assert (record.end is None) == (way != "")


def test_before_the_beginning_and_after_the_end(programs: Path) -> None:
    """Open MPI allows both (MPICH ends the program); afterwards, time goes on."""
    done = same_as_stock(programs, "openmpi", "early")
    assert done.stdout.count(" backward 0") == 2


@pytest.mark.parametrize("mpi", MPIS)
def test_a_late_rank_is_waited_for_as_ever(programs: Path, tmp_path: Path, mpi: str) -> None:
    all_records, _ = measured(programs, tmp_path, job(mpi, 3, '[ "$rank" != 1 ] || sleep 2'), 1)
    assert [record.wtime for record in all_records] == ["global"] * 3


@pytest.mark.parametrize("mpi", MPIS)
def test_a_rank_that_never_answers_leaves_stock_time_and_says_so(
    programs: Path, tmp_path: Path, mpi: str
) -> None:
    """One rank runs without the library: nobody of it takes part in what the others do."""
    settings = {"ULLAGE_CLOCK_DEADLINE_S": "1", "ULLAGE_CLOCK_RECORD": str(tmp_path / "%r.json")}
    missing = '[ "$rank" != 1 ] || unset LD_PRELOAD'
    done = job(mpi, 2, missing, **settings).run(programs / mpi / "work")
    plain = stock(mpi).run(programs / mpi / "work")
    # MPICH's transport adds a warning: of a message that waits for the rank that never came.
    assert own(done) == own(plain)
    assert done.returncode == plain.returncode == 0
    messages = messages_of(done)
    assert len(messages) == 1
    assert messages[0].startswith(
        "ullage: rank 0: MPI_Wtime is MPI's own, not global: not every rank"
    )
    assert " hint: " in messages[0]
    (record,) = records(tmp_path / "0.json")
    assert (record.way, record.wtime) == ("none", "stock")
    assert record.why_stock == "not every rank has this library preloaded"
    assert record.start is None and record.end is None and record.correction is None
    rows = stamps_of(job(mpi, 2, missing, **settings).run(programs / mpi / "stamps"))
    assert [row[4] for row in rows] == ["0", "0"]


@pytest.mark.parametrize("mpi", MPIS)
def test_nobody_waits_for_ever_for_who_has_given_up(
    programs: Path, tmp_path: Path, mpi: str
) -> None:
    """Rank 0 gives up after 1 s, and rank 2 comes while rank 1 still waits."""
    settings = {"ULLAGE_CLOCK_DEADLINE_S": "1", "ULLAGE_CLOCK_RECORD": str(tmp_path / "%r.json")}
    late = f"l=(0 800 1400)\nexport LATE_MS=${{l[$rank]}} LD_PRELOAD={programs / mpi / 'late.so'}:"
    done = job(mpi, 3, f"{late}$LD_PRELOAD", **settings).run(programs / mpi / "work")
    assert done.returncode == 0
    assert own(done) == own(stock(mpi, 3).run(programs / mpi / "work"))
    all_records = [records(tmp_path / f"{rank}.json")[0] for rank in range(3)]
    assert {(record.way, record.wtime) for record in all_records} == {("none", "stock")}
    assert all_records[0].why_stock == "not every rank has this library preloaded"
    assert all_records[2].why_stock == "another rank came so late that not all waited for it"


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("mpi", MPIS)
def test_a_rank_that_is_stopped_before_all_have_agreed(
    programs: Path, tmp_path: Path, mpi: str, rank: int
) -> None:
    """The others give up meanwhile: it must not go on alone, into what they never begin."""
    settings = {"ULLAGE_CLOCK_DEADLINE_S": "1", "ULLAGE_CLOCK_RECORD": str(tmp_path / "%r.json")}
    preload = f"{programs / mpi / 'stopped.so'}:$LD_PRELOAD"
    stopped = f'[ "$rank" != {rank} ] || export STOPPED_MS=4500 LD_PRELOAD={preload}'
    done = job(mpi, 3, stopped, **settings).run(programs / mpi / "work")
    assert done.returncode == 0
    assert own(done) == own(stock(mpi, 3).run(programs / mpi / "work"))
    all_records = [records(tmp_path / f"{rank}.json")[0] for rank in range(3)]
    late = "another rank came so late that not all waited for it"
    assert {(record.wtime, record.why_stock) for record in all_records} == {("stock", late)}


@pytest.mark.parametrize("share", ["0", "1"])
@pytest.mark.parametrize("mute", [0, 1])
@pytest.mark.parametrize("mpi", MPIS)
def test_a_rank_whose_messages_get_lost(
    programs: Path, tmp_path: Path, mpi: str, mute: int, share: str
) -> None:
    """Asking or asked: whoever gets no answer has stock time; everybody goes on."""
    silenced = f'[ "$rank" != {mute} ] || LD_PRELOAD={programs / mpi / "mute.so"}:$LD_PRELOAD'
    path = tmp_path / "record.json"
    settings = {"ULLAGE_CLOCK_SHARE": share, "ULLAGE_CLOCK_RECORD": str(path)}
    done = job(mpi, 3, silenced, **settings).run(programs / mpi / "work")
    assert own(done) == own(stock(mpi, 3).run(programs / mpi / "work"))
    assert done.returncode == 0
    all_records = records(path)
    lost = [1, 2] if mute == 0 else [1]
    messages = messages_of(done)
    ranks = [line.split(":")[1] for line in sorted(messages)]
    assert ranks == [f" rank {rank}" for rank in lost]
    assert all("not global: nobody answered in time; hint: " in line for line in messages)
    for record in all_records:
        assert record.wtime == ("stock" if record.rank in lost else "global")
        assert (record.why_stock is None) == (record.rank not in lost)
        assert (record.start is None) == (record.rank in lost)
    if share == "0":
        rows = stamps_of(job(mpi, 3, silenced, **settings).run(programs / mpi / "stamps"))
        assert [row[4] for row in rows] == ["0", "0", "0"]


def test_another_mpis_library_keeps_its_hands_off(programs: Path) -> None:
    for mpi, foreign in [("openmpi", "mpich"), ("mpich", "openmpi")]:
        done = Job(mpi, 2, str(library(foreign)), {}).run(programs / mpi / "work")
        assert done.returncode == 0
        assert len(done.stdout.splitlines()) == 2
        messages = sorted(messages_of(done))
        assert [line.split(": ")[1] for line in messages] == ["rank 0", "rank 1"]
        assert all("this library was built for another MPI; hint: " in line for line in messages)


def test_a_rank_that_is_not_known_is_not_made_up(programs: Path) -> None:
    """Nobody launched it, and the library cannot ask another MPI."""
    clean = {name: value for name, value in os.environ.items() if "RANK" not in name}
    done = subprocess.run(
        [programs / "mpich" / "work"],
        env=clean | {"LD_PRELOAD": str(library("openmpi")), "UCX_TLS": "self,sm"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0
    assert "ullage: MPI_Wtime is MPI's own, not global: this library was built for" in done.stderr


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("TOPOLOGY", "ring", "takes flat, two-level or tree, not 'ring'; hint: two-level is taken"),
        ("SHARE", "2", "takes a whole number from 0 to 1, not '2'; hint: 1 is taken"),
        ("MESSAGES", "-1", "takes a whole number from 2 to 1000000, not '-1'; hint: 200 is taken"),
        ("TIME_US", "1ms", "takes a whole number from 1 to 60000000, not '1ms'; hint: 1000"),
        ("DEADLINE_S", "0", "takes a whole number from 1 to 86400, not '0'; hint: 10 is taken"),
        *(
            (
                "GLOBAL_NS",
                value,
                f"takes a whole number from 1 to 1000000000000, not '{value}'; "
                "hint: half the least round trip is taken",
            )
            for value in ("0", "-1")
        ),
        ("GLOBAL_NS", "", ""),
        ("RECORD", "x" * 3000, "takes a shorter path, not '…'; hint: no record is written"),
        ("TOPOLGY", "flat", "is no setting; hint: after ULLAGE_CLOCK_ comes TOPOLOGY, SHARE, "),
        ("SHARED", "", "is no setting; hint: after ULLAGE_CLOCK_ comes TOPOLOGY, SHARE, "),
        ("TOKEN", "0" * 32, ""),
    ],
)
def test_settings_are_checked(programs: Path, name: str, value: str, message: str) -> None:
    full = f"ULLAGE_CLOCK_{name}"
    done = job("mpich", 2, **{full: value}).run(programs / "mpich" / "work")
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 2
    messages = messages_of(done)
    assert len(messages) == (1 if message else 0)
    assert all(f"ullage: {full} {message}" in line for line in messages)


@pytest.mark.parametrize(
    "value", ["fast", "1,", "1,2,3", "1000001", "1.5", "1,9999999999999999999"]
)
@pytest.mark.parametrize("first", [0, 1])
def test_a_distortion_that_is_none_is_said_once(programs: Path, first: int, value: str) -> None:
    """By rank 0, or by the first rank that has it: each has its own."""
    export = f"[ $rank -lt {first} ] || export ULLAGE_CLOCK_DISTORT={value}"
    done = job("mpich", 3, export).run(programs / "mpich" / "work")
    assert done.returncode == 0
    messages = messages_of(done)
    assert len(messages) == 1
    assert messages[0].startswith(
        f"ullage: rank {first}: ULLAGE_CLOCK_DISTORT takes PPB or PPB,NS "
    )
    assert messages[0].endswith(f", not '{value}'; hint: the clock is not distorted")


@pytest.mark.parametrize("value", ["", "0", " -50 , +1000 ", "1000000"])
def test_a_distortion_that_is_one_is_taken(programs: Path, tmp_path: Path, value: str) -> None:
    path = tmp_path / "record.json"
    settings = {"ULLAGE_CLOCK_DISTORT": value, "ULLAGE_CLOCK_RECORD": str(path)}
    done = job("mpich", 2, **settings).run(programs / "mpich" / "work")
    assert done.returncode == 0
    assert "ULLAGE_CLOCK_DISTORT" not in done.stderr
    for record in records(path):
        if record.start is None:
            # So fast a clock may be called a lie, where a rank waited for a core between two looks.
            assert value == "1000000"
            continue
        assert ("distorted" in record.start.reasons) == (value not in ("", "0"))


@pytest.mark.parametrize("mpi", MPIS)
def test_a_record_that_cannot_be_written_is_said(programs: Path, tmp_path: Path, mpi: str) -> None:
    deep, new = tmp_path / "no" / "such", tmp_path / "new"
    absent = "does not exist; hint: make it before the run"
    for place, message in [
        (f"{deep}/", f"no clock record in {deep}/: the folder {deep} {absent}"),
        (f"{deep}/file", f"no clock record in {deep}/file: the folder {deep} {absent}"),
        (f"{new}/", f"no clock record in {new}/: the folder {new} {absent}"),
        (
            "/dev/full",
            "the clock record could not be written to /dev/full: No space left on device",
        ),
    ]:
        done = job(mpi, ULLAGE_CLOCK_RECORD=place).run(programs / mpi / "work")
        assert done.returncode == 0
        (refusal,) = messages_of(done)
        assert refusal.startswith(f"ullage: rank 0: {message}")


@pytest.mark.parametrize("mpi", MPIS)
def test_records_go_where_they_are_told(programs: Path, tmp_path: Path, mpi: str) -> None:
    (tmp_path / "all").mkdir()
    for place, names in [
        (str(tmp_path / "all"), ["all/rank-0.json", "all/rank-1.json"]),
        (str(tmp_path / "of-%r.json"), ["of-0.json", "of-1.json"]),
    ]:
        done = job(mpi, ULLAGE_CLOCK_RECORD=place).run(programs / mpi / "work")
        assert done.returncode == 0, done.stderr
        for rank, name in enumerate(names):
            (record,) = records(tmp_path / name)
            assert (record.rank, record.ranks) == (rank, 2)
    absent = job(mpi, ULLAGE_CLOCK_RECORD=str(tmp_path / "absent" / "file"))
    done = absent.run(programs / mpi / "work")
    assert done.returncode == 0
    assert done.stderr.count("no clock record in") == 1


def test_nothing_else_is_exported() -> None:
    """A program may have symbols of any other name."""
    for mpi in MPIS:
        out = subprocess.run(
            ["nm", "-D", "--defined-only", str(library(mpi))],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        names = {line.split()[-1].lower() for line in out.splitlines()}
        stems = {re.sub(r"(_f08)?_*$", "", name) for name in names}
        calls = {"init", "init_thread", "finalize", "wtime", "wtick", "comm_get_attr", "attr_get"}
        assert stems == {f"mpi_{call}" for call in calls}


@pytest.mark.parametrize("mpi", MPIS)
def test_the_cost_is_measured(mpi: str) -> None:
    program = ROOT / "target/mpi" / mpi / "wtime_cost"
    for preload in (None, str(library(mpi))):
        done = Job(mpi, 1, preload, {}).run(program, "3", "1000")
        assert done.returncode == 0
        costs = [float(line) for line in done.stdout.splitlines()]
        assert len(costs) == 3 and all(cost > 0 for cost in costs)
    refused = Job(mpi, 1, None, {}).run(program, "none")
    assert refused.returncode != 0
    assert "wtime_cost [ROUNDS [CALLS]]" in refused.stderr
