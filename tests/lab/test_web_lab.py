"""Real NGINX and Apache in real environments under all their clients; and servers that fail."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.lab.runkit import ran
from tests.workloads.workload_runs import free_port
from ullage.host import binaries

pytestmark = [pytest.mark.lab, pytest.mark.root]

PLAN = """\
name: web
baseline: native
resources: {cpus: 1, memory: 256MiB}
environments:
  native: {provider: native}
  container: {provider: oci}
blocks: {min: 1, max: 1}
workloads:
"""
# This machine may be busy: here it matters that everything works, not how late.
SOUND = """\
  - {name: wrk, as: wrk-nginx, time_s: 1}
  - {name: wrk, as: wrk-apache, time_s: 1, server: apache2, client: second, document: 100KiB}
  - {name: web-latency, as: lat-nginx, rate: 100, time_s: 1, late_limit_s: 10, deadline_s: 10}
  - name: web-latency
    as: lat-apache
    server: apache2
    port: 80
    rate: 100
    time_s: 1
    late_limit_s: 10
    deadline_s: 10
    keep_alive: false
    spacing: constant
  - {name: httperf, as: sessions, sessions: 3}
  - {name: httperf, as: rate, mode: rate, rate: 50, connections: 50, calls: 2, server: apache2}
  - name: httperf
    as: script
    mode: script
    sessions: 3
    client: second
    script:
      - [{document: 4KiB, objects: [1KiB, 2KiB, 64KiB], think_s: 0.1}, {document: 1KiB}]
      - [{document: 10KiB}]
"""
UNSOUND = """\
  - {name: web-latency, as: hurried, rate: 100, time_s: 1, late_limit_s: 10, deadline_s: 1.0e-6}
  - {name: web-latency, as: strict, rate: 100, time_s: 1, late_limit_s: 1.0e-8}
"""
# As slow as an emulated machine may be.
SLOW = "client: away, rate: 20, time_s: 3, late_limit_s: 60, deadline_s: 60"
AWAY = f"""\
  - {{name: web-latency, {SLOW}}}
  - {{name: web-latency, as: closing, server: apache2, keep_alive: false, {SLOW}}}
  - {{name: streaming, client: away, viewers: 4, bitrate: 200000, chunk: 16384, step_s: 3,
     late_limit_s: 60}}
"""
SERVER = """\
import http.server, itertools, os, sys
port, status, most = map(int, sys.argv[1:4])
body = bytes.fromhex(sys.argv[4])
numbers = itertools.count()
class One(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        if next(numbers) >= most:
            os._exit(9)
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_): pass
http.server.ThreadingHTTPServer(("127.0.0.1", port), One).serve_forever()
"""
"""Ends by itself when it has answered so often."""


def test_every_client_with_both_servers_and_what_is_not_sound(tmp_path: Path) -> None:
    folder = ran(tmp_path, PLAN + SOUND + UNSOUND, (3,))
    reasons = {t.workload: t.reason.message for t in folder.trials if t.reason}
    assert set(reasons) == {"hurried", "strict"}, reasons
    assert "'timed-out'" in reasons["hurried"] and "the generator was" in reasons["strict"]
    assert {t.environment for t in folder.trials} >= {"native", "container"}
    for trial in folder.trials:
        server = next(role for role in trial.roles if role.role == "server")
        assert server.usage is not None and server.status == 0
        if trial.workload in reasons:
            assert trial.status == "invalid" and not trial.metrics
            continue
        cpu = trial.metrics["server_cpu_per_reply"]
        assert isinstance(cpu, float) and 1e-6 < cpu < 1
        name = "Apache/" if "apache2" in server.argv else "nginx/"
        assert trial.facts["server"].startswith(name)
    assert "left-running" not in {warning.code for warning in folder.warnings}


def test_clients_and_viewers_away_from_containers_and_virtual_machines(tmp_path: Path) -> None:
    plan = PLAN.replace("{provider: oci}", "{provider: oci}\n  vm: {provider: qemu}")
    folder = ran(tmp_path, plan + AWAY)
    assert len(folder.trials) == 3 * 4
    for trial in folder.trials:
        assert trial.status == "ok", trial.reason
        server, client = (role.instance for role in trial.roles)
        environment = trial.environment.replace("~", "-")
        assert server != client
        assert {name.rpartition("-")[0] for name in (server, client)} == {environment}
        name = "viewers" if trial.workload == "streaming" else "replies_per_second"
        figure = trial.metrics[name]
        assert isinstance(figure, float) and figure > 0


def serving(
    port: int, *, status: int = 200, most: int = 1_000_000, body: bytes = bytes(8)
) -> tuple[str, ...]:
    return (sys.executable, "-c", SERVER, str(port), str(status), str(most), body.hex())


@contextmanager
def minded(port: int, *server: str, within_s: int = 100) -> Iterator[subprocess.Popen[str]]:
    argv = [str(binaries.program("ullage-load")), "serve", "--address", f"127.0.0.1:{port}"]
    argv += ["--path", "/8", "--bytes", "8", "--within-s", str(within_s), "--", *server]
    with subprocess.Popen(argv, stdout=-1, stderr=-1, text=True) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)


def test_a_server_that_never_listens_is_ended() -> None:
    seconds = str(random.randrange(10**5, 10**9))  # tells our sleep from everybody else's
    with minded(free_port(), "sleep", seconds, within_s=1) as process:
        _, complaint = process.communicate(timeout=300)
    assert process.returncode == 1 and "no answer within 1 s" in complaint
    assert subprocess.run(["pgrep", "-fx", f"sleep {seconds}"], check=False).returncode == 1


def test_a_server_that_answers_wrongly_is_not_up() -> None:
    port = free_port()
    with minded(port, *serving(port, status=503)) as process:
        _, complaint = process.communicate(timeout=300)
    assert process.returncode == 1 and 'it answers "HTTP/1.1 503' in complaint


def test_a_port_that_is_taken() -> None:
    port = free_port()
    with minded(port, *serving(port)) as first:
        assert first.stdout is not None and "listening" in first.stdout.readline()
        with minded(port, "true") as second:
            _, complaint = second.communicate(timeout=300)
    assert second.returncode == 1 and f"127.0.0.1:{port} is taken by" in complaint


def test_a_client_outlives_its_server(tmp_path: Path) -> None:
    port, load = free_port(), str(binaries.program("ullage-load"))
    subprocess.run([load, "place", "--document", "8=8"], cwd=tmp_path, check=True)
    ask = [load, "http", f"127.0.0.1:{port}", "--path", "/8", "--bytes", "8"]
    ask += ["--rate", "200", "--time", "1", "--deadline", "20", "--late-limit", "10"]
    server = serving(port, most=20, body=(tmp_path / "8").read_bytes())
    with minded(port, *server) as process:
        assert process.stdout is not None and "listening" in process.stdout.readline()
        client = subprocess.run(ask, capture_output=True, text=True, check=True)
        _, complaint = process.communicate(timeout=300)
    assert process.returncode == 1 and "it ended by itself" in complaint
    result = json.loads(client.stdout)
    assert 0 < result["answered"] < 20 and result["errors"]["refused"] > 0
    assert result["answered"] + sum(result["errors"].values()) == result["due"]
