"""The preloaded MPI_Wtime under real MPI programs."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.mpi.wtime_kit import (
    DISTORTED,
    FORTRANS,
    MISSING,
    MPIS,
    Job,
    Record,
    Stamps,
    Truth,
    build,
    library,
    records,
)

pytestmark = pytest.mark.skipif(
    bool(MISSING), reason=f"no {', '.join(MISSING)}: apt-get install libopenmpi-dev libmpich-dev"
)

STAMP = re.compile(
    r"rank +(\d+) first +([\d.]+) second +([\d.]+) tick +(\S+) found (.) global (-?\d+)(.*)"
)
UNSHARED = {"ULLAGE_CLOCK_SHARE": "0"}
#: Rank 0's line is a fit through readings of this counter and this clock.
SLACK_NS = 60.0


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("programs")
    build(folder)
    return folder


def job(mpi: str, ranks: int = 2, per_rank: str = "", **settings: str) -> Job:
    return Job(mpi, ranks, str(library(mpi)), settings, per_rank)


def stock(mpi: str, ranks: int = 2, per_rank: str = "") -> Job:
    return Job(mpi, ranks, None, {}, per_rank)


def own(done: subprocess.CompletedProcess[str]) -> list[str]:
    """The program's own lines."""
    return sorted(line for line in done.stdout.splitlines() if line.startswith("rank "))


def stamps_of(done: subprocess.CompletedProcess[str]) -> list[tuple[int, float, float, str, str]]:
    assert done.returncode == 0, done.stderr
    found = [STAMP.fullmatch(line) for line in own(done)]
    assert all(found), done.stdout
    rows = [match.groups() for match in found if match is not None]
    return sorted(
        (int(r), float(a), float(b), tick, g + rest) for r, a, b, tick, _, g, rest in rows
    )


@pytest.mark.parametrize("program", ["stamps", *FORTRANS])
@pytest.mark.parametrize("mpi", MPIS)
def test_an_unmodified_program_gets_global_time(
    programs: Path, tmp_path: Path, mpi: str, program: str
) -> None:
    path = tmp_path / "record.json"
    rows = stamps_of(job(mpi, ULLAGE_CLOCK_RECORD=str(path)).run(programs / mpi / program))
    found = records(path)
    assert [record.rank for record in found] == [row[0] for row in rows] == [0, 1]
    for record, (_, first, second, tick, is_global) in zip(found, rows, strict=True):
        assert record.wtime == "global" and record.why_stock is None and record.finalized
        assert record.start is not None and record.end is not None
        assert record.origin_ns is not None
        begin, end = (at.global_ns - record.origin_ns for at in (record.start, record.end))
        assert begin <= first * 1e9 + 1 and second * 1e9 <= end + 1
        assert first < second
        assert float(tick) == 1e-9
        # By the old name as well, where the program asks so.
        assert re.findall(r"\d+", is_global.replace("global_old", "")) in (["1"], ["1", "1"])
    assert [record.way for record in found] == ["root", "shared"]
    assert len({record.run for record in found}) == 1


@pytest.mark.parametrize("program", ["stamps", *FORTRANS])
@pytest.mark.parametrize("mpi", MPIS)
def test_without_the_preload_it_is_not_global(programs: Path, mpi: str, program: str) -> None:
    """So the test above can fail."""
    for row in stamps_of(stock(mpi).run(programs / mpi / program)):
        assert re.findall(r"\d+", row[4].replace("global_old", "")) in (["0"], ["0", "0"])


def measured(
    programs: Path, tmp_path: Path, run: Job, milliseconds: int = 1000
) -> tuple[list[Record], list[Stamps]]:
    path, out = tmp_path / "record.json", tmp_path / "stamps"
    settings = run.settings | {"ULLAGE_CLOCK_RECORD": str(path)}
    full = Job(run.mpi, run.ranks, run.preload, settings, run.per_rank)
    done = full.run(programs / run.mpi / "truth", out, str(milliseconds))
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return records(path), [Stamps.read(Path(f"{out}.{rank}")) for rank in range(run.ranks)]


