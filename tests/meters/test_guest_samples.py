"""What is seen inside of guests: the real `perf` by a real agent, here on the host's own kernel."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from ullage.common.sums import opened
from ullage.environments.agent.client import AgentClient
from ullage.environments.agent.process import Command
from ullage.host import clock
from ullage.meters.perf import inside as room
from ullage.meters.perf.inside import GuestFiles, GuestSampler, GuestSamples
from ullage.runs.symbols import GUEST_FILE, Symbols

BURN = "while [ ${n:=0} -lt 900000 ]; do n=$((n + 1)); done"
"""Half a second of a CPU, or more."""
Steps = Callable[[GuestSamples, AgentClient], Awaitable[None]]


@dataclass
class Guest:
    name: str
    agent: AgentClient


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where perf writes: not where another test's does."""
    place = tmp_path / "perf"
    for name in ("_PREPARE", "_RECORD", "_LOOKS", "_SCRIPT", "_PLACE"):
        words = getattr(room, name)
        mine = (
            words.replace(room._PLACE, str(place))
            if isinstance(words, str)
            else tuple(word.replace(room._PLACE, str(place)) for word in words)
        )
        if name != "_PLACE":
            monkeypatch.setattr(room, name, mine)
    monkeypatch.setattr(room, "_PLACE", str(place))
    return place


def looked(agent_binary: Path, folder: Path, steps: Steps, path: str | None = None) -> list[str]:
    """A trial's steps, while a guest is looked into; what was warned of."""
    warnings: list[str] = []

    async def scenario() -> None:
        env = {**os.environ, "PATH": path} if path else None
        agent = await AgentClient.launch(
            [str(agent_binary), "serve"], deadline_s=60, env=env, name="vm-0"
        )
        try:
            sampler = GuestSampler(None, lambda code, text: warnings.append(f"{code}: {text}"))
            samples = await sampler.begin([Guest("vm-0", agent)])
            start_ns = clock.ordered_ns()
            await steps(samples, agent)
            end_ns = clock.ordered_ns()
            await samples.end()
            await samples.write(folder, start_ns, end_ns)
        finally:
            await agent.close()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(room, "MOST_SHIFTED", 1.0)  # a busy host is late by more than it may be
        asyncio.run(scenario())
    return warnings


async def burn(_: GuestSamples, agent: AgentClient) -> None:
    await agent.run(Command(("sh", "-c", BURN)))


@pytest.mark.root
def test_programs_are_seen_where_they_ran(agent_binary: Path, tmp_path: Path, place: Path) -> None:
    assert looked(agent_binary, tmp_path, burn) == []
    table = Symbols.model_validate_json(opened((tmp_path / GUEST_FILE).read_bytes()))
    mine = [row for row in table.rows if row.group == "programs" and row.program == "sh"]
    assert sum(row.samples for row in mine) > 5
    busy = sum(row.samples for row in table.rows) + table.rest
    assert busy <= table.cpus * table.hz * (table.end_ns - table.start_ns) / 1e9 + 2 * table.cpus
    assert {row.object for row in mine} & {"dash", "kernel"}
    assert "perf" not in {row.program for row in table.rows if row.group == "programs"}
    assert table.bound_ns <= table.end_ns - table.start_ns
    assert not place.exists(), "nothing is left inside"


@pytest.mark.root
def test_who_stops_twice_has_stopped(agent_binary: Path, tmp_path: Path) -> None:
    """As after a trial that failed: `end` is asked for again when instances come to rest."""

    async def steps(samples: GuestSamples, agent: AgentClient) -> None:
        await burn(samples, agent)
        await samples.end()

    assert looked(agent_binary, tmp_path, steps) == []
    assert (tmp_path / GUEST_FILE).exists()


@pytest.mark.root
def test_a_perf_that_dies_leaves_the_trial_without_a_table(
    agent_binary: Path, tmp_path: Path
) -> None:
    async def steps(samples: GuestSamples, _: AgentClient) -> None:
        (one,) = samples.recordings
        await one.process.kill(9)
        await one.process.wait()

    (warning,) = looked(agent_binary, tmp_path, steps)
    assert warning.startswith("guest-not-sampled: vm-0 is not looked into: perf ended while")
    assert not (tmp_path / GUEST_FILE).exists()


@pytest.mark.root
def test_a_perf_that_does_not_end_is_ended(
    agent_binary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "_INTERRUPT", 18)  # SIGCONT: nothing comes of it
    ended: list[bool] = []

    async def steps(samples: GuestSamples, _: AgentClient) -> None:
        (one,) = samples.recordings
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(room, "_READY_S", 1.0)
            async with asyncio.timeout(40):
                await samples.end()
                await one.process.wait()
        ended.append(samples.recordings == [])

    (warning,) = looked(agent_binary, tmp_path, steps)
    assert "perf did not end within 1 s" in warning
    assert ended == [True] and not (tmp_path / GUEST_FILE).exists()


