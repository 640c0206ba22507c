"""The preloaded MPI_Wtime under real MPI programs."""

from __future__ import annotations

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
    Truth,
    job,
    library,
    measured,
    records,
    stamps_of,
    stock,
)

pytestmark = pytest.mark.skipif(
    bool(MISSING), reason=f"no {', '.join(MISSING)}: apt-get install libopenmpi-dev libmpich-dev"
)

UNSHARED = {"ULLAGE_CLOCK_SHARE": "0"}
#: Rank 0's line is a fit through readings of this counter and this clock.
SLACK_NS = 60.0


@pytest.mark.parametrize("program", ["stamps", *FORTRANS])
@pytest.mark.parametrize("mpi", MPIS)
def test_an_unmodified_program_gets_global_time(
    programs: Path, tmp_path: Path, mpi: str, program: str
) -> None:
    path = tmp_path / "record.json"
    # Else half a round trip is the limit, and a rank that waited for a core is rightly beyond it.
    settings = {"ULLAGE_CLOCK_RECORD": str(path), "ULLAGE_CLOCK_GLOBAL_NS": "1000000000"}
    rows = stamps_of(job(mpi, 2, **settings).run(programs / mpi / program))
    all_records = records(path)
    assert [record.rank for record in all_records] == [row[0] for row in rows] == [0, 1]
    for record, (_, first, second, tick, is_global) in zip(all_records, rows, strict=True):
        assert record.wtime == "global" and record.why_stock is None and record.finalized
        assert record.start is not None and record.end is not None
        assert record.origin_ns is not None
        begin, end = (at.global_ns - record.origin_ns for at in (record.start, record.end))
        assert begin <= first * 1e9 + 1 and second * 1e9 <= end + 1
        assert first < second
        assert float(tick) == 1e-9
        # By the old name as well, where the program asks so.
        assert re.findall(r"\d+", is_global.replace("global_old", "")) in (["1"], ["1", "1"])
    assert [record.way for record in all_records] == ["root", "shared"]
    assert len({record.run for record in all_records}) == 1


@pytest.mark.parametrize("program", ["stamps", *FORTRANS])
@pytest.mark.parametrize("mpi", MPIS)
def test_without_the_preload_it_is_not_global(programs: Path, mpi: str, program: str) -> None:
    """So the test above can fail."""
    for row in stamps_of(stock(mpi).run(programs / mpi / program)):
        assert re.findall(r"\d+", row[4].replace("global_old", "")) in (["0"], ["0", "0"])


@pytest.mark.parametrize("topology", ["two-level", "tree", "flat"])
@pytest.mark.parametrize("ranks", [2, 4, 8])
@pytest.mark.parametrize("mpi", MPIS)
def test_the_truth_is_inside_the_hard_bound(
    programs: Path, tmp_path: Path, mpi: str, ranks: int, topology: str
) -> None:
    run = job(mpi, ranks, DISTORTED, **UNSHARED, ULLAGE_CLOCK_TOPOLOGY=topology)
    all_records, all_stamps = measured(programs, tmp_path, run)
    truth = Truth.of(all_stamps[0])
    for record, stamps in zip(all_records, all_stamps, strict=True):
        assert record.way == ("messages" if record.rank > 0 else "root")
        assert record.topology == topology
        assert record.start is not None and record.start.hard_ns is not None
        assert record.start.bound_ns is not None and record.origin_ns is not None
        errors, resolution = truth.errors_ns(stamps)
        age_s = stamps.seconds - (record.start.global_ns - record.origin_ns) * 1e-9
        growth = 100_000.0 if record.rank > 0 else 0.0
        hard = record.start.hard_ns + growth * np.maximum(age_s, 0)
        off = np.abs(errors) - resolution - SLACK_NS
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
        most = record.correction.hard_ns + more + resolution[middle] + SLACK_NS
        print(f"  corrected: {corrected[middle]:.0f} ns of {record.correction.bound_ns} halfway")
        assert abs(corrected[middle]) <= most


@pytest.mark.parametrize("mpi", MPIS)
def test_the_caps_hold_with_eight_ranks_on_two_cores(
    programs: Path, tmp_path: Path, mpi: str
) -> None:
    """An overrun is at most the exchange under way; the first one has a patience of its own.

    Without a cap of its own time ends none before a millisecond; nor before 64 of the least round
    trips, which may be among those that do not count, and are not in the record.
    After its last exchange a rank may wait for a core: not most of them.
    """
    caps = {"ULLAGE_CLOCK_TIME_US": "300", "ULLAGE_CLOCK_MESSAGES": "60"}
    for settings, cap_ns, messages in [({}, None, 200), (caps, 300_000, 60)]:
        run = job(mpi, 8, **UNSHARED, **settings)
        all_records, _ = measured(programs, tmp_path, run, 1)
        in_time = []
        for record in all_records[1:]:
            for sync in (record.first, record.last):
                assert sync is not None and sync.problem is None
                assert sync.took_ns is not None and sync.last_exchange_ns is not None
                assert sync.sent is not None and sync.answers is not None
                assert sync.rtt_ns is not None
                late_ns = sync.last_exchange_ns if sync.answers > 1 else 1_000_000_000
                if cap_ns is not None:
                    in_time.append(sync.took_ns <= cap_ns + late_ns)
                elif sync.stop == "time":
                    assert sync.took_ns >= 1_000_000
                assert sync.sent + sync.answers <= messages
        assert sum(in_time) * 2 >= len(in_time), in_time