@pytest.mark.parametrize("topology", ["two-level", "tree", "flat"])
@pytest.mark.parametrize("ranks", [2, 4, 8])
@pytest.mark.parametrize("mpi", MPIS)
def test_the_truth_is_inside_the_hard_bound(
    programs: Path, tmp_path: Path, mpi: str, ranks: int, topology: str
) -> None:
    run = job(mpi, ranks, DISTORTED, **UNSHARED, ULLAGE_CLOCK_TOPOLOGY=topology)
    found, all_stamps = measured(programs, tmp_path, run)
    truth = Truth.of(all_stamps[0])
    for record, stamps in zip(found, all_stamps, strict=True):
        assert record.way == ("messages" if record.rank > 0 else "root")
        assert record.topology == topology
        assert record.start is not None and record.start.hard_ns is not None
        assert record.start.bound_ns is not None and record.origin_ns is not None
        errors, known = truth.errors_ns(stamps)
        age_s = stamps.seconds - (record.start.global_ns - record.origin_ns) * 1e-9
        growth = 100_000.0 if record.rank > 0 else 0.0
        hard = record.start.hard_ns + growth * np.maximum(age_s, 0)
        off = np.abs(errors) - known - SLACK_NS
        print(
            f"{mpi} {ranks} {topology} rank {record.rank}: error {errors[0]:.0f} ns at first, "
            f"{errors[-1]:.0f} ns in the end; bounds {record.start.bound_ns} and "
            f"{record.start.hard_ns} ns at first, hard {hard[-1]:.0f} ns in the end"
        )
        assert (off <= hard).all()
        if record.rank == 0:
            continue
        assert "distorted" in record.start.reasons
        # Corrected afterwards, halfway between the two synchronisations.
        assert record.correction is not None and record.correction.hard_ns is not None
        since = (stamps.seconds - record.correction.since_s) / record.correction.length_s
        corrected = errors - record.correction.shown_ahead_ns * since
        middle = int(np.argmin(np.abs(since - 0.5)))
        more = 100_000.0 * abs(since[middle] - 0.5) * record.correction.length_s
        most = record.correction.hard_ns + more + known[middle] + SLACK_NS
        print(f"  corrected: {corrected[middle]:.0f} ns of {record.correction.bound_ns} halfway")
        assert abs(corrected[middle]) <= most


@pytest.mark.parametrize("mpi", MPIS)
def test_the_caps_hold_with_eight_ranks_on_two_cores(
    programs: Path, tmp_path: Path, mpi: str
) -> None:
    """An overrun is at most the exchange under way; the first one has a patience of its own."""
    caps = {"ULLAGE_CLOCK_TIME_US": "300", "ULLAGE_CLOCK_MESSAGES": "60"}
    for settings, time_ns, messages in [({}, 1_000_000, 200), (caps, 300_000, 60)]:
        run = job(mpi, 8, **UNSHARED, **settings)
        found, _ = measured(programs, tmp_path, run, 1)
        for record in found[1:]:
            for sync in (record.first, record.last):
                assert sync is not None and sync.problem is None
                assert sync.took_ns is not None and sync.last_exchange_ns is not None
                assert sync.sent is not None and sync.answers is not None
                late_ns = sync.last_exchange_ns if sync.answers > 1 else 1_000_000_000
                assert sync.took_ns <= time_ns + late_ns
                assert sync.sent + sync.answers <= messages


@pytest.mark.parametrize("ranks", [2, 8])
@pytest.mark.parametrize("mpi", MPIS)
def test_the_ranks_of_a_host_read_one_clock(
    programs: Path, tmp_path: Path, mpi: str, ranks: int
) -> None:
    found, all_stamps = measured(programs, tmp_path, job(mpi, ranks), 500)
    assert {record.way for record in found[1:]} == {"shared"}
    assert all(set(stamps.is_global) == {1} for stamps in all_stamps)
    # The counter is the same, so readings of it are in the order of the times that were told.
    for number, stamps in enumerate(all_stamps[1:], 1):
        errors, known = Truth.of(all_stamps[0]).errors_ns(stamps)
        print(f"{mpi} {ranks} rank {number}: {np.abs(errors).max():.0f} ns at most")
        assert (np.abs(errors) - known <= SLACK_NS).all()
    for record in found[1:]:
        # Nobody takes that on trust: messages at both ends have it proved.
        for sync in (record.first, record.last):
            assert sync is not None and sync.answers is not None and sync.answers > 0
            assert sync.offset_ns is not None and sync.half_ns is not None


