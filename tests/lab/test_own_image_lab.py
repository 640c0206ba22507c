"""A container image of one's own, from real stores, as the root of every environment."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from tests.host.container_image.imagekit import Entry, busybox, layer, save
from tests.lab.dockerkit import daemon
from tests.lab.traces import left_by
from ullage.runs.reader import RunFolder, newest_run

pytestmark = [pytest.mark.lab, pytest.mark.root]

PROGRAM = b"""#!/bin/sh
pwd; echo "$LANG$LC_ALL"; id -u; id -g; cd; pwd; echo "$GREETING" >/data/word; cat /data/word
"""
PRINTED = "/home/app/made\nde_DE.UTF-8\n1234\n1235\n/home/app\nhello\n"
NAME = "ullage-lab-own:1"

PLAN = """\
name: own
baseline: native
image: {{oci: "{reference}"{more}}}
resources: {{cpus: 1, memory: 256MiB}}
environments:
  native: {{provider: native}}
{others}
workloads:
  - {{name: command}}
blocks: {{min: 1, max: 1}}
"""
CONTAINERS = """\
  container: {provider: oci}
  system: {provider: lxc}
"""
MACHINE = "  vm: {provider: qemu, accel: tcg, boot_deadline_s: 300}\n"


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What `docker load` takes; the cache is the test's own."""
    monkeypatch.setenv("ULLAGE_CACHE_DIR", str(tmp_path / "cache"))
    layers = [busybox(), layer(Entry("home/app/go", PROGRAM))]
    return save(
        tmp_path / "app.tar",
        layers,
        name=NAME,
        User="app",
        Env=["PATH=/bin", "GREETING=hello", "LANG=de_DE.UTF-8"],
        WorkingDir="/home/app/made",
        Entrypoint=["/home/app/go"],
    )


def outputs(tmp_path: Path, reference: str, others: str, more: str = "") -> list[str]:
    """What each trial of a run has printed."""
    plan, runs = tmp_path / "plan.yaml", tmp_path / "runs"
    plan.write_text(PLAN.format(reference=reference, others=others, more=more))
    argv = [sys.executable, "-m", "ullage", "run", str(plan), "--runs", str(runs)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    folder = RunFolder.open(newest_run(runs))
    image = folder.resolved.image
    assert image is not None
    assert (image.kind, image.reference) == ("oci", reference)
    assert left_by(runs) == []
    return [file.read_text() for file in folder.path.glob("trials/*/main.stdout")]


def test_from_a_docker_daemon(tmp_path: Path, archive: Path) -> None:
    with daemon(tmp_path):
        subprocess.run(["docker", "load", "--input", archive], check=True, capture_output=True)
        printed = outputs(tmp_path, f"docker-daemon:{NAME}", CONTAINERS)
    assert printed == [PRINTED] * 4


def test_from_podman(tmp_path: Path, archive: Path) -> None:
    subprocess.run(["podman", "load", "--input", archive], check=True, capture_output=True)
    try:
        printed = outputs(tmp_path, f"containers-storage:localhost/{NAME}", CONTAINERS)
    finally:
        subprocess.run(["podman", "rmi", NAME], check=True, capture_output=True)
    assert printed == [PRINTED] * 4


def test_in_a_vm(tmp_path: Path, archive: Path) -> None:
    assert outputs(tmp_path, f"docker-archive:{archive}", MACHINE) == [PRINTED] * 3


MUSL = "/lib/ld-musl-x86_64.so.1"
GREETER = """\
#include <stdio.h>
#include <unistd.h>
int main(void) { printf("uid %d, %s\\n", getuid(), getenv("GREETING")); }
"""


def test_an_image_with_another_libc_in_every_kind_of_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Alpine's: a dynamic program, its musl, no shell."""
    monkeypatch.setenv("ULLAGE_CACHE_DIR", str(tmp_path / "cache"))
    source, program = tmp_path / "greet.c", tmp_path / "greet"
    source.write_text(f"#include <stdlib.h>\n{GREETER}")
    subprocess.run(["musl-gcc", "-o", program, source], check=True)
    assert MUSL.encode() in program.read_bytes()
    root = layer(
        Entry(MUSL.removeprefix("/"), Path(MUSL).resolve().read_bytes()),
        Entry("usr/bin/greet", program.read_bytes()),
        Entry("etc/passwd", b"app:x:1234:1235::/:\n", mode=0o644),
    )
    environment = ["PATH=/usr/bin", "GREETING=hello"]
    archive = save(tmp_path / "musl.tar", [root], User="app", Env=environment, Entrypoint=["greet"])
    printed = outputs(tmp_path, f"docker-archive:{archive}", CONTAINERS + MACHINE)
    assert printed == ["uid 1234, hello\n"] * 5


WRITER = b"""#!/bin/sh
sha256sum </go; test ! -e /etc/mark && echo word >/etc/mark && rm /go && cat /etc/mark
"""


def test_a_root_that_can_be_written_in_every_kind_of_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each begins with the image's own bytes, though all of them change these."""
    monkeypatch.setenv("ULLAGE_CACHE_DIR", str(tmp_path / "cache"))
    layers = [busybox(), layer(Entry("go", WRITER))]
    archive = save(tmp_path / "writer.tar", layers, Env=["PATH=/bin"], Entrypoint=["/go"])
    printed = outputs(
        tmp_path, f"docker-archive:{archive}", CONTAINERS + MACHINE, ", root: writable"
    )
    assert printed == [f"{hashlib.sha256(WRITER).hexdigest()}  -\nword\n"] * 5


@pytest.mark.parametrize("root", ["read-only", "writable"])
def test_docker_runs_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, root: str
) -> None:
    """`runtime: docker` runs what its own daemon was asked for, as the others have it."""
    monkeypatch.setenv("ULLAGE_CACHE_DIR", str(tmp_path / "cache"))
    program = WRITER if root == "writable" else b"#!/bin/sh\nsha256sum </go; ! echo >/etc/mark\n"
    layers = [busybox(), layer(Entry("go", program))]
    archive = save(tmp_path / "shop.tar", layers, name=NAME, Env=["PATH=/bin"], Entrypoint=["/go"])
    with daemon(tmp_path):
        subprocess.run(["docker", "load", "--input", archive], check=True, capture_output=True)
        inspect = ["docker", "image", "inspect", "--format", "{{.Id}}", NAME]
        identity = subprocess.run(inspect, check=True, capture_output=True, text=True).stdout
        others = CONTAINERS + "  docker: {provider: oci, runtime: docker}\n"
        printed = outputs(tmp_path, NAME, others, f", root: {root}")
        folder = RunFolder.open(newest_run(tmp_path / "runs"))
    wrote = "word\n" if root == "writable" else ""
    assert printed == [f"{hashlib.sha256(program).hexdigest()}  -\n{wrote}"] * 5
    assert folder.resolved.image is not None
    assert folder.resolved.image.id == identity.strip()
    roots = {e.key: e.treatments.get("root") for e in folder.resolved.environments}
    assert roots["docker"] == {
        "read-only": "imported image, read-only",
        "writable": "a layer of the store's",
    }.get(root)
    assert roots["system"] == {
        "read-only": "bind mount, read-only",
        "writable": "overlayfs over the image",
    }.get(root)