@pytest.mark.parametrize("ranks", [2, 8])
@pytest.mark.parametrize("mpi", MPIS)
def test_the_ranks_of_a_host_read_one_clock(
    programs: Path, tmp_path: Path, mpi: str, ranks: int
) -> None:
    # Half a round trip is little on a busy machine, so the threshold is given.
    run = job(mpi, ranks, ULLAGE_CLOCK_GLOBAL_NS="1000000000")
    all_records, all_stamps = measured(programs, tmp_path, run, 500)
    assert {record.way for record in all_records[1:]} == {"shared"}
    assert all(set(stamps.is_global) == {1} for stamps in all_stamps)
    # The counter is the same, so readings of it are in the order of the times that were told.
    for number, stamps in enumerate(all_stamps[1:], 1):
        errors, resolution = Truth.of(all_stamps[0]).errors_ns(stamps)
        print(f"{mpi} {ranks} rank {number}: {np.abs(errors).max():.0f} ns at most")
        assert (np.abs(errors) - resolution <= SLACK_NS).all()
    for record in all_records[1:]:
        # Nobody takes that on trust: messages at both ends have it proved.
        for sync in (record.first, record.last):
            assert sync is not None and sync.answers is not None and sync.answers > 0
            assert sync.offset_ns is not None and sync.half_ns is not None


def test_leaders_synchronise_and_their_hosts_follow(programs: Path, tmp_path: Path) -> None:
    """MPICH takes the odd ranks for those of another host when it is told to."""
    all_records, all_stamps = measured(
        programs, tmp_path, job("mpich", 4, MPIR_CVAR_ODD_EVEN_CLIQUES="1"), 500
    )
    assert [record.way for record in all_records] == ["root", "messages", "shared", "shared"]
    assert [record.stratum for record in all_records] == [0, 1, 0, 1]
    assert all_records[1].correction is not None
    # To the nanosecond that roundings add.
    led, own_line = all_records[3].correction, all_records[1].correction
    assert led is not None and led.shown_ahead_ns == own_line.shown_ahead_ns
    assert led.since_s == pytest.approx(own_line.since_s, abs=2e-9)
    truth = Truth.of(all_stamps[0])
    for record, stamps in zip(all_records, all_stamps, strict=True):
        assert record.start is not None and record.start.hard_ns is not None
        errors, resolution = truth.errors_ns(stamps)
        growth = 100_000.0 if record.stratum else 0.0
        age_s = stamps.seconds - stamps.seconds[0]
        hard = record.start.hard_ns + growth * age_s
        assert (np.abs(errors) - resolution - SLACK_NS <= hard).all()
    following = Truth.of(all_stamps[1]).errors_ns(all_stamps[3])
    assert (np.abs(following[0]) - following[1] <= SLACK_NS).all()


@pytest.mark.parametrize("mpi", MPIS)
def test_a_clock_that_is_not_the_leaders_is_not_shared(
    programs: Path, tmp_path: Path, mpi: str
) -> None:
    distorted = '[ "$rank" != 1 ] || export ULLAGE_CLOCK_DISTORT=0,5000000'
    all_records, _ = measured(programs, tmp_path, job(mpi, 3, distorted), 1)
    assert [record.way for record in all_records] == ["root", "messages", "shared"]
    assert all_records[1].correction is not None


@pytest.mark.parametrize("mpi", MPIS)
def test_it_is_global_only_while_the_bound_deserves_it(
    programs: Path, tmp_path: Path, mpi: str
) -> None:
    """Without a rate the bound grows by 100 us a second: beyond the threshold, the answer is no."""
    run = job(mpi, 2, **UNSHARED, ULLAGE_CLOCK_GLOBAL_NS="100000")
    all_records, all_stamps = measured(programs, tmp_path, run, 2000)
    for record, stamps in zip(all_records, all_stamps, strict=True):
        assert stamps.is_global[-1] == 0
        assert stamps.is_global == sorted(stamps.is_global, reverse=True)
        assert record.start is not None and record.origin_ns is not None
        started_s = (record.start.global_ns - record.origin_ns) * 1e-9
        bounds = [record.start.bound_ns for record in all_records if record.start is not None]
        most = max(bound for bound in bounds if bound is not None)
        while_s = (100_000 - most) / 100_000
        # A busy machine may have asked for the first time when the bound had grown too far.
        asked_s = stamps.seconds[0] - started_s
        assert stamps.is_global[0] == (asked_s < while_s) or abs(asked_s - while_s) < 0.01
        if stamps.is_global[0] == 0:
            continue
        until_s = stamps.seconds[stamps.is_global.count(1) - 1] - started_s
        # Asked every 5 ms or later.
        assert until_s <= while_s + 0.01


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
        "PMPI_Request_free",
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
