"""An image from a real registry: Debian's, on this machine, with plain http."""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.host.container_image.imagekit import Entry, busybox, layer, save
from tests.lab.runkit import ran
from tests.workloads.workload_runs import free_port
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.host import image

pytestmark = [pytest.mark.lab, pytest.mark.root]

PROGRAM = Path(__file__).parents[2] / "target/docker-registry/usr/bin/docker-registry"
"""`make` unpacks the package: installed, it would listen all the time."""


@dataclass(frozen=True)
class Registry:
    place: str
    """`127.0.0.1:PORT`."""
    log: Path

    def push(self, archive: Path, name: str) -> str:
        """Under that name; the digest of its manifest."""
        target = f"docker://{self.place}/{name}"
        argv = ["skopeo", "copy", "--quiet", "--dest-tls-verify=false", f"docker-archive:{archive}"]
        subprocess.run([*argv, target], check=True, capture_output=True)
        return str(self.inspected(name)["Digest"])

    def inspected(self, name: str) -> dict[str, Any]:
        target = f"docker://{self.place}/{name}"
        argv = ["skopeo", "inspect", "--tls-verify=false", target]
        done = subprocess.run(argv, check=True, capture_output=True, text=True)
        return dict(json.loads(done.stdout))

    def taken(self, name: str) -> list[int]:
        """How often each of its layers was taken from here."""
        log = self.log.read_text()
        layers = self.inspected(name)["Layers"]
        return [log.count(f'"GET /v2/shop/blobs/{digest} ') for digest in layers]


@contextmanager
def registry(folder: Path) -> Iterator[Registry]:
    port = free_port()
    settings = {
        "version": "0.1",
        "storage": {"filesystem": {"rootdirectory": str(folder / "storage")}},
        "http": {"addr": f"127.0.0.1:{port}"},
    }
    (folder / "registry.yml").write_text(json.dumps(settings))
    argv = [str(PROGRAM), "serve", str(folder / "registry.yml")]
    log = folder / "registry.log"
    with log.open("ab") as output, subprocess.Popen(argv, stdout=output, stderr=output) as process:
        try:
            wait_for(f"http://127.0.0.1:{port}/v2/", process)
            yield Registry(f"127.0.0.1:{port}", log)
        finally:
            process.terminate()


def wait_for(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            urllib.request.urlopen(url, timeout=5).close()
        except OSError:
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
        else:
            return


def archive_of(tmp_path: Path, word: bytes = b"hello") -> Path:
    program = b"#!/bin/sh\necho " + word + b"\n"
    layers = [busybox(), layer(Entry("go", program))]
    return save(tmp_path / "shop.tar", layers, Env=["PATH=/bin"], Entrypoint=["/go"])


def taken(reference: str) -> image.Image:
    return asyncio.run(image.from_container(reference))


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ULLAGE_CACHE_DIR", str(tmp_path / "cache"))


def test_an_image_is_fetched_once_and_its_name_may_come_to_mean_another(tmp_path: Path) -> None:
    with registry(tmp_path) as here:
        here.push(archive_of(tmp_path), "shop:1")
        reference = f"docker://{here.place}/shop:1"
        first = taken(reference)
        assert taken(reference) == first
        assert here.taken("shop:1") == [1, 1]
        here.push(archive_of(tmp_path, b"other"), "shop:1")
        other = taken(reference)
        assert (other.id == first.id, other.digest == first.digest) == (False, False)


def test_a_digest_pins_it_and_asks_nobody_any_more(tmp_path: Path) -> None:
    with registry(tmp_path) as here:
        pinned = f"docker://{here.place}/shop@{here.push(archive_of(tmp_path), 'shop:1')}"
        here.push(archive_of(tmp_path, b"other"), "shop:1")
        first = taken(pinned)
        assert (first.root / "go").read_bytes() == b"#!/bin/sh\necho hello\n"
        tagged = pinned.replace("/shop@", "/shop:1@")
        assert taken(tagged).id == first.id
    before = here.log.read_text()
    assert taken(pinned).id == first.id
    assert here.log.read_text() == before


def test_without_its_registry_or_with_another_digest_there_is_none(tmp_path: Path) -> None:
    with registry(tmp_path) as here:
        digest = here.push(archive_of(tmp_path), "shop:1")
        absent = f"docker://{here.place}/shop@{digest[:-4]}0000"
        with pytest.raises(UllageError) as caught:
            taken(absent)
        assert caught.value.kind is errors.IMAGE_NOT_FOUND
        assert "manifest unknown" in caught.value.message
    with pytest.raises(UllageError) as caught:
        taken(f"docker://{here.place}/shop:1")
    assert caught.value.kind is errors.IMAGE_NOT_FOUND
    assert "connection refused" in caught.value.message


def test_a_run_holds_the_name_and_what_it_meant(tmp_path: Path) -> None:
    with registry(tmp_path) as here:
        pinned = f"docker://{here.place}/shop@{here.push(archive_of(tmp_path), 'shop:1')}"
        plan = f"""\
name: pinned
baseline: native
image: {{oci: "{pinned}"}}
resources: {{cpus: 1, memory: 256MiB}}
environments:
  native: {{provider: native}}
  container: {{provider: oci}}
workloads:
  - {{name: command, expect_output: hello}}
blocks: {{min: 1, max: 1}}
"""
        folder = ran(tmp_path, plan)
    record = folder.resolved.image
    assert record is not None
    assert (record.kind, record.reference) == ("oci", pinned)
    assert record.id == taken(pinned).id
    assert all(trial.status == "ok" for trial in folder.trials)
