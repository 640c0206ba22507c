"""The OCI provider with crun, on the real thing; Docker has its test in the lab."""

from __future__ import annotations

import asyncio
import json
import os
import pwd
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pydantic
import pytest

from tests.environments import containerkit as kit
from ullage import errors, network, places
from ullage.agent import binary
from ullage.cgroups import Group
from ullage.environments import containers, crunhybrid, limits, ocispec, seccomp
from ullage.environments.oci import Oci, OciOptions, _refuse_limits

pytestmark = pytest.mark.usefixtures("agent_binary")

USER = "ullage-test"


def oci() -> Oci:
    return Oci(OciOptions())


@pytest.mark.root
def test_it_sees_what_it_was_given() -> None:
    asyncio.run(kit.sees_what_it_was_given(oci()))


@pytest.mark.root
def test_it_stands_still_when_frozen() -> None:
    asyncio.run(kit.stands_still_when_frozen(oci()))


@pytest.mark.root
def test_the_memory_limit_bites() -> None:
    asyncio.run(kit.memory_limit_bites(oci()))


@pytest.mark.root
def test_the_cpu_limits_bite() -> None:
    asyncio.run(kit.cpu_limits_bite(oci()))


@pytest.mark.root
def test_two_stand_side_by_side() -> None:
    asyncio.run(kit.two_stand_side_by_side(oci()))


@pytest.mark.root
def test_it_dies_and_is_destroyed_twice() -> None:
    asyncio.run(kit.dies_and_is_destroyed_twice(oci()))


@pytest.mark.root
def test_the_hosts_userland_inside_leaves_the_host_as_it_was() -> None:
    async def scenario() -> None:
        before = sorted(p.name for p in Path("/").iterdir())
        async with kit.running(oci()) as run:
            instance = await run.create(run.spec(host=True))
            _, said = await kit.sh(instance, "cat /etc/hostname /etc/debian_version")
            assert said == (
                Path("/etc/hostname").read_text() + Path("/etc/debian_version").read_text().strip()
            )
            for path in ("/here", "/etc/here", "/usr/here", "/var/here"):
                finished, said = await kit.sh(instance, f"touch {path}")
                assert finished.status != 0
                assert "Read-only file system" in said
            written, _ = await kit.sh(instance, "echo data > /data/file")
            assert written.status == 0
            assert (instance.spec.data_dir / "file").exists()
        assert sorted(p.name for p in Path("/").iterdir()) == before

    asyncio.run(scenario())


@pytest.mark.root
def test_without_a_network_there_is_only_loopback() -> None:
    async def scenario() -> None:
        async with kit.running(oci()) as run:
            instance = await run.create(replace(run.spec(), network=None))
            assert instance.address is None
            _, said = await kit.sh(
                instance, "ls /sys/class/net; ping -c 1 127.0.0.1 | grep -c from"
            )
            assert said.split() == ["lo", "1"]

    asyncio.run(scenario())


@pytest.mark.root
def test_it_has_the_capabilities_that_docker_gives() -> None:
    async def scenario() -> None:
        async with kit.running(oci()) as run:
            instance = await run.create()
            _, said = await kit.sh(instance, "grep -E 'Cap(Eff|Bnd|Amb)' /proc/self/status")
            # The mask that Docker documents for its default set.
            docker = "00000000a80425fb"
            assert said.split() == [
                *("CapEff:", docker),
                *("CapBnd:", docker),
                *("CapAmb:", "0" * 16),
            ]

    asyncio.run(scenario())


