"""`connections` over this host's loopback, with the real program."""

import json
import os
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.workloads.connectionskit import CONNECTIONS, USAGE, checked, outputs_of, recorded
from tests.workloads.workload_runs import context_in, free_port
from ullage.host import binaries
from ullage.workloads.base import InvalidTrialError, Output, Task
from ullage.workloads.network.connections import ConnectionsParameters
from ullage.workloads.network.load_report import PROGRAM

needs_program = pytest.mark.skipif(
    not (binaries.DIRECTORY / PROGRAM).is_file(), reason="`make programs` builds it"
)


class Pair:
    """The real server and client, in a directory that has the program."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        shutil.copy(binaries.program(PROGRAM), directory / PROGRAM)

    def start(self, task: Task) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            task.argv,
            cwd=self.directory,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, parameters: ConnectionsParameters) -> dict[str, Output]:
        server, client = CONNECTIONS.tasks(
            parameters, context_in(self.directory, CONNECTIONS, parameters)
        )
        listening = self.start(server)
        try:
            assert listening.stderr is not None
            assert server.ready is not None
            assert server.ready in listening.stderr.readline()
            connecting = self.start(client)
            printed = connecting.communicate(timeout=30)
            listening.send_signal(signal.SIGTERM)
            heard = listening.communicate(timeout=30)
        finally:
            listening.kill()
            listening.wait()
        return {
            "client": Output(connecting.returncode, None, *printed, 1.0, USAGE),
            "server": Output(listening.returncode, None, *heard, 1.0, USAGE),
        }


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    with TemporaryDirectory() as name:
        yield Pair(Path(name))


@needs_program
@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"echo": True, "threads": 3},
        {"close": "reset", "echo": True},
        {"close": "client", "rate": 300.0, "spacing": "constant", "late_limit_s": 10.0},
        {"echo": True, "connections": 37},
    ],
)
def test_real_connections(pair: Pair, fields: dict[str, Any]) -> None:
    parameters = ConnectionsParameters(time_s=0.2, port=free_port(), **fields)
    outputs = pair.run(parameters)
    figures = checked(parameters, outputs)
    if "connections" in fields:
        assert json.loads(outputs["client"].stdout)["completed"] == 37
    if "rate" in fields:  # every instant of a constant schedule: 0.2 s at 300/s
        assert json.loads(outputs["client"].stdout)["started"] == 60
    assert figures["median_connect"] <= dict(figures["latency"])[0.5] * 1.01


@needs_program
def test_any_web_server_can_be_asked(pair: Pair) -> None:
    """For the benchmark beside wrk; what is no good answer is an error."""
    answers = {
        "/good": b"HTTP/1.1 200 OK\r\n\r\n" + bytes(40_000),
        "/bad": b"HTTP/1.1 404 No\r\n\r\n",
    }
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

        def serve() -> None:
            for _ in range(6):
                with listener.accept()[0] as connection:
                    path = connection.recv(4096).split()[1].decode()
                    connection.sendall(answers[path])

        thread = threading.Thread(target=serve)
        thread.start()
        argv = [f"./{PROGRAM}", "connect", f"127.0.0.1:{port}", "--connections", "3", "--get"]
        fields = {
            path: json.loads(
                subprocess.run(
                    [*argv, path], cwd=pair.directory, capture_output=True, check=True
                ).stdout
            )
            for path in answers
        }
        thread.join()
    assert fields["/good"]["completed"] == 3
    assert fields["/bad"]["errors"]["not-as-agreed"] == 3


@needs_program
def test_nobody_listens(pair: Pair) -> None:
    parameters = ConnectionsParameters(time_s=0.1, port=free_port())
    _, client = CONNECTIONS.tasks(parameters, context_in(pair.directory, CONNECTIONS, parameters))
    printed, _ = pair.start(client).communicate(timeout=30)
    outputs = outputs_of(printed, recorded("closed")[1]["server"].stdout)
    with pytest.raises(InvalidTrialError, match=r"connections failed: [0-9]+ refused"):
        CONNECTIONS.check(parameters, outputs)


@needs_program
def test_a_client_outlives_its_server(pair: Pair) -> None:
    parameters = ConnectionsParameters(time_s=5, port=free_port(), echo=True)
    server, client = CONNECTIONS.tasks(
        parameters, context_in(pair.directory, CONNECTIONS, parameters)
    )
    listening, connecting = pair.start(server), None
    try:
        assert listening.stderr is not None
        listening.stderr.readline()
        connecting = pair.start(client)
        with pytest.raises(subprocess.TimeoutExpired):
            connecting.wait(0.15)
    finally:
        listening.kill()
        listening.communicate()
    printed, _ = connecting.communicate(timeout=30)
    outputs = outputs_of(printed, recorded("closed")[1]["server"].stdout)
    with pytest.raises(InvalidTrialError, match=r"connections failed: .*[0-9]+ re(fused|set)"):
        CONNECTIONS.check(parameters, outputs)


@needs_program
def test_too_few_ports_are_told_before_the_start(pair: Pair) -> None:
    parameters = ConnectionsParameters(time_s=60, rate=5000.0, close="client", port=free_port())
    _, client = CONNECTIONS.tasks(parameters, context_in(pair.directory, CONNECTIONS, parameters))
    # 60 s, unless the kernel lets ports of the loopback be had again after one.
    argv = [arg.replace("127.0.0.1", "192.0.2.1") for arg in client.argv]
    client = replace(client, argv=tuple(argv))
    refusing = pair.start(client)
    _, printed = refusing.communicate(timeout=30)
    if Path("/proc/sys/net/ipv4/tcp_tw_reuse").read_text().strip() == "1":
        pytest.skip("this host lets ports be had again at once")
    assert refusing.returncode == 3
    assert "ports are needed" in printed
    assert "RLIMIT" not in printed


@needs_program
def test_too_few_descriptors_are_told_before_the_start(pair: Pair) -> None:
    argv = ["prlimit", "--nofile=24:24", f"./{PROGRAM}", "connect", "127.0.0.1:9"]
    done = subprocess.run(
        [*argv, "--threads", "32"],
        cwd=pair.directory,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ},
    )
    assert done.returncode == 3
    assert done.stderr == (
        "error: 48 descriptors are needed, RLIMIT_NOFILE allows 24: use fewer threads, or raise "
        "the limit\n"
    )
    assert done.stdout == ""
