"""Runs by an address: fetched from a server of this test, unpacked, and held to their checksums."""

from __future__ import annotations

import io
import tarfile
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from testing.synthetic import WORKLOADS, make_run
from tests.runs.sealedrun import sealed_run
from tests.support import commandkit
from tests.support.commandkit import Done
from ullage.common import errors
from ullage.common.errors import ErrorKind, UllageError
from ullage.runs.elsewhere import fetched as module
from ullage.runs.elsewhere.fetched import fetched
from ullage.runs.reader import RunFolder
from ullage.runs.records import RESOLVED

gate_command = commandkit.in_this_process("gate")
compare_command = commandkit.in_this_process("compare")


class Store:
    """What is served: path → bytes; as a web server, and as an object store that wants a key."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.redirects: dict[str, str] = {}
        self.promised: int | None = None
        """Bytes that it says, whatever it sends."""
        self.signed: list[str] = []
        """Paths that were asked for with a signature of AWS's fourth version."""
        store = self

        class Handler(BaseHTTPRequestHandler):
            def do_HEAD(self) -> None:
                self._answer(body=False)

            def do_GET(self) -> None:
                self._answer(body=True)

            def _answer(self, body: bool) -> None:
                path = self.path.partition("?")[0]
                if self.headers.get("Authorization", "").startswith("AWS4-HMAC-SHA256 "):
                    store.signed.append(path)
                if path in store.redirects:
                    self.send_response(302)
                    self.send_header("Location", store.redirects[path])
                    self.end_headers()
                    return
                content = store.files.get(path)
                if content is None:
                    self.send_response(503 if path == "/broken" else 404)
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                self._send(content, body)

            def _send(self, content: bytes, body: bool) -> None:
                wanted = self.headers.get("Range", "")
                first, _, last = wanted.removeprefix("bytes=").partition("-")
                part = content[int(first) : int(last) + 1 if last else None] if wanted else content
                self.send_response(206 if wanted else 200)
                if wanted:
                    until = int(first) + len(part) - 1
                    self.send_header("Content-Range", f"bytes {first}-{until}/{len(content)}")
                length = len(part) if store.promised is None else store.promised
                self.send_header("Content-Length", str(length))
                self.send_header("Last-Modified", "Sat, 28 Nov 2026 08:00:00 GMT")
                self.send_header("ETag", '"1"')
                self.end_headers()
                if body:
                    self.wfile.write(part)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.server.server_port}"

    def url(self, path: str) -> str:
        return f"http://{self.address}{path}"

    def s3(self, path: str) -> str:
        where = f"endpoint_override={self.address}&scheme=http&region=us-east-1"
        return f"s3:/{path}?{where}"


@pytest.fixture
def store() -> Iterator[Store]:
    served = Store()
    thread = threading.Thread(target=served.server.serve_forever)
    thread.start()
    yield served
    served.server.shutdown()
    thread.join()
    served.server.server_close()


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "somebody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return sealed_run(tmp_path)


