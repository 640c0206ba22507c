"""The `wine` provider, with Wine and the agent for Windows themselves."""

import asyncio
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.environments import containerkit as kit
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.environments import wine
from ullage.environments.agent import client
from ullage.environments.agent.client import AgentError, Command
from ullage.environments.wine import Wine, WineOptions

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("agent_binary")]


@pytest.fixture
def provider() -> Wine:
    return Wine(WineOptions())


def test_it_says_what_it_is_not(provider: Wine) -> None:
    assert provider.label() == "wine (not Windows)"
    assert "not Windows" in (provider.userland() or "")
    assert "not Windows" in provider.treatments()["system"]


def test_without_wine_or_its_agent_it_is_refused(
    provider: Wine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as absent:
        absent.setattr(wine, "PLACES", ("no-such-wine",))
        with pytest.raises(UllageError) as refused:
            asyncio.run(provider.check())
        assert refused.value.kind == errors.HOST_MISSING
    monkeypatch.setattr(client, "WINDOWS_BINARY", Path("/no/such/agent.exe"))
    with pytest.raises(UllageError) as refused:
        asyncio.run(provider.check())
    assert refused.value.kind == errors.AGENT_BINARY_MISSING


def test_a_plain_user_is_refused(provider: Wine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(UllageError) as refused:
        asyncio.run(provider.check())
    assert refused.value.kind == errors.HOST_NEEDS_ROOT


async def see_programs(provider: Wine, text: Path) -> None:
    await provider.check()
    async with kit.running(provider) as run:
        spec = replace(run.spec(), image=None, network=None)
        instance = await run.create(spec)
        agent = instance.agent
        assert str(agent.facts["os"]).endswith("(not Windows)")
        assert not agent.clock_claims.shared
        done, out, _ = await agent.run(Command(("cmd", "/c", "echo", "hi"), cwd="C:/"))
        assert (done.status, out) == (0, b"hi\r\n")
        assert done.usage is None, "Wine does not count it, so nobody says that it was nothing"
        with pytest.raises(AgentError, match="exec"):
            await agent.run(Command(("no-such-program",), cwd="C:/"))
        with pytest.raises(AgentError, match="cwd"):
            await agent.run(Command(("cmd",), cwd="C:/no such place"))
        await instance.freeze()
        await instance.thaw()
        await agent.put(text, "C:/ümlaut.txt", 0o644)
        assert await agent.get("C:\\ümlaut.txt", 100) == text.read_bytes()
        for path in ("/etc/passwd", "C:x", r"\\.\NUL", r"\\?\GLOBALROOT\Device\Null", r"C:\NUL"):
            with pytest.raises(AgentError, match="no absolute path"):
                await agent.get(path, 100)
            with pytest.raises(AgentError, match="no absolute path"):
                await agent.put(b"x", path)
        await agent.put(b"1", "C:\\windows\\..\\up.txt")
        assert await agent.get("C:/up.txt", 100) == b"1"
        wide = await agent.run(Command(("cmd", "/u", "/c", "echo", "é漢"), cwd="C:/"))
        assert wide[1].decode("utf-16-le") == "é漢\r\n"
        narrow = await agent.run(Command(("cmd", "/c", "echo", "é"), cwd="C:/"))
        assert narrow[1].endswith(b"\r\n") and narrow[1].strip() != b"", "of whatever code page"
        await instance.destroy()
        assert not spec.data_dir.exists()


def test_an_instance_runs_programs_for_windows(provider: Wine, tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_bytes(b"one\r\ntwo\xff\n")
    asyncio.run(see_programs(provider, text))


def test_the_loader_is_looked_for_where_debian_puts_it() -> None:
    assert shutil.which(wine.program()) is not None
