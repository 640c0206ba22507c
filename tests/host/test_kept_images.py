"""The cache of images: what it has, and that nothing is removed that somebody runs from."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ullage.common import errors, files
from ullage.common.errors import UllageError
from ullage.host import disks, image, kept_images

DIGESTS = ("sha256:" + "ab" * 32, "sha256:" + "ac" * 32)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("ULLAGE_CACHE_DIR", str(tmp_path))
    before = dict(image._USED)
    yield tmp_path
    for place in image._USED.keys() - before.keys():
        os.close(image._USED.pop(place))


def keep(number: int, **facts: object) -> Path:
    """An image in the cache, in the place where the one with that digest that was sent lies."""
    place = image._place(f"received {DIGESTS[number]}")
    (place / "root" / "bin").mkdir(parents=True)
    (place / "root" / "bin" / "true").write_bytes(b"x" * 10_000)
    every = {"format": 1, "digest": DIGESTS[number], "packages": {}, "manifest": {}}
    (place / "image.json").write_text(json.dumps(every | facts))
    return place


def released(place: Path, days: float = 0) -> None:
    """This process uses it no more; it did so many days ago."""
    os.close(image._USED.pop(place))
    used = image.use_of(place)
    os.utime(used, (0, used.stat().st_mtime - days * 86400))


def test_what_was_used_last_is_first() -> None:
    released(keep(0, asked=["iproute2", "sysbench"]), days=2)
    released(keep(1, id="sha256:0"), days=1)
    first, second = kept_images.kept()
    assert (first.digest, first.content) == (DIGESTS[1], "a container image")
    assert (second.digest, second.content) == (DIGESTS[0], "Debian with sysbench")
    assert 10_000 <= first.size < 100_000
    assert not first.in_use and not second.in_use


def test_of_many_packages_the_first_are_named() -> None:
    released(keep(0, asked=["iproute2", *"abcdef"]))
    assert kept_images.kept()[0].content == "Debian with a, b, c, d and 2 more"


def test_an_image_in_use_stays(cache: Path) -> None:
    place = keep(0)
    (one,) = kept_images.kept()
    assert one.in_use
    with pytest.raises(UllageError) as caught:
        kept_images.remove(one)
    assert caught.value.kind is errors.IMAGE_IN_USE
    assert image.received(DIGESTS[0]) is not None
    released(place)
    kept_images.remove(one)
    assert image.received(DIGESTS[0]) is None
    assert not any(path.is_dir() for path in (cache / "images").iterdir()), "nor half removed"


def test_another_process_that_uses_one() -> None:
    """As a run does: it found the image before anybody wanted to remove it."""
    released(keep(0))
    (one,) = kept_images.kept()
    code = f"from ullage.host import image; image.received({DIGESTS[0]!r}); print(); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as user:
        assert user.stdout is not None
        user.stdout.readline()
        assert kept_images.kept()[0].in_use
        with pytest.raises(UllageError, match="in use"):
            kept_images.remove(one)
        user.communicate(b"\n")
    kept_images.remove(one)
    assert not kept_images.kept()


def test_another_user_s_cache_is_read_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    released(keep(0))

    def refused(_: Path) -> int:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(image, "hold", refused)
    assert image.received(DIGESTS[0]) is not None


def test_what_is_mounted_in_one_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    place = keep(0)
    released(place)
    (one,) = kept_images.kept()
    monkeypatch.setattr(disks, "points", lambda: [Path("/"), place / "root" / "dev"])
    with pytest.raises(UllageError) as caught:
        kept_images.remove(one)
    assert caught.value.kind is errors.IMAGE_IN_USE
    assert image.received(DIGESTS[0]) is not None


def test_a_cache_behind_a_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    """The kernel names mount points by where they really are."""
    (tmp_path / "link").symlink_to(cache)
    monkeypatch.setenv("ULLAGE_CACHE_DIR", str(tmp_path / "link"))
    place = keep(0)
    released(place)
    (one,) = kept_images.kept()
    monkeypatch.setattr(disks, "points", lambda: [place.resolve() / "root" / "dev"])
    with pytest.raises(UllageError) as caught:
        kept_images.remove(one)
    assert caught.value.kind is errors.IMAGE_IN_USE
    assert place.exists()


def test_one_of_which_a_disk_is_made_stays() -> None:
    place = keep(0)
    released(place)
    (one,) = kept_images.kept()
    held = files.hold(image.lock_of(place))
    with pytest.raises(UllageError, match="in use"):
        kept_images.remove(one)
    os.close(held)
    kept_images.remove(one)


def test_a_lock_that_cannot_be_had_is_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    released(keep(0))

    def broken(_: Path) -> int:
        raise OSError(errno.EBADF, "Bad file descriptor")

    monkeypatch.setattr(image, "hold", broken)
    with pytest.raises(OSError, match="Bad file"):
        image.received(DIGESTS[0])


def test_an_image_by_the_beginning_of_its_digest() -> None:
    for number in (0, 1):
        released(keep(number))
    images = kept_images.kept()
    assert [one.digest for one in kept_images.chosen(images, "abab")] == [DIGESTS[0]]
    assert [one.digest for one in kept_images.chosen(images, DIGESTS[1])] == [DIGESTS[1]]
    for digest in ("a", "", "beef", "sha256:"):
        with pytest.raises(UllageError) as caught:
            kept_images.chosen(images, digest)
        assert caught.value.kind is errors.IMAGE_NOT_KEPT


def test_a_damaged_one_is_listed_and_removed() -> None:
    place = keep(0)
    (place / "image.json").write_text("{")
    released(place)
    (one,) = kept_images.kept()
    assert (one.content, one.name) == ("damaged", place.name)
    assert kept_images.chosen([one], place.name) == [one]
    kept_images.remove(one)
    assert not place.exists()


def ullage(*argv: str) -> subprocess.CompletedProcess[str]:
    argv = (sys.executable, "-m", "ullage", "image", *argv)
    return subprocess.run(argv, capture_output=True, text=True, check=False)


def test_list_and_remove_as_commands() -> None:
    released(keep(0), days=40)
    place = keep(1)
    listed = ullage("list")
    assert "abababababab" in listed.stdout and "in use" in listed.stdout
    assert "2 images" in listed.stderr
    assert [one["in_use"] for one in json.loads(ullage("list", "--json").stdout)] == [True, False]
    refused = ullage("remove", "abab", "acac")
    assert refused.returncode == 2
    assert refused.stderr.startswith(f"error[{errors.IMAGE_IN_USE.code}]: acacacacacac is in use")
    assert len(kept_images.kept()) == 2, "nothing is removed if not all can be"
    nothing = ullage("remove")
    assert nothing.returncode == 2 and "--unused DAYS" in nothing.stderr
    assert "0 images removed" in ullage("remove", "--unused", "60").stderr
    assert "1 image removed" in ullage("remove", "--unused", "30").stderr
    released(place)
    assert "1 image removed" in ullage("remove", "acac").stderr
    assert not kept_images.kept()