def packed(run: Path, form: str = "gz", without: str = "", at_top: bool = False) -> bytes:
    """As `tar czf` packs it: below its name, or (`-C NAME .`) as it is."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=f"w:{form}") as tar:  # type: ignore[call-overload]
        for path in sorted(run.rglob("*")):
            relative = str(path.relative_to(run))
            if not (without and relative.startswith(without)):
                tar.add(path, relative if at_top else f"{run.name}/{relative}", recursive=False)
    return buffer.getvalue()


def made_of(*entries: tuple[tarfile.TarInfo, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for entry, content in entries:
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def refused(address: str) -> ErrorKind:
    with pytest.raises(UllageError) as refusal, fetched(address):
        pass
    return refusal.value.kind


@pytest.mark.parametrize("form", ["gz", "xz", "bz2", ""])
@pytest.mark.parametrize("at_top", [True, False])
def test_a_run_by_http(store: Store, key: None, run: Path, form: str, at_top: bool) -> None:
    store.files["/run.tar"] = packed(run, form, at_top=at_top)
    with fetched(store.url("/run.tar")) as folder:
        there = RunFolder.open(folder)
        assert there.events == RunFolder.open(run).events
        assert there.summed
    assert not folder.exists()


def test_a_run_from_an_object_store(store: Store, key: None, run: Path) -> None:
    store.files["/bucket/base/run.tar.gz"] = packed(run)
    with fetched(store.s3("/bucket/base/run.tar.gz")) as folder:
        assert RunFolder.open(folder).events == RunFolder.open(run).events
    assert set(store.signed) == {"/bucket/base/run.tar.gz"}


def test_raw_outputs_may_be_left_out(store: Store, key: None, run: Path) -> None:
    store.files["/run.tar.gz"] = packed(run, without="trials")
    with fetched(store.url("/run.tar.gz")) as folder:
        assert not (folder / "trials").exists()


def test_what_is_not_there(store: Store, key: None) -> None:
    assert refused(store.url("/none.tar.gz")) is errors.FETCH_NOT_THERE
    assert refused(store.s3("/bucket/none.tar.gz")) is errors.FETCH_NOT_THERE


def test_who_does_not_answer(store: Store, key: None, run: Path) -> None:
    assert refused("http://127.0.0.1:1/run.tar.gz") is errors.FETCH_NO_ANSWER
    assert refused("http://nowhere.invalid/run.tar.gz") is errors.FETCH_NO_ANSWER
    assert refused(store.url("/broken")) is errors.FETCH_NO_ANSWER
    silent = "endpoint_override=127.0.0.1:1&scheme=http&region=us-east-1"
    assert refused(f"s3://bucket/run.tar.gz?{silent}") is errors.FETCH_NO_ANSWER
    store.files["/run.tar.gz"] = packed(run)
    store.promised = len(store.files["/run.tar.gz"]) + 7
    assert refused(store.url("/run.tar.gz")) is errors.FETCH_NO_ANSWER


def test_a_slow_one_is_given_up(
    store: Store, key: None, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LONGEST_S", -1.0)
    store.files["/run.tar.gz"] = packed(run)
    assert refused(store.url("/run.tar.gz")) is errors.FETCH_NO_ANSWER


@pytest.mark.parametrize("leads_to", ["file:///etc/passwd", "ftp://127.0.0.1/run.tar.gz"])
def test_it_leads_to_no_other_protocol(store: Store, key: None, leads_to: str) -> None:
    store.redirects["/run.tar.gz"] = leads_to
    assert refused(store.url("/run.tar.gz")) is errors.FETCH_NO_ANSWER


def test_it_may_lead_elsewhere(store: Store, key: None, run: Path) -> None:
    store.files["/there.tar.gz"] = packed(run)
    store.redirects["/run.tar.gz"] = "/there.tar.gz"
    with fetched(store.url("/run.tar.gz")) as folder:
        assert (folder / RESOLVED).exists()


def test_what_is_too_large(
    store: Store, key: None, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By what it says, by what comes, by what it is unpacked, and by the number of its files."""
    store.files["/run.tar.gz"] = whole = packed(run)
    zeros = made_of((tarfile.TarInfo("x/zeros"), bytes(1 << 22)))
    store.files["/zeros.tar.gz"] = zeros
    monkeypatch.setattr(module, "MOST", len(whole) - 1)
    assert refused(store.url("/run.tar.gz")) is errors.FETCH_TOO_LARGE
    store.files["/bucket/run.tar.gz"] = whole
    assert refused(store.s3("/bucket/run.tar.gz")) is errors.FETCH_TOO_LARGE
    monkeypatch.setattr(module, "MOST", 1 << 20)
    assert len(zeros) < 1 << 20
    assert refused(store.url("/zeros.tar.gz")) is errors.FETCH_TOO_LARGE
    monkeypatch.setattr(module, "MOST", 1 << 30)
    monkeypatch.setattr(module, "MOST_FILES", 3)
    assert refused(store.url("/run.tar.gz")) is errors.FETCH_TOO_LARGE


def linked(name: str, target: str, kind: bytes) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = kind, target
    return entry


