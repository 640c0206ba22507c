"""`ullage-viewers` on the clock of the process that started it, against a server of Python's."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from ullage.host import binaries, clock

BYTES = 500


class _Node(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        first, last = map(int, self.headers["Range"].removeprefix("bytes=").split("-"))
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {first}-{last}/{BYTES}")
        self.send_header("Content-Length", str(last + 1 - first))
        self.end_headers()
        self.wfile.write(bytes(last + 1 - first))

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Nothing on the test's standard error."""


@pytest.fixture
def node() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Node) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/clip"
        server.shutdown()
        thread.join()


def _run(folder: Path, config: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    path, sessions = folder / "config.json", folder / "sessions.jsonl"
    path.write_text(json.dumps(config | {"sessions": str(sessions)}), encoding="utf-8")
    argv = [str(binaries.program("ullage-viewers")), "run", "--config", str(path)]
    done = subprocess.run(argv, capture_output=True, check=True, timeout=240)
    lines = sessions.read_text(encoding="utf-8").splitlines()
    return json.loads(done.stdout), [json.loads(line) for line in lines]


def test_instants_are_those_of_the_process_that_gave_its_clock(tmp_path: Path, node: str) -> None:
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    before = clock.ordered_ns()
    summary, sessions = _run(
        tmp_path,
        {
            "nodes": [node],
            "arrivals": {"kind": "poisson", "rate_hz": 100, "count": 5},
            "video": {"bytes": BYTES, "bitrate_bps": 40_000, "chunk_bytes": 100},
            "limits": {"connect_s": 120, "silence_s": 120},
            "lateness_limit_ms": 600_000,
            "shards": 2,
            "clock": {"boot_id": boot_id, "line": clock.line().hex()},
        },
    )
    after = clock.ordered_ns()
    assert summary["outcomes"]["served"] == 5
    assert before < summary["started_ns"] < summary["ended_ns"] < after
    assert {session["client"] for session in sessions} == set(range(5))
    for session in sessions:
        names = ("due_ns", "asked_ns", "first_byte_ns", "ended_ns")
        instants = [before, *(session[name] for name in names), after]
        assert instants == sorted(instants)
        assert session["outcome"] == "served"
        assert session["bytes"] == BYTES
