"""`ullage try`: a command is given, and everything else is chosen."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from tests.host.container_image import imagekit
from tests.support.commandkit import ullage
from ullage.cli.attempt import service
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.engine.engine import Engine
from ullage.engine.progress import RunOutcome
from ullage.environments.qemu import probe
from ullage.experiments import attempt
from ullage.plan import schema
from ullage.runs.events import Trial
from ullage.workloads.web.service import ServiceParameters

pytestmark = pytest.mark.root
HERE = ("try", "--image", "host", "--in", "native,container")


@pytest.fixture(autouse=True)
def places_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("STATE", "DATA", "CACHE"):
        monkeypatch.setenv(f"ULLAGE_{name}_DIR", str(tmp_path / name.lower()))
    monkeypatch.setenv("COLUMNS", "200")


def test_a_command_is_compared_and_its_plan_saved(tmp_path: Path) -> None:
    words = ("--within", "40s", "--save", "plan.yaml", "--", "sleep", "0.02")
    done = ullage(*HERE, *words, cwd=tmp_path)
    assert done.code == 0, done.stderr
    assert "container (crun)" in done.stdout
    (folder,) = (tmp_path / "runs").iterdir()
    assert (folder / "report.html").is_file()
    text = (tmp_path / "plan.yaml").read_text()
    assert text == (folder / "plan.yaml").read_text()
    plan, _ = schema.loads(text)
    assert list(plan.environments) == ["native", "container"]
    assert plan.blocks.races and (plan.blocks.budget or 0) < 40
    again = ullage(*HERE, *words, cwd=tmp_path)
    assert again.code == errors.FILE_FAILED.exit_code
    assert "plan.yaml: File exists" in again.stderr
    assert (tmp_path / "plan.yaml").read_text() == text


def test_an_image_of_ones_own_says_what_runs(tmp_path: Path) -> None:
    busybox = imagekit.Entry("bin/busybox", imagekit.BUSYBOX.read_bytes())
    layers = [imagekit.layer(imagekit.directory("bin"), busybox)]
    argv = ["/bin/busybox", "sleep", "0.05"]
    imagekit.save(tmp_path / "app.tar", layers, Entrypoint=argv)
    imagekit.save(tmp_path / "mute.tar", layers)
    own = ("try", "--in", "native,container", "--within", "40s", "--image")
    done = ullage(*own, "docker-archive:app.tar", cwd=tmp_path)
    assert done.code == 0, done.stderr
    assert "container (crun)" in done.stdout
    mute = ullage(*own, "docker-archive:mute.tar", cwd=tmp_path)
    assert f"error[{errors.IMAGE_NO_ENTRY.code}]" in mute.stderr


def test_a_program_that_writes_to_its_root(tmp_path: Path) -> None:
    busybox = imagekit.Entry("bin/busybox", imagekit.BUSYBOX.read_bytes())
    layers = [imagekit.layer(imagekit.directory("bin"), imagekit.directory("var"), busybox)]
    imagekit.save(tmp_path / "app.tar", layers)
    image = ("--image", "docker-archive:app.tar")
    words = ("try", "--in", "native,container", "--within", "40s", *image)
    command = ("--", "/bin/busybox", "sh", "-c", "/bin/busybox touch /var/x")
    done = ullage(*words, *command, cwd=tmp_path)
    assert done.code == errors.TRY_READ_ONLY.exit_code
    assert f"error[{errors.TRY_READ_ONLY.code}]" in done.stderr
    assert "`--root writable`" in done.stderr
    done = ullage(*words, "--root", "writable", *command, cwd=tmp_path)
    assert done.code == 0, done.stderr


def test_no_kernel_is_fetched_for_a_vm_that_could_only_be_emulated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fetched(*_: object) -> None:
        raise AssertionError("a guest's kernel was fetched")

    monkeypatch.setattr("ullage.environments.qemu.provider.guest_kernel", fetched)
    monkeypatch.setattr(probe, "DEVICE", tmp_path / "kvm")
    request = attempt.TryRequest({"name": "command", "argv": ["true"]}, 60.0, "try-true")
    assert "no KVM here" in asyncio.run(attempt.choose(request)).absent["vm"]


class Silent:
    """Progress that nobody hears."""

    def step(self, text: str) -> None: ...
    def trial(self, done: Trial, number: int, of_block: int) -> None: ...
    def block(self, number: int, most: int, half_width: float | None) -> None: ...
    def warning(self, text: str) -> None: ...


def test_what_the_pilot_took_and_the_report_will_take_is_not_there_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a host that others use, as far as the clock can show it: 61 s had become of 45."""

    class Slow(Engine):
        async def run(self) -> RunOutcome:
            await asyncio.sleep(5)
            return await super().run()

    monkeypatch.setattr(attempt, "Engine", Slow)
    monkeypatch.setattr(attempt, "stretch", lambda: 3.0)
    work = {"name": "command", "argv": ["sleep", "0.1"]}
    request = attempt.TryRequest(work, 100.0, "try-sleep", image="host")
    began = time.monotonic()
    planning = attempt.plan_for(request, ("native", "container"), tmp_path, Silent())
    plan, _ = schema.loads(asyncio.run(planning))
    took_s = time.monotonic() - began
    assert plan.blocks.budget is not None
    assert 100 - took_s - 16 <= plan.blocks.budget <= 100 - 5 - 15


