"""`python -m tests.lab.chaos.fuzz PARSER …`: libFuzzer, guided by coverage, on one parser.

What stands after the name is libFuzzer's: `-runs=`, `-seed=`, folders of inputs, or an input that
failed, to repeat it. With `--serve SOCKET` it forks for each request of `fuzzing.py` instead, until
its standard input ends: to instrument all that is fuzzed takes seconds.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["ullage"], enable_loader_override=False):
    from tests.lab.chaos.fuzz.parsers import PARSERS


def fuzz(name: str, options: list[str]) -> None:
    """Never returns: libFuzzer ends the process."""
    read: Callable[[bytes], None] = PARSERS[name]
    atheris.Setup([sys.argv[0], *options], read)
    atheris.Fuzz()


def serve(place: Path) -> None:
    """Fork for each who connects."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(place.with_name("new")))
        listening.listen(64)
        place.with_name("new").rename(place)
        while listening in select.select([listening, sys.stdin], [], [])[0]:
            connection, _ = listening.accept()
            if os.fork() == 0:
                listening.close()
                answer(connection)
                os._exit(0)
            connection.close()


def answer(connection: socket.socket) -> None:
    """A request is a line of JSON, the parser's name first; the answer its exit status."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with connection, connection.makefile("rw", encoding="utf-8") as stream:
        log, name, *options = json.loads(stream.readline())
        pid = os.fork()
        if pid == 0:
            messages = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            os.dup2(messages, 1)
            os.dup2(messages, 2)
            fuzz(name, options)
        _, status = os.waitpid(pid, 0)
        stream.write(f"{os.waitstatus_to_exitcode(status)}\n")


if __name__ == "__main__":
    if sys.argv[1] == "--serve":
        serve(Path(sys.argv[2]))
    else:
        fuzz(sys.argv[1], sys.argv[2:])
