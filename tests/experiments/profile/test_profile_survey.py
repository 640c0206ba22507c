"""Probes of the command's own requests: their size and how much of them."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.experiments.profile import probe, survey
from ullage.experiments.profile.disk import DiskRequests
from ullage.experiments.profile.loads import argv, times
from ullage.experiments.profile.slowdowns import Traffic

counts = st.integers(0, 1 << 50)


@given(counts, counts, counts, counts)
def test_a_probe_asks_for_what_the_file_holds(
    read: int, written: int, reads: int, writes: int
) -> None:
    requests = DiskRequests(read, written, reads, writes)
    size = survey.request_bytes(requests)
    assert size % survey.SECTOR == 0
    assert survey.SECTOR <= size <= probe.FILE
    assert 0 <= survey.read_share(requests) <= 1


@given(st.integers(1, 1 << 40), st.floats(0, 1))
def test_all_requests_are_reads_or_writes(count: int, share: float) -> None:
    reads, writes = survey.split(count, share)
    assert reads + writes == count
    assert reads >= 0 and writes >= 0


@given(counts, counts)
def test_a_message_is_never_empty(size: int, packets: int) -> None:
    size_of_one = survey.message_bytes(Traffic(DiskRequests(), size, packets))
    assert 1 <= size_of_one <= survey.LARGEST_MESSAGE


def test_the_commands_requests_are_the_probes(tmp_path: Path) -> None:
    traffic = Traffic(DiskRequests(0, 64 * 16_384, 0, 64), 0, 0)
    try:
        strength = asyncio.run(survey.fit("disk", traffic, tmp_path))
    except UllageError as error:
        assert error.kind is errors.PROFILE_FAILED
        pytest.skip(f"no direct requests on the disk of the test's directory: {error}")
    size, reads, writes = map(int, strength.arguments)
    assert (size, reads) == (16_384, 0)
    assert writes > 0
    assert strength.options is not None
    assert set(strength.options.disk) == {"rbps", "wbps", "riops", "wiops"}
    assert strength.options.disk["wbps"] == pytest.approx(
        size * strength.options.disk["wiops"], rel=0.1
    )


def test_memory_is_slowed_by_a_neighbour_and_the_others_by_limits(tmp_path: Path) -> None:
    traffic = Traffic(DiskRequests(), 10_000, 10)
    strengths = {
        resource: asyncio.run(survey.fit(resource, traffic, tmp_path))
        for resource in ("cpu", "memory", "network")
    }
    assert strengths["memory"].options is None
    assert (
        strengths["cpu"].options is not None
        and 0 < (strengths["cpu"].options.cpu or 0) <= survey.CPU_SHARE
    )
    assert strengths["network"].arguments[0] == str(1000 - survey.HEADERS)
    assert strengths["network"].options is not None and strengths["network"].options.link


def test_a_probe_that_cannot_run_is_told(tmp_path: Path) -> None:
    with pytest.raises(UllageError) as caught:
        asyncio.run(survey.fit("disk", Traffic(DiskRequests(), 0, 0), tmp_path / "nowhere"))
    assert caught.value.kind is errors.PROFILE_FAILED
    assert "leave disk out" in caught.value.hint


@pytest.mark.parametrize(
    "arguments", [("cpu", "3"), ("memory", "1"), ("network", "100", "5"), ("network", "70000", "2")]
)
def test_a_probe_prints_seconds(arguments: tuple[str, ...]) -> None:
    done = subprocess.run(argv(*arguments), capture_output=True, text=True, check=True, timeout=120)
    elapsed, on_cpu = times(done.stdout)
    assert 0 < elapsed < 120
    assert 0 < on_cpu < 120
