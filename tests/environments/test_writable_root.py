"""A root that can be written, in a layer of each instance, over an image that stays as it is."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.environments import containerkit as kit
from ullage import environments
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.common.files import manifest
from ullage.environments.agent.client import Command
from ullage.environments.base import Instance, Provider
from ullage.environments.containers.oci import Oci, OciOptions
from ullage.environments.layer import Layer
from ullage.host import disks, leftovers, paths

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("agent_binary")]

CHANGES = """
rm /etc/debian_version && echo ours >/etc/hostname.mine && chmod 600 /etc/passwd &&
mkdir -p /var/lib/mine/deep && mv /etc/issue /var/lib/mine/deep && echo x >>/etc/profile &&
test "$(stat -c %a /)" = 755 && ! test -e /mine && echo >/mine
"""


async def say(instance: Instance, script: str) -> str:
    done, stdout, stderr = await instance.agent.run(Command(("sh", "-ec", script), timeout_s=60))
    assert done.status == 0, stderr
    return stdout.decode()


def provider(name: str, **options: Any) -> Provider:
    kind = environments.get(name)
    return kind(kind.options_model.model_validate(options))


@pytest.mark.parametrize("name", ["native", "oci", "lxc"])
def test_an_instance_writes_everywhere_and_neither_others_nor_the_image_see_it(name: str) -> None:
    before = manifest(kit.image().root)

    async def main() -> None:
        async with kit.running(provider(name)) as run:
            specs = [
                replace(spec, image=replace(kit.image(), writable=True))
                for spec in (run.spec("c-0"), run.spec("c-1"))
            ]
            first, second = [await run.create(spec) for spec in specs]
            await say(first, CHANGES)
            assert await say(first, "cat /etc/hostname.mine /proc/mounts | head -1") == "ours\n"
            await first.freeze()
            await first.thaw()
            await say(first, "test -e /var/lib/mine/deep/issue; test ! -e /etc/debian_version")
            await say(second, "test -e /etc/debian_version; test ! -e /mine")
            await first.destroy()
            assert not specs[0].data_dir.with_name("c-0.layer").exists()
            again = await run.create(replace(run.spec("c-0"), image=specs[0].image))
            await say(again, CHANGES)
            for instance in run.instances:
                await instance.destroy()
                disks.remove_tree(instance.spec.state_dir)  # of native it is the run's to remove

    asyncio.run(asyncio.wait_for(main(), 120))
    assert manifest(kit.image().root) == before


@pytest.mark.parametrize("name", ["native", "oci", "lxc"])
def test_a_killed_controller_leaves_no_layer_and_no_mount_that_clean_does_not_find(
    name: str,
) -> None:
    tag = kit.tag_of_a_killed_controller(name, writable=True)
    assert paths.data_dir(tag).joinpath("c-0.layer").is_dir()
    remains = leftovers.find(tag)
    assert leftovers.remove(remains) == []
    assert leftovers.find(tag) == []
    assert kit.leftovers(tag) == []
    assert not paths.data_dir(tag).exists()


def test_without_it_a_root_is_only_read() -> None:
    async def main() -> None:
        async with kit.running(provider("oci")) as run:
            await say(await run.create(), "! echo >/mine")

    asyncio.run(asyncio.wait_for(main(), 60))


def test_a_plain_user_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = kit.bare_spec(image=replace(kit.image(), writable=True))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr("ullage.environments.containers.oci._refuse_limits", lambda _: None)
    with pytest.raises(UllageError) as caught:
        asyncio.run(Oci(OciOptions()).create(spec))
    assert caught.value.kind is errors.INSTANCE_NOT_STARTED
    assert "cannot mount a root that can be written" in caught.value.message


@pytest.mark.parametrize(
    ("name", "options", "holder"),
    [
        ("native", {}, "overlayfs"),
        ("oci", {"runtime": "docker"}, "a layer of the store's"),
        ("oci", {"runtime": "podman"}, "fsync does nothing"),
        ("qemu", {}, "qcow2"),
    ],
)
def test_what_holds_what_is_written_is_said(
    name: str, options: dict[str, Any], holder: str
) -> None:
    assert holder in provider(name, **options).writable_root()


def test_names_with_the_kernels_own_letters_are_escaped() -> None:
    layer = Layer(Path("/a:b,c"), Path("/d\\e"))
    assert layer.options == r"lowerdir=/a\:b\,c,upperdir=/d\\e/upper,workdir=/d\\e/olwork"
