"""Runs in an object store: moto's S3, by PyArrow's own client."""

from __future__ import annotations

import errno
import fcntl
import io
import re
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import boto3
import pytest
from moto.server import ThreadedMotoServer
from pyarrow import fs

from testing.synthetic import make_run
from tests.runs.sealedrun import sealed_run
from tests.support import commandkit
from tests.support.commandkit import Ullage
from ullage.common import errors
from ullage.common.errors import ErrorKind, UllageError
from ullage.runs.elsewhere import fetched, stores
from ullage.runs.elsewhere.stores import Store, mirrored, upload
from ullage.runs.records import JOURNAL, RESOLVED

listing = commandkit.in_this_process("list")
show = commandkit.in_this_process("show")
compare = commandkit.in_this_process("compare")
query = commandkit.in_this_process("query")
uploading = commandkit.in_this_process("upload")
running = commandkit.in_this_process("run")


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """Where S3 is, by moto."""
    moto = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    moto.start()
    yield "{}:{}".format(*moto.get_host_and_port())
    moto.stop()


@pytest.fixture
def store(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Store:
    """An empty prefix in a bucket of this test, and a cache of its own."""
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "somebody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("ULLAGE_CACHE_DIR", str(tmp_path / "cache"))
    bucket = f"b{abs(hash(request.node.name)):x}"
    boto3.client("s3", endpoint_url=f"http://{server}", region_name="us-east-1").create_bucket(
        Bucket=bucket
    )
    return Store(f"{bucket}/lab", f"?endpoint_override={server}&scheme=http&region=us-east-1")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return sealed_run(tmp_path)


def address(store: Store) -> str:
    """As a user types it."""
    return f"{store.shown}{store.query}"


def put(store: Store, name: str, content: bytes) -> None:
    """An object, as any program may put one there."""
    system, path = fs.FileSystem.from_uri(address(store))
    with system.open_output_stream(f"{path}/{name}", compression=None) as stream:
        stream.write(content)


def packed(run: Path) -> Path:
    """An archive of it, beside it, as `tar` makes one."""
    archive = run.with_suffix(".tar.gz")
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(run, run.name)
    return archive


def no_bad(where: str, error: UllageError) -> None:
    raise AssertionError(f"{where}: {error}")


def refused(store: Store) -> ErrorKind:
    with pytest.raises(UllageError) as caught:
        mirrored(store, no_bad)
    return caught.value.kind


def test_a_run_goes_there_and_is_read_there(
    store: Store,
    run: Path,
    tmp_path: Path,
    uploading: Ullage,
    listing: Ullage,
    show: Ullage,
    query: Ullage,
    compare: Ullage,
) -> None:
    second = make_run(tmp_path / "second", failures=(), raw=False)
    assert uploading(run.name, address(store), "--runs", str(run.parent)).code == 0
    assert uploading("second", address(store)).stdout.strip() == f"{store.shown}/second.tar.gz"
    there = ("--runs", address(store))
    listed = listing(*there)
    assert run.name in listed.stdout and "second" in listed.stdout
    assert show(run.name, *there).stdout == show(str(run)).stdout
    counted = query("select count(distinct run) as n from samples", *there, "--json")
    assert counted.json == [{"n": 2}]
    compared = compare(run.name, "second", *there)
    here = compare(str(run), str(second))
    assert (compared.code, compared.stdout) == (here.code, here.stdout)


def test_each_archive_is_fetched_once_and_goes_when_it_has_gone(
    store: Store, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload(run, store)
    root = mirrored(store, no_bad)
    assert (root / run.name / "journal.jsonl").read_bytes() == (run / "journal.jsonl").read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(stores, "fetched", None)
        assert mirrored(store, no_bad) == root
    system, path = fs.FileSystem.from_uri(address(store))
    system.delete_file(f"{path}/{run.name}.tar.gz")
    assert not (mirrored(store, no_bad) / run.name).exists()


def test_raw_outputs_may_stay_here(store: Store, run: Path) -> None:
    upload(run, store, raw=False)
    there = mirrored(store, no_bad) / run.name
    assert not (there / "trials").exists() and (run / "trials").is_dir()


def test_a_run_that_a_link_leads_to_goes_there_whole(
    store: Store, run: Path, tmp_path: Path
) -> None:
    (tmp_path / "last").symlink_to(run)
    assert upload(tmp_path / "last", store) == f"{store.shown}/{run.name}.tar.gz"
    assert (mirrored(store, no_bad) / run.name / JOURNAL).is_file()


def test_one_of_its_name_is_not_written_over(store: Store, run: Path) -> None:
    upload(run, store)
    with pytest.raises(UllageError) as caught:
        upload(run, store)
    assert caught.value.kind is errors.STORE_HAS_RUN
    upload(run, store, replace=True)


def test_half_of_an_archive_is_left_out_and_mended_by_another_upload(
    store: Store, run: Path, listing: Ullage
) -> None:
    whole = packed(run)
    put(store, f"{run.name}.tar.gz", whole.read_bytes()[: whole.stat().st_size // 2])
    put(store, "notes.txt", b"none of ours")
    put(store, "other-name.tar.gz", whole.read_bytes())
    bad: dict[str, ErrorKind] = {}
    root = mirrored(store, lambda where, error: bad.update({where: error.kind}))
    assert bad == {
        f"{store.shown}/{run.name}.tar.gz": errors.FETCH_NO_RUN,
        f"{store.shown}/other-name.tar.gz": errors.FETCH_NO_RUN,
    }
    assert not (root / run.name).exists()
    listed = listing("--runs", address(store))
    assert listed.code == 0 and "left out" in listed.stderr
    upload(run, store, replace=True)
    assert (mirrored(store, lambda *_: None) / run.name).is_dir()


def test_a_journal_that_names_what_no_run_holds_is_left_out(
    store: Store, run: Path, tmp_path: Path
) -> None:
    upload(run, store)
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / RESOLVED).write_text("{}")
    (tmp_path / "bad" / JOURNAL).write_text('{"files": {"/etc/passwd": "x"}}\n')
    put(store, "bad.tar.gz", packed(tmp_path / "bad").read_bytes())
    bad: dict[str, ErrorKind] = {}
    root = mirrored(store, lambda where, error: bad.update({where: error.kind}))
    assert bad == {f"{store.shown}/bad.tar.gz": errors.FETCH_CHANGED}
    assert (root / run.name).is_dir()


def other_reader(root: Path) -> IO[str]:
    """What another process holds that reads the mirror."""
    lock = (root / ".readers").open("a")
    fcntl.flock(lock, fcntl.LOCK_SH)
    return lock


def test_what_others_read_stays_as_it_was_and_that_is_said(store: Store, run: Path) -> None:
    upload(run, store)
    root = mirrored(store, no_bad)
    with (root / ".readers").open("a") as other, pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)  # this process reads on
    (root / run.name / "seen").touch()
    (root / ".origins" / run.name).write_text("another archive")
    upload(run.rename(run.with_name("second")), store)
    lines: list[str] = []
    with other_reader(root):
        mirrored(store, no_bad, lines.append)
        assert (root / run.name / "seen").exists() and (root / "second").is_dir()
    assert len(lines) == 1 and f"/{run.name}.tar.gz has changed or gone" in lines[0]
    mirrored(store, no_bad, lines.append)
    assert len(lines) == 1 and not (root / run.name / "seen").exists()
    assert (root / run.name / JOURNAL).is_file()


def test_who_waits_for_another_says_so(store: Store, run: Path) -> None:
    upload(run, store)
    root = mirrored(store, no_bad)
    lines: list[str] = []
    with (root / ".turn").open("a") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)

        def say(text: str) -> None:
            lines.append(text)
            fcntl.flock(turn, fcntl.LOCK_UN)

        mirrored(store, no_bad, say)
    assert lines == [f"waiting: another ullage fetches runs of {store.shown}"]


def test_a_copy_of_one_who_was_killed_is_made_anew(store: Store, run: Path) -> None:
    upload(run, store)
    root = mirrored(store, no_bad)
    (root / ".origins" / run.name).unlink()
    (root / run.name / JOURNAL).unlink()
    (root / ".aside" / "half").mkdir()
    mirrored(store, no_bad)
    assert (root / run.name / JOURNAL).is_file() and not (root / ".aside" / "half").exists()


def test_a_cache_that_can_keep_nothing_is_said(
    store: Store, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload(run, store)
    monkeypatch.setenv("ULLAGE_CACHE_DIR", "/proc/none")
    assert refused(store) is errors.STORE_NOT_KEPT


def test_a_cache_that_takes_nothing_leaves_a_run_out(
    store: Store, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload(run, store)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    bad: list[UllageError] = []
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "move", full)
        mirrored(store, lambda _, error: bad.append(error))
    assert [error.kind for error in bad] == [errors.STORE_NOT_KEPT]
    assert "No space left" in bad[0].message
    assert (mirrored(store, no_bad) / run.name).is_dir()


def test_a_run_that_has_not_finished_stays_here(store: Store, tmp_path: Path) -> None:
    open_run = make_run(tmp_path / "open", failures=(), raw=False, finished=False)
    with pytest.raises(UllageError) as caught:
        upload(open_run, store)
    assert caught.value.kind is errors.UPLOAD_UNFINISHED


def no_reader_has(store: Store, run: Path) -> UllageError:
    """What `upload` says; nothing was sent."""
    with pytest.raises(UllageError) as caught:
        upload(run, store)
    assert store.archives() == {}
    return caught.value


@pytest.mark.parametrize("name", ["my run", "-a", "x" * 201])
def test_a_name_that_no_reader_takes_stays_here(store: Store, run: Path, name: str) -> None:
    error = no_reader_has(store, run.rename(run.with_name(name)))
    assert error.kind is errors.UPLOAD_BAD_NAME


@pytest.mark.parametrize("bound", ["MOST", "MOST_FILES"])
def test_more_than_readers_take_stays_here(
    store: Store, run: Path, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    monkeypatch.setattr(fetched, bound, 10)
    error = no_reader_has(store, run)
    assert error.kind is errors.UPLOAD_UNREADABLE and "--no-raw" in error.hint


def test_a_run_that_is_changed_or_holds_a_link_stays_here(store: Store, run: Path) -> None:
    (run / "link").symlink_to("plan.yaml")
    error = no_reader_has(store, run)
    assert error.kind is errors.UPLOAD_UNREADABLE and "no regular file" in error.message
    (run / "link").unlink()
    (run / "plan.yaml").write_text("another")
    error = no_reader_has(store, run)
    assert error.kind is errors.UPLOAD_UNREADABLE and "plan.yaml is changed" in error.message


def test_an_elastic_run_stays_here(store: Store, tmp_path: Path) -> None:
    (tmp_path / "elastic").mkdir()
    (tmp_path / "elastic" / RESOLVED).write_text('{"kind": "elastic"}')
    assert no_reader_has(store, tmp_path / "elastic").kind is errors.UPLOAD_ELASTIC


def test_no_bucket_no_server_and_no_key(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    assert refused(Store("no-such-bucket/lab", store.query)) is errors.FETCH_NOT_THERE
    silent = "?endpoint_override=127.0.0.1:1&scheme=http&region=us-east-1"
    assert refused(Store("bucket/lab", silent)) is errors.FETCH_NO_ANSWER
    monkeypatch.setattr("moto.core.authorization.settings.INITIAL_NO_AUTH_ACTION_COUNT", 0)
    assert refused(store) is errors.FETCH_NOT_THERE  # moto looks at keys now, and knows none


def test_what_arrives_short_is_said_and_what_is_there_stays(
    store: Store, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut(replace: bool) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(stores, "_PIECE", 0)  # nothing is ever read, and so nothing is sent
            with pytest.raises(UllageError) as caught:
                upload(run, store, replace=replace)
        assert caught.value.kind is errors.STORE_NOT_WRITTEN

    cut(replace=False)
    assert mirrored(store, no_bad) and store.archives() == {}
    upload(run, store)
    before = store.archives()
    cut(replace=True)
    assert store.archives() == before


def test_an_upload_that_ends_in_the_middle_leaves_no_archive(
    store: Store, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Breaking(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            if self.tell():
                raise KeyboardInterrupt
            return super().read(size)

    monkeypatch.setattr(stores, "_PIECE", 1000)
    with pytest.raises(KeyboardInterrupt):
        store.put(run.name, Breaking(packed(run).read_bytes()), replace=False)
    assert store.archives() == {}
    system, path = fs.FileSystem.from_uri(address(store))
    part = f"{path}/.{run.name}.part"
    with system.open_output_stream(part) as stream:
        stream.write(b"of a writer that was killed")
    upload(run, store)
    assert mirrored(store, no_bad).joinpath(run.name).is_dir()
    assert system.get_file_info(part).type == fs.FileType.NotFound


def test_a_writer_who_may_remove_nothing_uploads_all_the_same(
    store: Store, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(*_: object) -> None:
        raise OSError("ACCESS_DENIED")

    real = fs.FileSystem.from_uri

    class KeepsAll:
        def __init__(self, system: fs.FileSystem) -> None:
            self._system = system

        def __getattr__(self, name: str) -> object:
            return denied if name == "delete_file" else getattr(self._system, name)

    def from_uri(uri: str) -> tuple[KeepsAll, str]:
        system, path = real(uri)
        return KeepsAll(system), path

    with monkeypatch.context() as patch:
        patch.setattr(fs, "FileSystem", type("Any", (), {"from_uri": from_uri}))
        upload(run, store)
    assert store.archives().keys() == {run.name}


def test_commands_that_make_runs_refuse_a_store(running: Ullage) -> None:
    done = running("plan.yaml", "--runs", "s3://bucket/lab")
    assert done.code == 2 and f"[{errors.STORE_FOR_READERS.code}]" in done.stderr


@pytest.mark.parametrize(
    "place",
    [
        "s3://ident:hush@bucket/lab",
        "s3:/ident:hu/sh@bucket",
        "S3://ident@bucket",
        "s3://ident:hush",
    ],
)
def test_an_address_with_a_key_is_neither_taken_nor_shown(
    uploading: Ullage, listing: Ullage, running: Ullage, place: str
) -> None:
    for done in (
        uploading("run", place),
        listing("--runs", place),
        running("plan.yaml", "--runs", place),
    ):
        assert done.code == 2 and f"[{errors.ADDRESS_HAS_KEY.code}]" in done.stderr
        assert not re.search("ident|hu/?sh", done.stdout + done.stderr)


@pytest.mark.parametrize("place", ["s3://ident:hush@bucket/run", "https://ident:hush@host/run"])
def test_an_archive_s_address_with_a_key_is_neither(compare: Ullage, place: str) -> None:
    done = compare("run", place)
    assert done.code == 2 and f"[{errors.ADDRESS_HAS_KEY.code}]" in done.stderr
    assert not re.search("ident|hush", done.stdout + done.stderr)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("s3://b/p", "s3://b/p"),
        ("s3:/b/p/", "s3://b/p"),
        ("s3://b", "s3://b"),
        ("s3://b/p?scheme=http", "s3://b/p"),
        ("s3://b/p?endpoint_override=h:9000", "s3://b/p"),
        ("s3://b/a@b:c", "s3://b/a@b:c"),
        ("runs", None),
        ("s3:", None),
    ],
)
def test_addresses(text: str, shown: str | None) -> None:
    store = Store.named(text)
    assert (store and store.shown) == shown
