"""The sampler, on the real `perf`; and programs of that name that fail it."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.common.sums import opened
from ullage.host import claims, clock, paths
from ullage.host.cgroups import Group, Limits
from ullage.meters import Scene, process_groups
from ullage.meters.perf import sampler as symbols
from ullage.meters.perf.sampler import ClockPair, Sampler
from ullage.runs.symbols import LEAST_BIN_NS, OTHER_END, Symbols

BURN = "import time\nend = time.monotonic() + {0}\nwhile time.monotonic() < end: hash('x' * 99)"

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="perf looks at a host for root alone")


def burning(group: Group, seconds: float) -> list[str]:
    """The command that burns so many seconds of CPU time in a group."""
    script = "import os, sys\nfor d in sys.argv[2:]: open(d + '/cgroup.procs', 'w').write('0')\n"
    source, directories = f"{script}exec(sys.argv[1])", map(str, group.directories)
    return [sys.executable, "-I", "-S", "-c", source, BURN.format(seconds), *directories]


@pytest.fixture
def boxed() -> Iterator[tuple[Scene, Callable[[float], list[str]]]]:
    """A group of ours, and the command that burns so many seconds of CPU time in it."""
    tag = paths.new_tag()
    group = Group.create(tag, "box-0", Limits())
    yield Scene(tag, ("box-0",)), partial(burning, group)
    asyncio.run(group.kill_all())
    asyncio.run(group.remove())


def used_s(pid: int) -> float:
    """CPU seconds of a process that lives."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def watched(
    sampler: Sampler, scene: Scene, command: list[str], folder: Path, used: float
) -> tuple[int, int, float]:
    """A trial that ends when its process, which would go on, has used so many CPU seconds.

    Its start, its end, and how much was used when that was seen.
    """
    folder.mkdir()
    busy = await asyncio.create_subprocess_exec(*command)
    try:
        async with asyncio.timeout(120):
            while busy.pid not in (watch := sampler.watch(scene)).roots:
                await asyncio.sleep(0.01)
            start_ns = clock.ordered_ns()
            before = used_s(busy.pid)
            while used_s(busy.pid) < before + used:
                await asyncio.sleep(0.01)
        end_ns = clock.ordered_ns()
        really = used_s(busy.pid) - before
        sampler.note(watch, folder, start_ns, end_ns)
        return start_ns, end_ns, really
    finally:
        busy.kill()
        await busy.wait()


def table(folder: Path) -> Symbols:
    return Symbols.model_validate_json(opened((folder / symbols.FILE).read_bytes()))


def of_programs(counted: Symbols) -> int:
    return sum(row.samples for row in counted.rows if row.group == "programs")


