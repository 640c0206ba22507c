"""A whole plan with an instance of OpenStack: what it tells nobody."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from testing.clouds import openstack as double
from tests.environments.clouds import cloudkit
from tests.lab.traces import left_by
from ullage.runs.reader import RunFolder

pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.usefixtures("agent_binary")]

LISTENED = """import sys
log = open(sys.argv.pop(1), "a", buffering=1)
def hear(event, words):
    if event in ("subprocess.Popen", "os.posix_spawn", "os.exec", "os.system"):
        print(event, words[:2], file=log)
sys.addaudithook(hear)
from ullage.cli.main import main
main()
"""
"""The command, which writes down the arguments of every process that it starts itself."""


@contextmanager
def watched() -> Iterator[set[bytes]]:
    """The command lines of all processes of this host meanwhile, as far as they last."""
    lines: set[bytes] = set()
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.02):
            for process in Path("/proc").glob("[0-9]*"):
                with suppress(OSError):
                    lines.add((process / "cmdline").read_bytes())

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield lines
    finally:
        over.set()
        thread.join()


def written(place: Path, stack: double.OpenStackDouble) -> Path:
    """The plan's file, in a directory of its own."""
    place.mkdir()
    cloud = json.dumps(stack.plan(network="prov"))
    (place / "plan.yaml").write_text(cloudkit.PLAN.format(cpus=stack.cpus, cloud=cloud))
    return place / "plan.yaml"


def test_neither_password_nor_token_is_told(stack: double.OpenStackDouble, tmp_path: Path) -> None:
    file, log = written(tmp_path / "here", stack), tmp_path / "started"
    argv = [sys.executable, "-c", LISTENED, str(log), "run", str(file)]
    with watched() as lines:
        done = subprocess.run(
            [*argv, "--runs", str(file.parent / "runs")], capture_output=True, check=False
        )
    assert done.returncode == 0, done.stderr
    assert not left_by(file.parent / "runs")
    assert stack.left() == []
    (folder,) = (file.parent / "runs").iterdir()
    trials = RunFolder.open(folder).trials
    assert [trial.status for trial in trials if trial.environment == "cloud"] == ["ok"] * 3
    started = log.read_bytes()
    assert b"ssh-keygen" in started and b"ServerAliveInterval" in started
    assert any(str(file).encode() in line for line in lines)
    files = [file for file in file.parent.rglob("*") if file.is_file()]
    everything = [done.stdout, done.stderr, started, *lines, *(f.read_bytes() for f in files)]
    assert stack.tokens
    for secret in (double.PASSWORD, *stack.tokens):
        assert not [text[:200] for text in everything if secret.encode() in text]
    assert not [f for f in files if b"PRIVATE KEY" in f.read_bytes()]