@pytest.mark.root
def test_nothing_goes_on_where_the_first_mark_fails(
    agent_binary: Path, tmp_path: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "_MARK", str(tmp_path / "none"))

    async def steps(samples: GuestSamples, _: AgentClient) -> None:
        assert samples.recordings == []
        async with asyncio.timeout(20):
            while any(f"--output={place}/data" in words for words in command_lines()):
                await asyncio.sleep(0.05)

    (warning,) = looked(agent_binary, tmp_path, steps)
    assert "vm-0 is not looked into" in warning


def command_lines() -> Iterator[str]:
    """Of all programs here."""
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            yield file.read_text(errors="replace")


def seen(*at_ms: int) -> bytes:
    """What perf prints of programs that mark, at these instants."""
    return "".join(
        f" {ms // 1000}.{ms % 1000:03}000000: PERF_RECORD_COMM exec: true:9/9\n" for ms in at_ms
    ).encode()


def test_another_program_of_that_name_does_not_move_the_trial() -> None:
    """A stranger's `true` before the first mark, or after the last: the window would be off."""
    marks, span = (1_000_000_000, 3_000_000_000), (1_100_000_000, 2_900_000_000)
    files = GuestFiles(None)
    folded = room._counted(seen(501, 1700, 2503), marks, span, files, 1)
    assert folded.bound_ns == 2_000_000
    assert (folded.window.start_ns, folded.window.end_ns) == (602_000_000, 2_402_000_000)
    for strange in (seen(301, 501, 2503), seen(501, 2503, 2703)):
        with pytest.raises(room._NotSampledError, match="ends disagree by 20"):
            room._counted(strange, marks, span, files, 1)


@pytest.mark.parametrize(
    ("program", "reason"),
    [(None, "perf"), ("echo 'no such event' >&2; exit 1", "no such event")],
)
def test_a_guest_without_a_perf_that_works_says_so_once(
    agent_binary: Path, tmp_path: Path, program: str | None, reason: str
) -> None:
    path = tmp_path / "bin"
    path.mkdir()
    for tool in ("sh", "mkdir", "mkfifo", "rm", "head", "true"):
        (path / tool).symlink_to(str(shutil.which(tool)))
    if program is not None:
        (path / "perf").write_text(f"#!/bin/sh\n{program}\n")
        (path / "perf").chmod(0o755)
    monkey = {"PATH": str(path)}
    plain = Command

    def command(argv: tuple[str, ...], env: dict[str, str] | None = None, **more: float) -> Command:
        return plain(argv, {**(env or {}), **monkey}, **more)  # type: ignore[arg-type]

    async def later_trials(samples: GuestSamples, agent: AgentClient) -> None:
        assert samples.recordings == []
        for name in ("vm-0", "vm-1", "vm-1"):
            later = await samples.sampler.begin([Guest(name, agent)])
            assert later.recordings == []

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(room, "Command", command)
        warnings = looked(agent_binary, tmp_path, later_trials)
    assert [warning.split(" ")[1] for warning in warnings] == ["vm-0", "vm-1"]
    for warning in warnings:
        assert warning.startswith("guest-not-sampled: vm-") and reason in warning
    assert not (tmp_path / GUEST_FILE).exists()


def test_functions_are_those_of_the_images_own_file(tmp_path: Path) -> None:
    """By its path on the guest's root, and nothing else that the guest calls so."""
    root = tmp_path / "root"
    tool = root / "usr/bin/tool"
    tool.parent.mkdir(parents=True)
    shutil.copy("/bin/true", tool)
    (root / "link").symlink_to(tmp_path)
    (tmp_path / "stranger").touch()
    device = os.makedev(254, 0)
    files = GuestFiles(root, root_device=device)
    own = files.find(device, 12, "/usr/bin/tool")
    assert own is not None
    status = tool.stat()
    assert own.identity == (status.st_dev, status.st_ino)
    assert stat.S_ISREG(status.st_mode)
    assert files.find(os.makedev(254, 16), 12, "/usr/bin/tool") is None, "another disk's"
    assert files.find(device, 13, "/usr/bin/none") is None
    assert files.find(device, 14, "/link/stranger") is None, "a link leads out of the image"
    assert files.find(device, 15, "/usr/bin") is None
    assert GuestFiles(None, root_device=device).find(device, 12, "/usr/bin/tool") is None