def test_leaders_synchronise_and_their_hosts_follow(programs: Path, tmp_path: Path) -> None:
    """MPICH takes the odd ranks for those of another host when it is told to."""
    found, all_stamps = measured(
        programs, tmp_path, job("mpich", 4, MPIR_CVAR_ODD_EVEN_CLIQUES="1"), 500
    )
    assert [record.way for record in found] == ["root", "messages", "shared", "shared"]
    assert [record.stratum for record in found] == [0, 1, 0, 1]
    assert found[1].correction is not None
    # To the nanosecond that roundings add.
    led, own_line = found[3].correction, found[1].correction
    assert led is not None and led.shown_ahead_ns == own_line.shown_ahead_ns
    assert led.since_s == pytest.approx(own_line.since_s, abs=2e-9)
    truth = Truth.of(all_stamps[0])
    for record, stamps in zip(found, all_stamps, strict=True):
        assert record.start is not None and record.start.hard_ns is not None
        errors, known = truth.errors_ns(stamps)
        growth = 100_000.0 if record.stratum else 0.0
        age_s = stamps.seconds - stamps.seconds[0]
        hard = record.start.hard_ns + growth * age_s
        assert (np.abs(errors) - known - SLACK_NS <= hard).all()
    following = Truth.of(all_stamps[1]).errors_ns(all_stamps[3])
    assert (np.abs(following[0]) - following[1] <= SLACK_NS).all()


@pytest.mark.parametrize("mpi", MPIS)
def test_a_clock_that_is_not_the_leaders_is_not_shared(
    programs: Path, tmp_path: Path, mpi: str
) -> None:
    distorted = '[ "$rank" != 1 ] || export ULLAGE_CLOCK_DISTORT=0,5000000'
    found, _ = measured(programs, tmp_path, job(mpi, 3, distorted), 1)
    assert [record.way for record in found] == ["root", "messages", "shared"]
    assert found[1].correction is not None


@pytest.mark.parametrize("mpi", MPIS)
def test_it_is_global_only_while_the_bound_deserves_it(
    programs: Path, tmp_path: Path, mpi: str
) -> None:
    """Without a rate the bound grows by 100 us a second: beyond the threshold, the answer is no."""
    run = job(mpi, 2, **UNSHARED, ULLAGE_CLOCK_GLOBAL_NS="100000")
    found, all_stamps = measured(programs, tmp_path, run, 2000)
    for record, stamps in zip(found, all_stamps, strict=True):
        assert stamps.is_global[0] == 1 and stamps.is_global[-1] == 0
        assert stamps.is_global == sorted(stamps.is_global, reverse=True)
        assert record.start is not None and record.origin_ns is not None
        started_s = (record.start.global_ns - record.origin_ns) * 1e-9
        until_s = stamps.seconds[stamps.is_global.count(1) - 1] - started_s
        bounds = [record.start.bound_ns for record in found if record.start is not None]
        most = max(bound for bound in bounds if bound is not None)
        # Asked every 5 ms or later.
        assert until_s <= (100_000 - most) / 100_000 + 0.01


