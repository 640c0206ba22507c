"""Servers that answer as a Prometheus exporter does, and as it should not."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from threading import Event, Thread

from testing.energy.tlskit import Server, over_tls

TEXT = "text/plain; version=0.0.4; charset=utf-8"

_PAGES = Path(__file__).parent / "pages"
SCAPHANDRE = (_PAGES / "scaphandre.prom").read_text()
KEPLER = (_PAGES / "kepler.prom").read_text()
OLD_KEPLER = (_PAGES / "kepler-0.7.prom").read_text()


class Exporter:
    """What is answered next, to whoever asks for whatever."""

    def __init__(self) -> None:
        self.page = ""
        self.status = 200
        self.headers: dict[str, str] = {"Content-Type": TEXT}
        self.declared: int | None = None
        """Content-Length; None: as long as the page, 0: none at all."""
        self.drip_s: float | None = None
        """Send a byte, wait so long, and so on for ever."""
        self.requests: list[str] = []
        self.over = Event()
        self.url = ""


@contextmanager
def exporter(page: str = "", certificate: Path | None = None) -> Iterator[Exporter]:
    """A server on the loopback; with a certificate over HTTPS."""
    served = Exporter()
    served.page = page

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            served.requests.append(self.path)
            body = served.page.encode("utf-8", "surrogateescape")
            self.send_response(served.status)
            for name, value in served.headers.items():
                self.send_header(name, value)
            if served.declared != 0:
                self.send_header("Content-Length", str(served.declared or len(body)))
            self.end_headers()
            try:
                while served.drip_s is not None and not served.over.wait(served.drip_s):
                    self.wfile.write(b"#")
                self.wfile.write(body)
            except OSError:
                pass  # the meter gave up

        def log_message(self, *_: object) -> None:
            pass

    server = Server(("127.0.0.1", 0), Handler)
    if certificate is not None:
        server.socket = over_tls(server.socket, certificate)
    scheme = "https" if certificate else "http"
    served.url = f"{scheme}://127.0.0.1:{server.server_port}/metrics"
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield served
    finally:
        served.over.set()
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def node_exporter(
    sysfs: Path, *collectors: str, certificate: Path | None = None
) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The real one on a tree of ours, of RAPL alone unless said; its page and its process."""
    argv = ["prometheus-node-exporter", f"--path.sysfs={sysfs}"]
    argv += collectors or ("--collector.disable-defaults", "--collector.rapl")
    argv += ["--web.listen-address=127.0.0.1:0"]
    if certificate is not None:
        web = certificate.with_suffix(".yml")
        files = f"{{cert_file: {certificate}, key_file: {certificate}}}"
        web.write_text(f"tls_server_config: {files}\n")
        argv += [f"--web.config.file={web}"]
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            matches = (re.search(r"address=(127\.0\.0\.1:\d+)", line) for line in process.stderr)
            address = next(match[1] for match in matches if match)
            scheme = "https" if certificate else "http"
            yield f"{scheme}://{address}/metrics", process
        finally:
            process.kill()


def closed_port() -> int:
    server = Server(("127.0.0.1", 0), BaseHTTPRequestHandler)
    server.server_close()
    return server.server_port
