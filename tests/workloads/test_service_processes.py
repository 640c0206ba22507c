"""What all processes of a service used: masters with workers, workers that come and go."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.workloads.servicekit import SERVICE, outputs
from tests.workloads.workload_runs import free_port
from ullage.workloads.web.service import ServiceParameters

WORKERS = 4
CPU_S = 0.005
"""Of each request, in the worker."""
MEMORY = 24 << 20
"""Of each worker, beside what Python has."""

PREFORK = f"""\
import http.server, os, signal, socket, sys, time

port, most, manner = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]


class Handler(http.server.BaseHTTPRequestHandler):
    served = 0

    def do_GET(self):
        end = time.process_time() + {CPU_S}
        while time.process_time() < end:
            pass
        self.wfile.write(b"HTTP/1.0 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nhi")
        Handler.served += 1

    def log_message(self, *_):
        pass


def work(listener):
    held = b"x" * {MEMORY}
    server = http.server.HTTPServer(("", 0), Handler, bind_and_activate=False)
    server.socket.close()
    server.socket = listener
    while Handler.served < most:
        server.handle_request()
    os._exit(len(held) % 2)


listener = socket.create_server(("127.0.0.1", port), backlog=64)
if manner == "ignores":
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
alive = 0
while True:
    while alive < {WORKERS}:
        if os.fork() == 0:
            work(listener)
        alive += 1
    if manner == "ignores":
        time.sleep(0.01)
        alive = len(open(f"/proc/self/task/{{os.getpid()}}/children").read().split())
    else:
        os.wait()
        alive -= 1
"""


def trial(folder: Path, most: int, manner: str = "waits") -> tuple[dict[str, Any], dict[str, Any]]:
    """Its figures, and what the minder printed; a worker ends after so many requests."""
    (folder / "prefork.py").write_text(PREFORK)
    port = free_port()
    chosen = ServiceParameters.model_validate(
        {
            "argv": [
                sys.executable,
                "-S",
                str(folder / "prefork.py"),
                str(port),
                str(most),
                manner,
            ],
            "port": port,
            "client": "beside",
            "keep_alive": False,
            "rate": 60,
            "time_s": 2,
            "deadline_s": 60,
            "late_limit_s": 60,
            "ready_s": 120,
        }
    )
    printed = outputs(chosen, folder)
    SERVICE.check(chosen, printed)
    served = json.loads(printed["server"].stdout.splitlines()[1])
    return SERVICE.parse(chosen, printed), served


@pytest.mark.parametrize("most", [1_000_000, 5])
def test_all_workers_are_counted_also_those_that_are_replaced(tmp_path: Path, most: int) -> None:
    figures, served = trial(tmp_path, most)
    assert CPU_S <= figures["server_cpu_per_reply"] <= 4 * CPU_S
    assert served["processes"] >= WORKERS
    assert figures["server_peak_memory"] >= (WORKERS - 1) * MEMORY


def test_what_nobody_waited_for_is_not_known_and_so_no_figure(tmp_path: Path) -> None:
    """The kernel adds a child's CPU time to that of who waits for it, and else to nobody's."""
    figures, _ = trial(tmp_path, 5, "ignores")
    assert "server_cpu_per_reply" not in figures
    assert "server_cpu" not in figures
    assert figures["server_peak_memory"] > 0