@pytest.mark.parametrize(
    "archive",
    [
        b"<html>not found, but with a status of 200</html>",
        b"",
        made_of((tarfile.TarInfo("run/other.txt"), b"no run")),
        made_of((tarfile.TarInfo("../resolved.json"), b"{}")),
        made_of((tarfile.TarInfo("run/../../resolved.json"), b"{}")),
        made_of((tarfile.TarInfo("/tmp/ullage-absolute"), b"{}")),
        made_of((linked("run/resolved.json", "/etc/passwd", tarfile.SYMTYPE), b"")),
        made_of((linked("run/resolved.json", "run/x", tarfile.LNKTYPE), b"")),
        made_of((linked("run/pipe", "", tarfile.FIFOTYPE), b"")),
        made_of((tarfile.TarInfo("run"), b"x"), (tarfile.TarInfo("run/resolved.json"), b"{}")),
        made_of(*2 * [(tarfile.TarInfo("run/resolved.json"), b"{}")]),
        made_of(*((tarfile.TarInfo(f"run{i}/resolved.json"), b"{}") for i in range(2))),
    ],
    ids=range(12),
)
def test_what_is_no_run(store: Store, key: None, archive: bytes) -> None:
    store.files["/run.tar.gz"] = archive
    assert refused(store.url("/run.tar.gz")) is errors.FETCH_NO_RUN
    assert not Path("/tmp/ullage-absolute").exists()


def test_what_is_cut_off_or_damaged(store: Store, key: None, run: Path) -> None:
    whole = packed(run)
    for damaged in (whole[: len(whole) // 2], whole[:2000] + b"\0" * 64 + whole[2064:]):
        store.files["/run.tar.gz"] = damaged
        assert refused(store.url("/run.tar.gz")) is errors.FETCH_NO_RUN


@pytest.mark.parametrize("name", ["journal.jsonl", "resolved.json"])
def test_what_was_changed(store: Store, key: None, run: Path, name: str) -> None:
    text = (run / name).read_bytes()
    (run / name).write_bytes(text.replace(b"native", b"naught", 1))
    store.files["/run.tar.gz"] = packed(run)
    assert refused(store.url("/run.tar.gz")) is errors.FETCH_CHANGED
    store.files["/run.tar.gz"] = packed(run, without="journal")
    assert refused(store.url("/run.tar.gz")) is errors.FETCH_CHANGED


def test_an_address_that_is_signed_is_not_shown_whole(store: Store, key: None) -> None:
    with pytest.raises(UllageError) as refusal, fetched(f"{store.url('/none')}?Signature=secret"):
        pass
    assert "secret" not in f"{refusal.value.message}{refusal.value.hint}"


def test_gate_and_compare_take_addresses(
    store: Store,
    key: None,
    tmp_path: Path,
    gate_command: Callable[..., Done],
    compare_command: Callable[..., Done],
) -> None:
    new = make_run(tmp_path / "new", seed=2, failures=())
    store.files["/base.tar.gz"] = packed(make_run(tmp_path / "base", failures=()))
    base = store.url("/base.tar.gz")
    judged = gate_command("compare", base, str(new), "--worse-than", "90%")
    assert judged.code == 0, judged.stderr
    assert "fetched: base" in judged.stderr
    other = make_run(tmp_path / "other", seed=3, blocks=6, workloads=WORKLOADS[:2], failures=())
    unlike = gate_command("compare", base, str(other), "--worse-than", "90%")
    assert "]: base is no baseline for" in unlike.stderr, "and not where it lay meanwhile"
    changes = compare_command(base, str(new))
    assert changes.code == 0, changes.stderr
    lacking = gate_command("compare", store.url("/none"), str(new), "--worse-than", "90%")
    assert lacking.code == 2
    assert errors.FETCH_NOT_THERE.code in lacking.stderr
    plan = tmp_path / "plan.yaml"
    ran = gate_command("run", str(plan), "--baseline", store.url("/none"), "--worse-than", "90%")
    assert errors.FETCH_NOT_THERE.code in ran.stderr