@pytest.mark.root
def test_a_profile_filters_system_calls(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    rules = [
        {"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO", "errnoRet": 1},
        {"names": ["sethostname"], "action": "SCMP_ACT_ERRNO", "errnoRet": 1},
    ]
    profile = tmp_path / "seccomp.json"
    profile.write_text(json.dumps({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": rules}))
    load = seccomp.load
    monkeypatch.setattr(seccomp, "load", lambda capabilities: load(capabilities, profile))

    async def scenario() -> None:
        provider = oci()
        async with kit.running(provider) as run:
            assert provider.treatments()["seccomp"] == "containers default profile"
            instance = await run.create()
            finished, said = await kit.sh(instance, "mkdir /tmp/x")
            assert finished.status != 0
            assert "Operation not permitted" in said

    asyncio.run(scenario())


@pytest.mark.root
def test_what_does_not_start_is_told_and_leaves_nothing() -> None:
    async def scenario() -> None:
        async with kit.running(oci()) as run:
            with pytest.raises(errors.UllageError) as caught:
                await run.create(replace(run.spec(), agent=Path("/no/such/agent")))
            assert caught.value.kind is errors.INSTANCE_NOT_STARTED
            assert "/no/such/agent" in caught.value.message
            assert kit.leftovers(run.tag) == []

    asyncio.run(scenario())


@pytest.mark.root
def test_an_agent_that_says_nothing_sensible_is_told_and_leaves_nothing(tmp_path: Path) -> None:
    script = tmp_path / "agent"
    script.write_text("#!/bin/sh\necho this is no agent >&2\n")
    script.chmod(0o755)

    async def scenario() -> None:
        async with kit.running(oci()) as run:
            with pytest.raises(errors.UllageError) as caught:
                await run.create(replace(run.spec(), agent=script))
            assert caught.value.kind is errors.INSTANCE_NOT_STARTED
            assert "this is no agent" in caught.value.message
            assert kit.leftovers(run.tag) == []

    asyncio.run(scenario())


@pytest.mark.root
def test_a_limit_that_does_not_hold_is_told_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = ocispec.config

    def without_memory(container: ocispec.Container) -> dict[str, object]:
        made = real(container)
        del made["linux"]["resources"]["memory"]
        return made

    monkeypatch.setattr(ocispec, "config", without_memory)

    async def scenario() -> None:
        async with kit.running(oci()) as run:
            with pytest.raises(errors.UllageError) as caught:
                await run.create()
            assert caught.value.kind is errors.LIMIT_NOT_APPLIED
            assert kit.leftovers(run.tag) == []

    asyncio.run(scenario())


@pytest.mark.root
def test_a_cancelled_start_leaves_nothing() -> None:
    async def scenario() -> None:
        async with kit.running(oci()) as run:
            for delay_ms in (1, 10, 20, 40):
                task = asyncio.create_task(run.create())
                await asyncio.sleep(delay_ms / 1000)
                if task.cancel():
                    with pytest.raises(asyncio.CancelledError):
                        await task
                    assert kit.leftovers(run.tag) == []
                else:
                    await (await task).destroy()

    asyncio.run(scenario())


@pytest.mark.root
def test_when_the_controller_dies_the_container_ends() -> None:
    """The agent's channel is all that keeps it alive."""
    script = """
import asyncio, sys
from tests.environments import containerkit as kit
from ullage.environments.oci import Oci, OciOptions

async def main():
    async with kit.running(Oci(OciOptions())) as run:
        await run.create()
        print(run.tag, flush=True)
        await asyncio.sleep(1000)

asyncio.run(main())
"""
    with subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    ) as controller:
        assert controller.stdout is not None
        tag = controller.stdout.readline().strip()
        assert Group.find(tag, "c-0").pids()
        controller.kill()
    try:
        for _ in range(2000):
            if not Group.find(tag, "c-0").pids():
                break
            time.sleep(0.01)
        assert not Group.find(tag, "c-0").pids()
    finally:
        asyncio.run(containers.remove_group(tag, "c-0"))
        asyncio.run(network.remove(tag))
        for directory in (places.state_dir(tag), places.data_dir(tag)):
            shutil.rmtree(directory)


@pytest.fixture
def user() -> Iterator[pwd.struct_passwd]:
    subprocess.run(["useradd", "--create-home", USER], check=True, capture_output=True)
    try:
        yield pwd.getpwnam(USER)
    finally:
        subprocess.run(["userdel", "--remove", USER], check=True, capture_output=True)


IMPORTS = "import pydantic, ullage.environments.oci"

ROOTLESS = """
import asyncio, json, os, sys
from pathlib import Path
from ullage import places
from ullage.agent import Command
from ullage.environments.base import InstanceSpec
from ullage.environments.limits import host_memory_bytes
from ullage.environments.oci import Oci, OciOptions
from ullage.errors import UllageError
from ullage.image import Image

agent, root, memory = sys.argv[1], sys.argv[2], sys.argv[3]

async def main():
    tag = places.new_tag()
    places.claim(tag, "/nowhere")
    image = Image("sha256:0", Path(root), Path("/none"), {}, Path("/none"))
    state, data = places.state_dir(tag) / "c-0", places.data_dir(tag) / "c-0"
    state.mkdir(); data.mkdir()
    provider = Oci(OciOptions())
    await provider.check()
    bytes_ = int(memory) or host_memory_bytes()
    spec = InstanceSpec(tag, "c-0", (1,), None, bytes_, image, Path(agent), state, data, None)
    try:
        instance = await provider.create(spec)
    except UllageError as error:
        return {"error": error.code, "said": error.message, "left": state.exists()}
    script = "id -u; touch /here; echo data > /data/file && ls -n /data"
    _, out, err = await instance.agent.run(Command(argv=("sh", "-c", script)))
    owner = (data / "file").stat().st_uid
    await instance.freeze()
    await instance.thaw()
    await instance.destroy()
    return {
        "label": provider.label(), "out": out.decode(), "err": err.decode(), "owner": owner,
        "cpus": instance.agent.facts["cpus_allowed"], "left": state.exists() or data.exists(),
    }

print(json.dumps(asyncio.run(main())))
"""


def as_user(user: pwd.struct_passwd, memory: int) -> dict[str, object]:
    """Run ROOTLESS as that user, with an agent and a state directory that it may use."""
    home = Path(user.pw_dir)
    agent = home / "agent"
    shutil.copy(binary(), agent)
    agent.chmod(0o755)
    places_of_code = (Path(__file__).parents[2], Path(pydantic.__file__).parents[1])
    environment = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": str(home),
        "PYTHONPATH": ":".join(str(place) for place in places_of_code),
        "PYTHONDONTWRITEBYTECODE": "1",
        "ULLAGE_STATE_DIR": str(home / "state"),
        "ULLAGE_DATA_DIR": str(home / "data"),
    }

    def python(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        who = (f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups")
        # `env`, because setpriv itself may still go where the user may not.
        return subprocess.run(
            ["setpriv", *who, "env", program, "-c", *arguments],
            check=False,
            cwd=home,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
        )

    # Our own interpreter may stand in a home that is closed to others.
    able = (p for p in (sys.executable, "/usr/bin/python3") if not python(p, IMPORTS).returncode)
    program = next(able, None)
    if program is None:
        pytest.skip("no Python with our libraries that a plain user may run")
    done = python(program, ROOTLESS, str(agent), str(kit.image().root), str(memory))
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@pytest.mark.root
def test_a_plain_user_gets_a_rootless_container(user: pwd.struct_passwd) -> None:
    said = as_user(user, memory=0)
    assert "error" not in said, said
    assert said["label"] == "container (crun, rootless)"
    assert str(said["out"]).startswith("0\n")  # root inside …
    assert said["owner"] == user.pw_uid  # … and the user outside
    assert "Read-only file system" in str(said["err"])
    assert said["cpus"] == [1]
    assert said["left"] is False


@pytest.mark.root
def test_a_limit_that_a_plain_user_cannot_set_is_refused(user: pwd.struct_passwd) -> None:
    said = as_user(user, memory=256 * kit.MIB)
    assert said["error"] == errors.INSTANCE_NOT_LIMITED.code
    assert said["left"] is False


def test_a_rootless_quota_is_refused() -> None:
    spec = kit.bare_spec(cpu_quota=0.5, memory_bytes=limits.host_memory_bytes())
    with pytest.raises(errors.UllageError) as caught:
        _refuse_limits(spec)
    assert caught.value.kind is errors.INSTANCE_NOT_LIMITED


def test_a_runtime_that_is_missing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    for runtime in ("crun", "docker", "podman"):
        with pytest.raises(errors.UllageError) as caught:
            asyncio.run(Oci(OciOptions.model_validate({"runtime": runtime})).check())
        assert caught.value.kind is errors.HOST_MISSING
        assert runtime in caught.value.message


def test_an_unknown_runtime_is_refused() -> None:
    with pytest.raises(ValueError, match="runtime"):
        OciOptions.model_validate({"runtime": "rkt"})


def test_the_label_names_the_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    labels = {
        runtime: Oci(OciOptions.model_validate({"runtime": runtime})).label()
        for runtime in ("crun", "docker")
    }
    assert labels == {"crun": "container (crun)", "docker": "container (docker)"}


def test_config_sets_every_limit() -> None:
    spec = kit.bare_spec(cpus=(0, 2), cpu_quota=1.5, memory_bytes=64 * kit.MIB)
    made = ocispec.config(
        ocispec.Container(
            spec=spec,
            root=Path("/image"),
            netns=Path("/run/netns/x"),
            cgroup="/ullage/u0000000/c-0",
            seccomp=None,
            rootless=False,
        )
    )
    linux = made["linux"]
    assert linux["cgroupsPath"] == "/ullage/u0000000/c-0"
    assert linux["resources"]["cpu"] == {"cpus": "0,2", "quota": 150_000, "period": 100_000}
    assert linux["resources"]["memory"] == {"limit": 64 * kit.MIB, "swap": 64 * kit.MIB}
    assert {"type": "network", "path": "/run/netns/x"} in linux["namespaces"]
    assert "seccomp" not in linux
    assert made["root"] == {"path": "/image", "readonly": True}
    assert json.loads(json.dumps(made)) == made


def test_config_of_a_rootless_container_asks_for_nothing_that_needs_root() -> None:
    made = ocispec.config(
        ocispec.Container(
            spec=kit.bare_spec(),
            root=Path("/image"),
            netns=None,
            cgroup="/none",
            seccomp=None,
            rootless=True,
        )
    )
    linux = made["linux"]
    assert {"type": "user"} in linux["namespaces"]
    assert not any(namespace["type"] == "network" for namespace in linux["namespaces"])
    assert "resources" not in linux
    assert linux["uidMappings"] == [{"containerID": 0, "hostID": os.geteuid(), "size": 1}]
    assert not any(mount["type"] in {"sysfs", "cgroup"} for mount in made["mounts"])


def test_the_hosts_root_keeps_links_and_may_be_made_twice(tmp_path: Path) -> None:
    binds = ocispec.host_root(tmp_path / "root")
    assert ocispec.host_root(tmp_path / "root") == binds
    assert Path("/usr") in binds
    assert not {Path("/proc"), Path("/sys"), Path("/dev"), Path("/tmp")} & set(binds)
    for entry in Path("/").iterdir():
        if entry.is_symlink():
            assert (tmp_path / "root" / entry.name).readlink() == entry.readlink()
    assert (tmp_path / "root/ullage/agent").is_file()


@pytest.mark.root
def test_the_hybrid_wrapper_hides_the_v2_tree_from_the_program_only() -> None:
    def mounts(*command: str) -> str:
        return subprocess.run(
            [*command, "cat", "/proc/self/mounts"], capture_output=True, text=True, check=True
        ).stdout

    if not crunhybrid.UNIFIED.is_dir():
        pytest.skip("not a hybrid host")
    hidden = f"none {crunhybrid.UNIFIED} tmpfs"
    assert hidden in mounts(sys.executable, "-I", "-S", crunhybrid.__file__)
    assert hidden not in mounts()
