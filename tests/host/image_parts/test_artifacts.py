"""Files that no package holds."""

from __future__ import annotations

import asyncio
import hashlib
import io
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.host import image
from ullage.host.image_parts import artifacts
from ullage.host.image_parts.artifacts import Artifact, maven, stage

BYTES = b"a jar"
DIGEST = hashlib.sha256(BYTES).hexdigest()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ULLAGE_CACHE_DIR", str(tmp_path / "cache"))


def served(monkeypatch: pytest.MonkeyPatch, content: bytes) -> list[str]:
    """What is asked for; the answer is always this."""
    urls: list[str] = []

    def opened(url: str, **_: Any) -> io.BytesIO:
        urls.append(url)
        return io.BytesIO(content)

    monkeypatch.setattr(urllib.request, "urlopen", opened)
    return urls


def jar(path: str = "/opt/x/a.jar") -> Artifact:
    return Artifact("https://example.org/a.jar", DIGEST, path)


def test_it_is_fetched_once_and_stands_where_it_should(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    urls = served(monkeypatch, BYTES)
    for root in (tmp_path / "one", tmp_path / "two"):
        asyncio.run(stage([jar()], root))
        assert (root / "opt/x/a.jar").read_bytes() == BYTES
    assert urls == ["https://example.org/a.jar"]


def test_other_bytes_are_refused_and_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served(monkeypatch, b"another jar")
    with pytest.raises(UllageError) as caught:
        asyncio.run(stage([jar()], tmp_path / "root"))
    assert caught.value.kind is errors.ARTIFACT_CHANGED
    assert [path for path in (tmp_path / "cache").rglob("*") if path.is_file()] == []


@pytest.mark.parametrize(
    ("limit", "reason"),
    [("LARGEST", "it is longer than 4B"), ("FETCH_S", "it has not come within")],
)
def test_what_never_ends_is_not_fetched(
    limit: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Endless(io.BytesIO):
        def read1(self, size: int | None = -1, /) -> bytes:
            return b"a jar"

        read = read1

    monkeypatch.setattr(artifacts, limit, 4 if limit == "LARGEST" else -1.0)
    monkeypatch.setattr(urllib.request, "urlopen", lambda url, **_: Endless())
    with pytest.raises(UllageError, match=reason) as caught:
        asyncio.run(stage([jar()], tmp_path / "root"))
    assert caught.value.kind is errors.ARTIFACT_UNREACHABLE
    assert not any((tmp_path / "cache/artifacts").iterdir())


def test_no_network_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any, **__: Any) -> None:
        raise OSError("no route to host")

    monkeypatch.setattr(urllib.request, "urlopen", refused)
    with pytest.raises(UllageError, match="no route") as caught:
        asyncio.run(stage([jar()], tmp_path / "root"))
    assert caught.value.kind is errors.ARTIFACT_UNREACHABLE


@pytest.mark.parametrize("path", ["opt/a.jar", "/opt/../etc/passwd"])
def test_none_may_stand_outside(path: str) -> None:
    with pytest.raises(ValueError, match="no artifact"):
        jar(path)
    with pytest.raises(ValueError, match="no artifact"):
        Artifact("http://example.org/a", DIGEST, "/opt/a")


def test_a_jar_of_maven_central() -> None:
    artifact = maven("org.x.y", "z", "1.2", DIGEST, into="/opt/y", classifier="tests")
    assert artifact.url.endswith("/org/x/y/z/1.2/z-1.2-tests.jar")
    assert artifact.path == "/opt/y/z-1.2-tests.jar"
    assert artifacts.Artifact is type(artifact)


def test_a_host_that_lacks_one_is_told_where_it_is() -> None:
    with pytest.raises(UllageError) as caught:
        image.require_on_host({}, [jar("/nowhere/a.jar")])
    assert caught.value.kind is errors.HOST_MISSING and "example.org" in caught.value.hint
