"""What a service is asked, by a server that writes down what came."""

import base64
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from tests.workloads.servicekit import SERVICE, invalid, outputs
from tests.workloads.workload_runs import context_in, free_port, printing
from ullage.workloads.base import Context
from ullage.workloads.web.service import ServiceParameters

RECORDER = """\
import base64, http.server, json, sys

journal = open(sys.argv[2], "a", buffering=1)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def handle_one(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        seen = [self.command, self.path, self.headers.items(), base64.b64encode(body).decode()]
        journal.write(json.dumps(seen) + "\\n")
        self.wfile.write(b"HTTP/1.1 201 Created\\r\\nContent-Length: 0\\r\\n\\r\\n")

    do_GET = do_POST = do_PURGE = do_HEAD = handle_one

    def log_message(self, *_):
        pass


http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def parameters(folder: Path, **fields: Any) -> ServiceParameters:
    script, port = folder / "recorder.py", free_port()
    script.write_text(RECORDER)
    argv = [sys.executable, "-S", str(script), str(port), str(folder / "journal")]
    usual = {"rate": 100, "time_s": 0.3, "deadline_s": 60, "late_limit_s": 60, "ready_s": 120}
    return ServiceParameters.model_validate(
        {"argv": argv, "port": port, "client": "beside", "status": 201, **usual} | fields
    )


def context(folder: Path, chosen: ServiceParameters) -> Context:
    return context_in(folder, SERVICE, chosen)


def journal(folder: Path) -> list[tuple[str, str, dict[str, str], bytes]]:
    """Method, path, headers and body of each request."""
    lines = (folder / "journal").read_text().splitlines()
    return [
        (method, path, {name.lower(): value for name, value in headers}, base64.b64decode(body))
        for method, path, headers, body in map(json.loads, lines)
    ]


def test_every_request_has_its_method_its_headers_and_its_body(tmp_path: Path) -> None:
    body = '{"item": "Käse", "n": 2}'
    headers = {"Content-Type": "application/json", "Authorization": "Bearer a b", "Host": "shop"}
    chosen = parameters(tmp_path, method="POST", path="/orders?a=1", headers=headers, body=body)
    printed = outputs(chosen, tmp_path)
    SERVICE.check(chosen, printed)
    answered = json.loads(printed["client"].stdout)["answered"]
    requests = journal(tmp_path)
    assert len(requests) == answered > 0
    expected = {name.lower(): value for name, value in headers.items()}
    expected["content-length"] = str(len(body.encode()))
    assert requests == [("POST", "/orders?a=1", expected, body.encode())] * answered
    for field, other in (("method", "GET"), ("body_bytes", 3), ("status", 200)):
        report = json.loads(printed["client"].stdout) | {field: other}
        assert "asked for" in invalid(chosen, printing(printed, "client", json.dumps(report)))


def test_a_secret_is_no_argument_of_a_program(tmp_path: Path) -> None:
    """Everybody sees these in the process list, and the run's journal keeps them."""
    headers = {"Authorization": "Bearer hidden-1", "Host": "shop"}
    chosen = parameters(tmp_path, method="POST", headers=headers, body="hidden-2", ready="/up")
    tasks = SERVICE.tasks(chosen, context(tmp_path, chosen))
    assert not any("hidden" in argument for task in tasks for argument in task.argv)
    SERVICE.check(chosen, outputs(chosen, tmp_path))
    assert {sent for *_, sent in journal(tmp_path)} == {b"", b"hidden-2"}


def test_it_is_ready_when_the_requests_headers_are_welcome(tmp_path: Path) -> None:
    """A service of a name, or behind a token, refused whom it did not know, and never got ready."""
    headers = {"Authorization": "Bearer a", "Host": "shop"}
    chosen = parameters(tmp_path, ready="/up", headers=headers)
    SERVICE.check(chosen, outputs(chosen, tmp_path))
    method, path, sent, _ = journal(tmp_path)[0]
    assert (method, path) == ("GET", "/up")
    expected = {name.lower(): value for name, value in headers.items()}
    assert sent == expected | {"connection": "close"}


def test_the_server_is_not_given_what_is_asked_of_it(tmp_path: Path) -> None:
    look = "import os; assert 'ULLAGE_HEADER_0' not in os.environ\n"
    chosen = parameters(tmp_path, ready="/up", headers={"X-Key": "a"})
    script = tmp_path / "recorder.py"
    script.write_text(look + script.read_text())
    minder, _ = SERVICE.tasks(chosen, context(tmp_path, chosen))
    assert minder.env == {"ULLAGE_HEADER_0": "X-Key: a"}
    SERVICE.check(chosen, outputs(chosen, tmp_path))


def test_a_body_from_a_file_is_sent_as_it_is(tmp_path: Path) -> None:
    body = bytes(range(256)) * 1000
    (tmp_path / "picture").write_bytes(body)
    chosen = parameters(tmp_path, method="POST", body_file=str(tmp_path / "picture"))
    printed = outputs(chosen, tmp_path)
    SERVICE.check(chosen, printed)
    assert {sent for *_, sent in journal(tmp_path)} == {body}


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    chosen = parameters(tmp_path, method="POST", body_file="/nonexistent")
    printed = outputs(chosen, tmp_path)
    assert "status 2" in invalid(chosen, printed)
    assert "/nonexistent: No such file" in printed["client"].stderr


@pytest.mark.parametrize("method", ["HEAD", "PURGE", "POST"])
def test_a_request_may_have_no_body(tmp_path: Path, method: str) -> None:
    chosen = parameters(tmp_path, method=method, keep_alive=False)
    SERVICE.check(chosen, outputs(chosen, tmp_path))
    sent, _, headers, body = journal(tmp_path)[0]
    assert (sent, headers["connection"], body) == (method, "close", b"")
    assert headers["host"] == f"127.0.0.1:{chosen.port}"
    assert headers.get("content-length") == ("0" if method == "POST" else None)


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"method": "get"}, "pattern"),
        ({"method": "CONNECT"}, "no answers of HTTP"),
        ({"headers": {"a b": "c"}}, "pattern"),
        ({"headers": {"A": "b\r\nC: d"}}, "pattern"),
        ({"headers": {"content-LENGTH": "3"}}, "content-length is set by what is sent"),
        ({"headers": {"Connection": "close"}}, "keep_alive"),
        ({"body": ""}, "at least 1"),
        ({"body": "a\x00"}, "pattern"),
        ({"body": "a", "body_file": "/b"}, "either body or body_file"),
        ({"body_file": "b"}, "pattern"),
        (
            {
                "load": ["x"],
                "method": "POST",
                "metrics": {"n": {"unit": "1", "better": "lower", "line": "last", "primary": True}},
            },
            "method is of our load generator",
        ),
    ],
)
def test_wrong_requests(wrong: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        ServiceParameters.model_validate({"argv": ["x"], **wrong})