def test_work_is_stretched_by_others_only() -> None:
    assert attempt.stretch() >= 1


@pytest.mark.parametrize(
    ("words", "kind", "reason"),
    [
        (("--", "sh", "-c", "echo no; exit 3"), errors.TRY_FAILED, "status 3, expected 0"),
        (("--within", "1s", "--", "sleep", "0.2"), errors.TRY_TOO_SHORT, "--within 1 s are left"),
        (("--in", "native", "--", "true"), errors.TRY_ALONE, "native alone can run here"),
        (("--in", "vm,native", "--", "true"), errors.TRY_ALONE, "the host's own files"),
    ],
)
def test_what_cannot_be_compared_is_said(
    words: tuple[str, ...], kind: errors.ErrorKind, reason: str, tmp_path: Path
) -> None:
    done = ullage(*HERE, *words, cwd=tmp_path)
    assert done.code == kind.exit_code, done.stderr
    assert f"error[{kind.code}]" in done.stderr and reason in done.stderr


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ((), "give a command"),
        (("--in", "native,cloud", "--", "true"), "cloud is none"),
        (("--in", "vm,vm", "--", "true"), "vm stands twice"),
        (("--within", "soon", "--", "true"), "--within"),
        (("--metric", "rate:1/s:higher", "--", "true"), "NAME:UNIT:higher:REGEX"),
        (("--image", "app", "--http", "8080"), ":PORT/PATH"),
        (("--image", "app", "--http", ":0/"), "--http: port"),
        (("--image", "app", "--http", ":70000/"), "--http: port"),
        (("--metric", "rate:parsec:higher:(a)", "--", "true"), "--metric: metrics.rate.unit"),
        (("--metric", "rate:1/s:up:(a)", "--", "true"), "--metric: metrics.rate.better"),
        (("--metric", "rate:1/s:higher:a", "--", "true"), "--metric: metrics.rate.regex"),
        (("--metric", "seconds:s:lower:(a)", "--", "true"), "--metric: "),
        (("--save", "nodir/p.yaml", "--", "true"), "No such file or directory"),
        (("--image", "app", "--root", "rw"), "--root: rw is neither"),
        (("--root", "writable", "--", "true"), "--root: this host's own files"),
    ],
)
def test_a_word_that_is_wrong_is_named(words: tuple[str, ...], reason: str, tmp_path: Path) -> None:
    done = ullage("try", *words, cwd=tmp_path)
    assert done.code == 2 and reason in done.stderr
    assert not (tmp_path / "runs").exists()


def test_a_server_is_a_service_of_a_plan() -> None:
    parameters = ServiceParameters.model_validate({"argv": ["httpd"], **service("localhost:81/up")})
    assert (parameters.port, parameters.path) == (81, "/up")
    assert service(":8080") == service("http://localhost:8080/") == {"port": 8080, "path": "/"}


def test_the_first_answer_waits_for_no_image() -> None:
    assert attempt.image_of("sha256sum", ()) == attempt.HOST
    assert attempt.image_of("sha256sum", ("native", "container")) == attempt.HOST


def test_a_program_is_where_the_containers_find_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Relative, it was not in the empty directory; below /tmp it was in native alone."""
    assert attempt.on_host("sleep") == "sleep"
    own = tmp_path / "own"
    own.write_text("#!/bin/sh\n")
    own.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(attempt, "_OWN", ("/run",))
    assert attempt.on_host("./own") == str(own)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin")
    assert attempt.on_host("own") == str(own)
    monkeypatch.setattr(attempt, "_OWN", (str(tmp_path),))
    with pytest.raises(UllageError) as refused:
        attempt.on_host("own")
    assert refused.value.kind is errors.TRY_HIDDEN
    with pytest.raises(UllageError) as unknown:
        attempt.on_host("./frobnicate")
    assert unknown.value.kind is errors.TRY_NO_PROGRAM


def test_the_image_holds_the_package_of_the_program(tmp_path: Path) -> None:
    names = ("native", "lxc")
    assert attempt.image_of("sha256sum", names) == {"packages": ["coreutils"]}
    with pytest.raises(UllageError) as unknown:
        attempt.image_of("frobnicate", ())
    assert unknown.value.kind is errors.TRY_NO_PROGRAM
    program = tmp_path / "frobnicate"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    with pytest.raises(UllageError, match=r"frobnicate is of no Debian package") as refused:
        attempt.image_of(str(program), names)
    assert refused.value.kind is errors.TRY_NOT_IN_IMAGE