BUILDS = """\
name: builds
baseline: native-1
resources: {{cpus: 1, memory: 256MiB}}
environments:
{environments}
workloads:
  - {{name: command}}
blocks: {{min: 1, max: 1}}
allow: [userland]
"""
KINDS = {
    "native": "provider: native",
    "container": "provider: oci",
    "docker": "provider: oci, runtime: docker",
    "system": "provider: lxc",
    "vm": "provider: qemu, accel: tcg, boot_deadline_s: 300",
}


def test_two_builds_in_every_kind_of_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each environment has the image that it names, though another of its kind has another."""
    monkeypatch.setenv("ULLAGE_CACHE_DIR", str(tmp_path / "cache"))
    names = {number: f"ullage-lab-build:{number}" for number in (1, 2)}
    lines = (
        f'  {kind}-{number}: {{{options}, image: {{oci: "{names[number]}"}}}}'
        for kind, options in KINDS.items()
        for number in names
    )
    plan, runs = tmp_path / "plan.yaml", tmp_path / "runs"
    plan.write_text(BUILDS.format(environments="\n".join(lines)))
    with daemon(tmp_path):
        for number, name in names.items():
            program = f"#!/bin/sh\necho build {number}\n".encode()
            layers = [busybox(), layer(Entry("go", program))]
            file = tmp_path / f"{number}.tar"
            save(file, layers, name=name, Env=["PATH=/bin"], Entrypoint=["/go"])
            subprocess.run(["docker", "load", "--input", file], check=True, capture_output=True)
        argv = [sys.executable, "-m", "ullage", "run", str(plan), "--runs", str(runs)]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    folder = RunFolder.open(newest_run(runs))
    printed = {
        trial.environment: (folder.path / f"trials/{trial.trial}/main.stdout").read_text()
        for trial in folder.trials
    }
    of_kinds = {f"{kind}-{number}": f"build {number}\n" for kind in KINDS for number in names}
    assert printed.items() >= of_kinds.items()
    assert left_by(runs) == []
