"""What an instance says over ssh has an end, whoever has become root in it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ullage.common import commands
from ullage.environments.clouds.calls import Deadline
from ullage.environments.clouds.ssh import Shell, ShellError

SHELL = Shell("c-0", "127.0.0.1", "root", Path("key"), Path("hosts"))


def refused(timeout_s: float) -> str:
    async def run() -> None:
        async with asyncio.timeout(60):
            await SHELL.run(["true"], timeout_s=timeout_s)

    with pytest.raises(ShellError) as caught:
        asyncio.run(run())
    return caught.value.reason


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    program = tmp_path / "ssh"
    program.touch(mode=0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return program


def test_who_complains_for_ever_is_ended_at_the_deadline(ssh: Path) -> None:
    ssh.write_text("#!/bin/sh\nexec yes >&2\n")
    assert refused(1.0) == "not done after 1.0 s"


def test_what_it_prints_has_a_bound(ssh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "MOST_BYTES", 1 << 20)
    ssh.write_text("#!/bin/sh\nexec yes\n")
    assert refused(30.0) == "it printed over 1MiB"


def test_what_is_fetched_has_a_bound(ssh: Path, tmp_path: Path) -> None:
    scp, target = ssh.with_name("scp"), tmp_path / "back"
    scp.write_text(f"#!/bin/sh\nexec dd if=/dev/zero of={target} bs=64K count=80 status=none\n")
    scp.chmod(0o755)
    for most_bytes in (1 << 20, 8 << 20):
        fetching = SHELL.copy_from("there", target, most_bytes, Deadline(30.0))
        if most_bytes < 80 << 16:
            with pytest.raises(ShellError):
                asyncio.run(fetching)
            assert target.stat().st_size == most_bytes
        else:
            asyncio.run(fetching)
            assert target.stat().st_size == 80 << 16


def test_of_its_complaints_the_end_is_kept(ssh: Path) -> None:
    ssh.write_text("#!/bin/sh\nyes | head -c 1000000 >&2\necho the end >&2\nexit 7\n")
    assert refused(30.0).endswith("the end")