def test_two_trials_each_with_its_own_samples(
    tmp_path: Path,
    boxed: tuple[Scene, Callable[[float], list[str]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One of them twice as long; the file is changed between the two."""
    monkeypatch.setattr(symbols, "EVERY_S", 0.0)
    scene, command = boxed
    warnings: list[str] = []
    directory = tmp_path / "perf"

    async def scenario() -> tuple[tuple[int, int, float], tuple[int, int, float]]:
        sampler = await Sampler.start(directory, lambda code, _: warnings.append(code))
        try:
            first = await watched(sampler, scene, command(300), tmp_path / "one", 0.6)
            await sampler.settle()
            assert (tmp_path / "one" / symbols.FILE).is_file()
            second = await watched(sampler, scene, command(300), tmp_path / "two", 1.2)
        finally:
            await sampler.stop()
        assert sampler.process.returncode is not None
        return first, second

    spans = asyncio.run(scenario())
    assert warnings == []
    assert not directory.exists()
    for name, (start_ns, end_ns, used) in zip(("one", "two"), spans, strict=True):
        counted = table(tmp_path / name)
        assert (counted.start_ns, counted.end_ns) == (start_ns, end_ns)
        assert counted.bound_ns < 1e6  # a fifth of a microsecond, where nobody else is about
        # A sample for each part of its CPU time; a virtual machine that was away has fewer.
        assert used * counted.hz / 3 < of_programs(counted) < used * counted.hz * 1.5
        assert counted.bin_ns >= min(LEAST_BIN_NS, end_ns - start_ns)
        (parts,) = (course.samples for course in counted.over_time if course.group == "programs")
        assert 0 <= sum(parts) - of_programs(counted) <= counted.rest
    assert all(row.program != "swapper" for row in table(tmp_path / "one").rows)


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="there is one core")
def test_which_core_it_was_and_at_which_end(
    tmp_path: Path, boxed: tuple[Scene, Callable[[float], list[str]]]
) -> None:
    """A program pinned to core 0, and the other end to core 1, which is told as such."""
    scene, command = boxed
    end = Group.create(scene.tag, "end-0", Limits())
    both = Scene(scene.tag, ("box-0", "end-0"), ("end-0",))

    async def scenario() -> None:
        sampler = await Sampler.start(tmp_path / "perf", lambda code, _: None)
        far = await asyncio.create_subprocess_exec("taskset", "-c", "1", *burning(end, 300))
        try:
            while not process_groups.ends(both):
                await asyncio.sleep(0.01)
            mine = ["taskset", "-c", "0", *command(300)]
            await watched(sampler, both, mine, tmp_path / "one", 0.8)
        finally:
            far.kill()
            await far.wait()
            await sampler.stop()
            await end.kill_all()
            await end.remove()

    asyncio.run(scenario())
    counted = table(tmp_path / "one")
    cores = {
        (course.core, course.group): sum(course.samples)
        for course in counted.cores_over_time
        if course.group in ("programs", OTHER_END)
    }
    assert {core for core, group in cores if group == "programs"} == {0}
    assert {core for core, group in cores if group == OTHER_END} == {1}
    assert cores[0, "programs"] > 0.8 * counted.hz / 3


def test_the_tables_of_several_trials_wait_for_the_disk_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = threading.Barrier(2)

    def put(file: Path, data: bytes) -> None:
        both.wait(30)  # BrokenBarrierError, if one is written after the other
        file.write_bytes(data)

    monkeypatch.setattr(symbols, "put", put)
    folders = [tmp_path / "one", tmp_path / "two"]

    async def scenario() -> None:
        sampler = await Sampler.start(tmp_path / "perf", lambda *_: None)
        try:
            for folder in folders:
                folder.mkdir()
                now = clock.ordered_ns()
                sampler.note(sampler.watch(Scene()), folder, now, now + 1)
        finally:
            await sampler.stop()

    asyncio.run(scenario())
    assert all(table(folder).rows == () for folder in folders)


def test_the_two_clocks_are_brought_together() -> None:
    look = ClockPair.now()
    again = ClockPair.now()
    drift = (again.raw_ns - look.raw_ns) - (again.ordered_ns - look.ordered_ns)
    assert 0 <= look.half_ns < 1e6
    assert abs(drift) <= 1e6
    assert look.raw_ns <= time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)


def fake(directory: Path, text: str) -> None:
    """A `perf` before all others."""
    directory.mkdir(exist_ok=True)
    program = directory / "perf"
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)


REFUSES = "echo 'Access is limited: perf_event_paranoid setting is 4' >&2; exit 255"
BREAKS = "echo 'perf: cannot load libtraceevent' >&2; exit 1"


@pytest.mark.parametrize(
    ("text", "kind", "says"),
    [
        (None, errors.PERF_MISSING, "perf is not here"),
        (REFUSES, errors.PERF_DENIED, "kernel.perf_event_paranoid is"),
        (BREAKS, errors.PERF_BROKEN, "cannot load libtraceevent"),
        ("exit 0", errors.PERF_BROKEN, "it ended at once"),
    ],
)
def test_a_perf_that_is_not_there_is_said_and_the_run_goes_on(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    text: str | None,
    kind: errors.ErrorKind,
    says: str,
) -> None:
    setpriv = Path(shutil.which("setpriv") or "")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/setpriv").symlink_to(setpriv)
    if text is not None:
        fake(tmp_path / "bin", text)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(UllageError) as caught:
        asyncio.run(Sampler.start(tmp_path / "perf", lambda *_: None))
    assert caught.value.kind is kind
    assert says in caught.value.message
    warnings: list[tuple[str, str]] = []
    sampler = asyncio.run(
        symbols.started(tmp_path / "perf", lambda *warning: warnings.append(warning))
    )
    assert sampler is None
    ((code, message),) = warnings
    assert code == kind.code
    assert caught.value.hint in message
    assert not (tmp_path / "perf").exists()


def test_nothing_looks_where_the_image_is_gone(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        asyncio.run(Sampler.start(tmp_path / "perf", lambda *_: None, tmp_path / "image"))
    assert not (tmp_path / "perf").exists()


def test_a_perf_that_dies_in_between_is_said_once(
    tmp_path: Path, boxed: tuple[Scene, Callable[[float], list[str]]]
) -> None:
    """The trials before and after have no symbols, and nothing else is lost."""
    warnings: list[str] = []
    scene, command = boxed

    async def scenario() -> None:
        sampler = await Sampler.start(tmp_path / "perf", lambda code, _: warnings.append(code))
        sampler.process.kill()
        await sampler.process.wait()
        await watched(sampler, scene, command(300), tmp_path / "one", 0.1)
        await sampler.stop()

    asyncio.run(scenario())
    assert warnings == [errors.PERF_BROKEN.code]
    assert not (tmp_path / "one" / symbols.FILE).exists()
    assert not (tmp_path / "perf").exists()


def test_trials_after_the_end_of_perf_have_no_table(
    tmp_path: Path, boxed: tuple[Scene, Callable[[float], list[str]]]
) -> None:
    """It ends in good order when its file is too large; SIGINT has the same come of it."""
    warnings: list[str] = []
    scene, command = boxed

    async def scenario() -> None:
        sampler = await Sampler.start(tmp_path / "perf", lambda code, _: warnings.append(code))
        await watched(sampler, scene, command(300), tmp_path / "whole", 0.3)
        await watched(sampler, scene, command(300), tmp_path / "behind", 0.1)  # so perf sees more
        now_ns = clock.ordered_ns()
        (tmp_path / "cut").mkdir()
        sampler.note(sampler.watch(scene), tmp_path / "cut", now_ns, now_ns + 3600 * 10**9)
        sampler.process.send_signal(signal.SIGINT)
        await sampler.process.wait()
        for name in ("after", "later"):
            await watched(sampler, scene, command(300), tmp_path / name, 0.1)
        await sampler.stop()

    asyncio.run(scenario())
    assert of_programs(table(tmp_path / "whole")) > 0
    assert warnings == [errors.PERF_BROKEN.code]
    for name in ("cut", "after", "later"):
        assert not (tmp_path / name / symbols.FILE).exists()


def test_perf_ends_with_a_controller_that_is_killed(tmp_path: Path) -> None:
    source = (
        "import asyncio, os, sys\nfrom pathlib import Path\n"
        "from ullage.meters.perf.sampler import *\n"
        "async def main():\n"
        "    one = await Sampler.start(Path(sys.argv[1]), print)\n"
        "    print(one.process.pid, flush=True)\n"
        "    os.kill(os.getpid(), 9)\n"
        "asyncio.run(main())\n"
    )

    async def scenario() -> int:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", source, str(tmp_path / "perf")),
            stdout=asyncio.subprocess.PIPE,
        )
        out, _ = await process.communicate()
        return int(out)

    pid = asyncio.run(scenario())
    deadline = time.monotonic() + 60
    while claims.process_start_time(pid) is not None:
        assert time.monotonic() < deadline, "perf outlives us"
        time.sleep(0.05)
