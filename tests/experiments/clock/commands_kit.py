"""What the tests of `ullage clock …` share: the command as a process, and servers."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import jsonschema

from tests.support import commandkit
from tests.support.commandkit import Done
from ullage.common import errors
from ullage.common.clock_model import FrozenModel

KEY = "000102030405060708090a0b0c0d0e0f"


def ullage(*argv: str, **environment: str) -> Done:
    return commandkit.ullage("clock", *argv, environment=environment)


@contextmanager
def served(*argv: str, **environment: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A server in a process of its own, and where it listens."""
    process = subprocess.Popen(
        [sys.executable, "-m", "ullage", "clock", "serve", "127.0.0.1:0", *argv],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | environment,
    )
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert line.startswith("serving the clock at "), line
        yield line.removeprefix("serving the clock at ").partition(";")[0], process
    finally:
        process.kill()
        process.communicate()


def end(process: subprocess.Popen[str]) -> str:
    process.send_signal(signal.SIGTERM)
    stdout, stderr = process.communicate(timeout=30)
    assert process.returncode == 0, stderr
    return stdout


def valid(model: type[FrozenModel], text: str) -> None:
    """JSON that the model's own JSON Schema allows, and that holds nothing else."""
    jsonschema.validate(json.loads(text), model.model_json_schema(mode="serialization"))


def assert_failed(done: Done, kind: errors.ErrorKind) -> None:
    assert done.code == kind.exit_code, done.stderr
    assert f"error[{kind.code}]" in done.stderr
    assert "hint:" in done.stderr
    assert done.stdout == ""
