"""The client with the real agent."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.environments.agent import client as agent
from ullage.environments.agent.client import AgentClient, AgentError, Command
from ullage.environments.agent.frames import CREDIT
from ullage.environments.agent.process import ITSELF
from ullage.host import clock
from ullage.runs.records import User

Use = Callable[[AgentClient], Awaitable[None]]


@pytest.fixture
def with_agent(agent_binary: Path) -> Callable[[Use], None]:
    def run(use: Use) -> None:
        async def main() -> None:
            client = await AgentClient.launch([str(agent_binary), "serve"], deadline_s=10)
            try:
                await use(client)
            finally:
                await client.bye()

        asyncio.run(asyncio.wait_for(main(), 60))

    return run


def shell(script: str, timeout_s: float = 60) -> Command:
    return Command(("sh", "-c", script), timeout_s=timeout_s)


def alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


@pytest.mark.root
def test_a_program_as_another_user(with_agent: Callable[[Use], None], tmp_path: Path) -> None:
    async def use(client: AgentClient) -> None:
        user = User(uid=1234, gid=1235, groups=(77, 78))
        who = Command(("sh", "-c", "id -u; id -g; id -G; grep CapEff /proc/self/status"), user=user)
        done, stdout, _ = await client.run(who)
        assert done.status == 0
        expected = "1234\n1235\n1235 77 78\nCapEff:\t0000000000000000\n"
        assert stdout.decode() == expected
        place = tmp_path / "a/b"
        await client.run(Command((*ITSELF, "workspace", str(place), "1234", "1235")))
        assert (place.stat().st_uid, place.stat().st_gid) == (1234, 1235)

    with_agent(use)


def test_facts_and_clock(with_agent: Callable[[Use], None]) -> None:
    async def use(client: AgentClient) -> None:
        assert client.facts["kernel"] == os.uname().release
        assert set(client.facts["cpus_allowed"]) == os.sched_getaffinity(0)
        # On one kernel there is one line.
        assert client.clock_claims.shared
        assert client.clock.shared
        assert client.clock.offset_ns == 0
        again = await client.sync()
        assert again is client.clock
        first, last = client.take_looks()
        assert [(look.number, look.why) for look in (first, last)] == [(1, "connect"), (2, "thaw")]
        assert last.messages == 2
        assert abs(last.fix.offset_ns) <= last.fix.half_ns
        assert client.take_looks() == []
        assert client.residual_ns() is None

    with_agent(use)


def test_a_program_and_its_end(with_agent: Callable[[Use], None], tmp_path: Path) -> None:
    async def use(client: AgentClient) -> None:
        out, err = tmp_path / "out", tmp_path / "err"
        before = clock.ordered_ns()
        finished, stdout, stderr = await client.run(
            Command(("sh", "-c", 'pwd; echo "$X" >&2; exit 3'), env={"X": "é\n"}, cwd="/usr"),
            stdout_path=out,
            stderr_path=err,
        )
        after = clock.ordered_ns()
        assert (finished.status, finished.signal, finished.timed_out) == (3, None, False)
        assert (stdout, stderr) == (b"/usr\n", "é\n\n".encode())
        assert (out.read_bytes(), err.read_bytes()) == (stdout, stderr)
        bound = finished.clock_bound_ns
        assert before - bound <= finished.start_ns < finished.end_ns <= after + bound
        assert finished.usage is not None and finished.usage.max_rss_bytes > 0

    with_agent(use)


def test_start_at_an_instant(with_agent: Callable[[Use], None]) -> None:
    async def use(client: AgentClient) -> None:
        instant = clock.ordered_ns() + 30_000_000
        process = await client.spawn(shell("true"), at_ns=instant)
        started = await process.started()
        finished = await process.wait()
        assert finished.start_ns == started
        assert finished.late_ns >= 0
        # Rounding apart, it is late by what it says.
        assert abs(started - instant - finished.late_ns) <= finished.clock_bound_ns
        assert not process.running

    with_agent(use)


def test_a_program_that_is_not_there(with_agent: Callable[[Use], None]) -> None:
    async def use(client: AgentClient) -> None:
        with pytest.raises(AgentError) as caught:
            await client.run(Command(("no-such-program",)))
        assert caught.value.error == "exec-failed"
        assert "no-such-program" in caught.value.message
        finished, _, _ = await client.run(shell("true"))
        assert finished.status == 0

    with_agent(use)


def test_time_out_and_kill(with_agent: Callable[[Use], None]) -> None:
    async def use(client: AgentClient) -> None:
        finished, _, _ = await client.run(shell("sleep 100 & sleep 100", timeout_s=0.1))
        assert (finished.signal, finished.timed_out) == (signal.SIGKILL, True)
        process = await client.spawn(shell("trap 'exit 7' TERM; echo up; sleep 100 & wait"))
        await process.wait_for_output(b"up", 10)
        await process.kill()
        assert (await process.wait()).status == 7
        await process.kill()

    with_agent(use)


def test_a_sweep_ends_what_a_program_left(with_agent: Callable[[Use], None]) -> None:
    async def use(client: AgentClient) -> None:
        running = await client.spawn(shell("echo up; sleep 100"))
        await running.wait_for_output(b"up", 10)
        _, stdout, _ = await client.run(shell("setsid sleep 100 >/dev/null 2>&1 & echo $!"))
        assert alive(int(stdout))
        assert await client.sweep() == 1
        assert not alive(int(stdout))
        assert await client.sweep() == 0
        assert running.running
        await running.kill(signal.SIGKILL)
        await running.wait()

    with_agent(use)


def test_cancelling_kills(with_agent: Callable[[Use], None], tmp_path: Path) -> None:
    async def use(client: AgentClient) -> None:
        out = tmp_path / "pid"
        running = asyncio.ensure_future(client.run(shell("echo $$; sleep 100"), stdout_path=out))
        while not out.exists() or not out.read_text():  # the test's own deadline ends this
            await asyncio.sleep(0.01)
        running.cancel()
        await asyncio.wait((running,))
        assert running.cancelled()
        pid = int(out.read_text())
        while alive(pid):
            await asyncio.sleep(0.01)
        assert (await client.run(shell("true")))[0].status == 0

    with_agent(use)


def test_much_output(with_agent: Callable[[Use], None], tmp_path: Path) -> None:
    async def use(client: AgentClient) -> None:
        size = 5 * CREDIT
        process = await client.spawn(
            Command(("head", "-c", str(size), "/dev/zero")),
            stdout_path=tmp_path / "out",
            keep_bytes=1000,
        )
        assert (await process.wait()).status == 0
        assert (tmp_path / "out").stat().st_size == size
        assert process.stdout == bytes(1000)
        assert not process.complete

    with_agent(use)


def test_many_at_once(with_agent: Callable[[Use], None]) -> None:
    async def use(client: AgentClient) -> None:
        commands = (Command(("echo", str(i))) for i in range(40))
        results = await asyncio.gather(*(client.run(command) for command in commands))
        assert [stdout for _, stdout, _ in results] == [f"{i}\n".encode() for i in range(40)]

    with_agent(use)


def test_waiting_for_output(with_agent: Callable[[Use], None]) -> None:
    async def use(client: AgentClient) -> None:
        process = await client.spawn(shell("echo -n rea; sleep 0.1; echo dy; exec sleep 100"))
        await process.wait_for_output(b"ready\n", 10)
        await process.wait_for_output(b"ready", 0.1)
        with pytest.raises(UllageError, match=r"0.1 s have passed") as caught:
            await process.wait_for_output(b"never", 0.1)
        assert caught.value.kind is errors.AGENT_NOT_READY
        ended = await client.spawn(shell("exit 4"))
        with pytest.raises(UllageError, match="it ended with status 4"):
            await ended.wait_for_output(b"ready", 10)

    with_agent(use)


def test_files_there_and_back(with_agent: Callable[[Use], None], tmp_path: Path) -> None:
    async def use(client: AgentClient) -> None:
        data = os.urandom(3 * CREDIT + 17)
        await client.put(data, str(tmp_path / "a"), 0o750)
        assert (tmp_path / "a").read_bytes() == data
        assert (tmp_path / "a").stat().st_mode & 0o777 == 0o750
        await client.put(tmp_path / "a", str(tmp_path / "b"))
        assert await client.get(str(tmp_path / "b")) == data
        await client.put(b"", str(tmp_path / "empty"))
        assert await client.get(str(tmp_path / "empty")) == b""
        with pytest.raises(AgentError, match="longer than 1000B"):
            await client.get(str(tmp_path / "b"), limit=1000)
        with pytest.raises(AgentError, match="No such file"):
            await client.get(str(tmp_path / "c"))
        with pytest.raises(AgentError, match="could not put"):
            await client.put(data, str(tmp_path / "no" / "where"))
        # A refused file leaves the credit as it was.
        for _ in range(3):
            await client.put(data, str(tmp_path / "a"))

    with_agent(use)


def test_sample(with_agent: Callable[[Use], None]) -> None:
    async def use(client: AgentClient) -> None:
        numbers = await client.sample()
        assert numbers["memory"]["MemTotal"] > 0
        assert numbers["cpu"]["hz"] > 0

    with_agent(use)


@pytest.mark.parametrize("how", ["bye", "close"])
def test_the_end_ends_everything(agent_binary: Path, how: str) -> None:
    async def main() -> None:
        client = await AgentClient.launch([str(agent_binary), "serve"], deadline_s=10)
        process = await client.spawn(shell("setsid sleep 100 & echo $! $$; wait"))
        await process.wait_for_output(b"\n", 10)
        pids = [int(word) for word in process.stdout.split()]
        pids += [int(client.facts["pid"]), client.pid or 0]
        assert all(map(alive, pids))
        await getattr(client, how)()
        assert client.closed
        try:
            done = await process.wait()
        except UllageError as error:
            assert error.kind is errors.AGENT_LOST
        else:  # it is killed while the channel is still open: the news may come through
            assert done.signal == signal.SIGKILL
        while any(map(alive, pids)):
            await asyncio.sleep(0.01)
        await client.bye()
        await client.close()

    asyncio.run(asyncio.wait_for(main(), 30))


def test_a_killed_agent_is_lost_at_once(with_agent: Callable[[Use], None]) -> None:
    async def use(client: AgentClient) -> None:
        process = await client.spawn(shell("sleep 100"))
        await process.started()
        os.kill(client.facts["pid"], signal.SIGKILL)
        with pytest.raises(UllageError, match="it closed its channel") as caught:
            await process.wait()
        assert caught.value.kind is errors.AGENT_LOST
        assert client.closed

    with_agent(use)


def test_a_transport_that_fails(tmp_path: Path) -> None:
    async def main(argv: list[str]) -> None:
        await AgentClient.launch(argv, deadline_s=3, stderr=tmp_path / "log", name="vm-0")

    with pytest.raises(UllageError) as caught:
        asyncio.run(main(["sh", "-c", "echo no route >&2; exit 1"]))
    assert caught.value.kind is errors.AGENT_NOT_STARTED
    assert "vm-0" in caught.value.message
    assert "it said: no route" in caught.value.message
    assert (tmp_path / "log").read_text() == "no route\n"
    with pytest.raises(UllageError, match="No such file"):
        asyncio.run(main(["/no/such/transport"]))


def test_a_transport_that_hangs_is_killed(tmp_path: Path) -> None:
    pid_file = tmp_path / "pids"

    async def main() -> None:
        script = f"sleep 100 & echo $$ $! > {pid_file}; echo stuck >&2; wait"
        await AgentClient.launch(["sh", "-c", script], deadline_s=3)

    with pytest.raises(UllageError, match=r"no hello within 3 s; it said: stuck"):
        asyncio.run(main())
    deadline = time.monotonic() + 60  # a killed process takes a moment
    while any(alive(int(pid)) for pid in pid_file.read_text().split()):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_talkative_transport_fills_no_disk(agent_binary: Path, tmp_path: Path) -> None:
    script = "import sys, os; sys.stderr.write('x' * 3_000_000 + 'end'); sys.stderr.flush(); "
    script += f"os.execv({str(agent_binary)!r}, ['ullage-agent', 'serve'])"

    async def main() -> None:
        log = tmp_path / "log"
        client = await AgentClient.launch([sys.executable, "-c", script], deadline_s=20, stderr=log)
        await client.bye()
        assert log.stat().st_size == 1024 * 1024

    asyncio.run(main())


def test_the_binary_can_be_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    binary_ = tmp_path / "agent"
    monkeypatch.setenv("ULLAGE_AGENT", str(binary_))
    with pytest.raises(UllageError) as caught:
        agent.binary()
    assert caught.value.kind is errors.AGENT_BINARY_MISSING
    binary_.write_bytes(b"")
    binary_.chmod(0o755)
    assert agent.binary() == binary_