@pytest.mark.parametrize("mpi", MPIS)
def test_no_message_in_between(programs: Path, mpi: str) -> None:
    """A million MPI_Wtime and an MPI_Comm_get_attr ask nothing of MPI that could send anything."""
    counted = set(
        re.findall(r"COUNTED\((P\w+)\)", (Path(__file__).parent / "programs/count.c").read_text())
    )
    imports = subprocess.run(
        ["nm", "-D", "--undefined-only", str(library(mpi))],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    silent = {
        "PMPI_Comm_free",
        "PMPI_Comm_get_attr",
        "PMPI_Comm_rank",
        "PMPI_Comm_set_errhandler",
        "PMPI_Comm_size",
        "PMPI_Finalize",
        "PMPI_Get_count",
        "PMPI_Get_library_version",
        "PMPI_Get_processor_name",
        "PMPI_Init",
        "PMPI_Init_thread",
        "PMPI_Wtick",
        "PMPI_Wtime",
    }
    assert set(re.findall(r"PMPI_\w+", imports)) == counted | silent
    both = f"{programs / 'count.so'}:{library(mpi)}"
    done = Job(mpi, 2, both, {}).run(programs / mpi / "work", "quiet")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["rank 0 backward 0", "rank 1 backward 0"]
    counts = [line.split()[1:] for line in done.stderr.splitlines() if line.startswith("calls ")]
    assert len(counts) == 2
    for before, between, after in counts:
        assert int(before) > 0 and int(after) > 0
        assert int(between) == 0


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
    found, _ = measured(programs, tmp_path, job(mpi, 3, '[ "$rank" != 1 ] || sleep 2'), 1)
    assert [record.wtime for record in found] == ["global"] * 3


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
    said = [line for line in done.stderr.splitlines() if line.startswith("ullage: ")]
    assert len(said) == 1
    assert said[0].startswith("ullage: rank 0: MPI_Wtime is MPI's own, not global: not every rank")
    assert " hint: " in said[0]
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
    found = [records(tmp_path / f"{rank}.json")[0] for rank in range(3)]
    assert {(record.way, record.wtime) for record in found} == {("none", "stock")}
    assert found[0].why_stock == "not every rank has this library preloaded"
    assert found[2].why_stock == "another rank came so late that not all waited for it"


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
    found = records(path)
    lost = [1, 2] if mute == 0 else [1]
    said = [line for line in done.stderr.splitlines() if line.startswith("ullage: ")]
    ranks = [line.split(":")[1] for line in sorted(said)]
    assert ranks == [f" rank {rank}" for rank in lost]
    assert all("not global: nobody answered in time; hint: " in line for line in said)
    for record in found:
        assert record.wtime == ("stock" if record.rank in lost else "global")
        assert (record.why_stock is None) == (record.rank not in lost)
        assert (record.start is None) == (record.rank in lost)
    if share == "0":
        rows = stamps_of(job(mpi, 3, silenced, **settings).run(programs / mpi / "stamps"))
        assert [row[4] for row in rows] == ["0", "0", "0"]


def test_another_mpis_library_keeps_its_hands_off(programs: Path) -> None:
    for mpi, other in [("openmpi", "mpich"), ("mpich", "openmpi")]:
        done = Job(mpi, 2, str(library(other)), {}).run(programs / mpi / "work")
        assert done.returncode == 0
        assert len(done.stdout.splitlines()) == 2
        said = sorted(line for line in done.stderr.splitlines() if line.startswith("ullage: "))
        assert [line.split(": ")[1] for line in said] == ["rank 0", "rank 1"]
        assert all("this library was built for another MPI; hint: " in line for line in said)


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
    said = [line for line in done.stderr.splitlines() if line.startswith("ullage: ")]
    assert len(said) == (1 if message else 0)
    assert all(f"ullage: {full} {message}" in line for line in said)


@pytest.mark.parametrize(
    "value", ["fast", "1,", "1,2,3", "1000001", "1.5", "1,9999999999999999999"]
)
@pytest.mark.parametrize("first", [0, 1])
def test_a_distortion_that_is_none_is_said_once(programs: Path, first: int, value: str) -> None:
    """By rank 0, or by the first rank that has it: each has its own."""
    export = f"[ $rank -lt {first} ] || export ULLAGE_CLOCK_DISTORT={value}"
    done = job("mpich", 3, export).run(programs / "mpich" / "work")
    assert done.returncode == 0
    said = [line for line in done.stderr.splitlines() if line.startswith("ullage: ")]
    assert len(said) == 1
    assert said[0].startswith(f"ullage: rank {first}: ULLAGE_CLOCK_DISTORT takes PPB or PPB,NS ")
    assert said[0].endswith(f", not '{value}'; hint: the clock is not distorted")


@pytest.mark.parametrize("value", ["", "0", " -50 , +1000 ", "1000000"])
def test_a_distortion_that_is_one_is_taken(programs: Path, tmp_path: Path, value: str) -> None:
    path = tmp_path / "record.json"
    settings = {"ULLAGE_CLOCK_DISTORT": value, "ULLAGE_CLOCK_RECORD": str(path)}
    done = job("mpich", 2, **settings).run(programs / "mpich" / "work")
    assert (done.returncode, done.stderr) == (0, "")
    for record in records(path):
        assert record.start is not None
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
        (said,) = [line for line in done.stderr.splitlines() if line.startswith("ullage: ")]
        assert said.startswith(f"ullage: rank 0: {message}")


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
    program = library(mpi).with_name("wtime_cost")
    for preload in (None, str(library(mpi))):
        done = Job(mpi, 1, preload, {}).run(program, "3", "1000")
        assert done.returncode == 0
        costs = [float(line) for line in done.stdout.splitlines()]
        assert len(costs) == 3 and all(cost > 0 for cost in costs)
    refused = Job(mpi, 1, None, {}).run(program, "none")
    assert refused.returncode != 0
    assert "wtime_cost [ROUNDS [CALLS]]" in refused.stderr
