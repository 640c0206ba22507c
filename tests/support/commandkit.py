"""`ullage …` as tests run it: in this process, or in one that has all modules loaded already.

To import them takes a second, and there are hundreds of such tests.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from ullage.cli import main

CHECKOUT: Final = Path(__file__).parents[2]
LOADED: Final = (
    "ullage.cli.main",
    "ullage.report.page",
    "ullage.report.pictures",
    "ullage.report.energy_table",
    "ullage.cli.output.dryrun",
    "ullage.cli.output.meter_readings",
    "ullage.cli.output.compare",
    "ullage.cli.output.profile",
    "ullage.cli.output.weigh",
    "ullage.nodes.doctor",
    "ullage.engine.engine",
    "ullage.analysis.sentences",
    "ullage.analysis.runchanges",
)


@dataclass(frozen=True)
class Done:
    """How a command ended, and what it said."""

    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        return json.loads(self.stdout)


Ullage = Callable[..., Done]


def in_this_process(command: str) -> Any:
    """A fixture: `ullage COMMAND` in the test's own directory, open to monkeypatching."""

    @pytest.fixture
    def ullage(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> Ullage:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("COLUMNS", "200")
        monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")  # `compare` sets it for its process

        def run(*argv: str) -> Done:
            monkeypatch.setattr(sys, "argv", ["ullage", command, *argv])
            with pytest.raises(SystemExit) as ended:
                main.main()
            captured = capsys.readouterr()
            return Done(int(ended.value.code or 0), captured.out, captured.err)

        return run

    return ullage


def ullage(
    *argv: str,
    cwd: Path | None = None,
    module: str = "ullage.cli.main",
    timeout_s: float = 120,
    environment: Mapping[str, str] | None = None,
) -> Done:
    """A process of its own, a copy of one in which everything is imported.

    What the interpreter itself reads of the environment (its encoding, its paths) is not looked at
    again; `module`: whose `main` is run. After `timeout_s` it is killed, and the test fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder, "out"), Path(folder, "err")
        request = {
            "argv": ["ullage", *argv],
            "cwd": str(cwd or Path.cwd()),
            "environment": {**os.environ, **(environment or {})},
            "module": module,
            "out": str(out),
            "err": str(err),
            "timeout_s": timeout_s,
        }
        code = _status(request)
        done = Done(code, *(file.read_text(errors="replace") for file in (out, err)))
    assert code != -signal.SIGALRM, (argv, done)
    return done


_SERVER: list[subprocess.Popen[str]] = []


def _status(request: Mapping[str, Any]) -> int:
    if not _SERVER:
        _SERVER.append(
            subprocess.Popen(
                [sys.executable, "-m", "tests.support.commandkit"],
                cwd=CHECKOUT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        )
    (server,) = _SERVER
    assert server.stdin is not None and server.stdout is not None
    server.stdin.write(json.dumps(request) + "\n")
    server.stdin.flush()
    return int(server.stdout.readline())


def _serve() -> None:
    for module in LOADED:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()
    answers = os.dup(1)
    os.set_inheritable(answers, False)
    # Not by iteration: that reads ahead, and a copy would have what is another's.
    while line := sys.stdin.readline():
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            os.close(answers)
            _become(request)
            return
        _, status = os.waitpid(child, 0)
        os.write(answers, f"{os.waitstatus_to_exitcode(status)}\n".encode())


def _become(request: Mapping[str, Any]) -> None:
    """The command, as if this process had just been started for it."""
    for number, file, flags in (
        (0, os.devnull, os.O_RDONLY),
        (1, request["out"], os.O_WRONLY | os.O_CREAT),
        (2, request["err"], os.O_WRONLY | os.O_CREAT),
    ):
        opened = os.open(file, flags, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["cwd"])
    sys.argv = request["argv"]
    from ullage.common import console

    for printer, to_stderr in ((console.stdout, False), (console.stderr, True)):
        vars(printer).update(vars(console._console(to_stderr=to_stderr)))
    signal.setitimer(signal.ITIMER_REAL, request["timeout_s"])
    importlib.import_module(request["module"]).main()


if __name__ == "__main__":
    _serve()
