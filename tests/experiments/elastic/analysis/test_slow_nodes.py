"""A node that lives and answers, but slowly: it is not lost, and every picture stands still."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.experiments.elastic.stagekit import Stage
from ullage.experiments.elastic.folder import Lost, Ready, ViewerSession

SLOW = """
import http.server, json, re, sys, time
SIZE, REST_S = int(sys.argv[1]), float(sys.argv[2])
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        span = re.fullmatch(r"bytes=([0-9]+)-([0-9]+)", self.headers.get("Range", ""))
        first, last = map(int, span.groups()) if span else (0, SIZE - 1)
        last = min(last, SIZE - 1)
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {first}-{last}/{SIZE}")
        self.send_header("Content-Length", str(last - first + 1))
        self.end_headers()
        piece = SIZE // 10
        for at in range(first, last + 1, piece):
            time.sleep(REST_S)
            self.wfile.write(b"x" * min(piece, last + 1 - at))
    def log_message(self, *_):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(json.dumps({"listening": "127.0.0.1:%d" % server.server_port}), flush=True)
server.serve_forever()
"""
"""A tenth of the film at a time, after so many seconds."""


def test_a_node_that_answers_slowly_is_no_lost_node(built: None, tmp_path: Path) -> None:
    """It streams at a third of the film's rate."""
    stage = Stage(tmp_path, viewers=4)
    stage.nodes.argv = (sys.executable, "-c", SLOW, "10000", "0.3")
    outcome = stage.play().outcome
    assert (outcome.status, outcome.reason, outcome.notes) == ("ok", None, ())
    assert stage.acts(Lost) == []
    assert len({act.node for act in stage.acts(Ready)}) == len(stage.nodes.running) >= 2
    sessions = [ViewerSession.model_validate(record) for record in stage.sessions]
    assert len(sessions) == 4
    for session in sessions:
        assert (session.outcome, session.why, session.bytes) == ("served", None, 10_000)
        assert session.was_affected
        stood_ns = sum(record.length_ns for record in session.violations)
        # The second half of the film takes 1.5 s to come, and the first plays for half a second.
        assert stood_ns > 0.9e9
