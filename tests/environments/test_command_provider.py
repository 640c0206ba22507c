"""Environments that commands of the user's make: here a folder is the platform, and a file in it an
instance, whose agent runs on the host.
"""

from __future__ import annotations

import asyncio
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from pydantic import ValidationError

from tests.environments import containerkit as kit
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.common.quantities import memory_bytes
from ullage.environments.base import InstanceSpec
from ullage.environments.command import CommandOptions, UserCommand
from ullage.host import leftovers, paths, user_commands

GUIDE: Final = Path(__file__).parents[2] / "docs/guide/any-platform.md"
EXAMPLES: Final = re.findall(
    r"^```yaml\n(provider: .*?)^```", GUIDE.read_text(encoding="utf-8"), re.M | re.S
)

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("agent_binary")]


def platform(place: Path, **changes: Any) -> UserCommand:
    """One whose list of instances is the folder."""
    fields: dict[str, Any] = {
        "label": "a folder",
        "create": [["touch", f"{place}/{{name}}"]],
        "exec": ["taskset", "-c", "{cpu_ids}", "{agent}", "serve"],
        "destroy": [["rm", f"{place}/{{name}}"]],
        "list": ["ls", str(place)],
        "freeze": ["touch", f"{place}/{{name}}.frozen"],
        "thaw": ["rm", f"{place}/{{name}}.frozen"],
        "data": str(place),
    }
    return UserCommand(CommandOptions.model_validate(fields | changes))


def whole_host(run: kit.Run, **changes: Any) -> InstanceSpec:
    return replace(run.spec(), memory_bytes=memory_bytes(), network=None, **changes)


@kit.in_a_loop
async def test_made_frozen_thawed_and_removed(tmp_path: Path) -> None:
    provider = platform(tmp_path)
    async with kit.running(provider) as run:
        instance = await run.create(whole_host(run, cpu_ids=(1,)))
        assert provider.label() == "a folder"
        assert instance.agent.facts["cpus_allowed"] == [1]
        (name,) = [path.name for path in tmp_path.iterdir()]
        assert name == f"ullage-{run.tag}-c-0"
        await instance.freeze()
        assert (tmp_path / f"{name}.frozen").exists()
        await instance.thaw()
        finished, printed = await kit.sh(instance, "echo here")
        assert (finished.status, printed) == (0, "here")
        await instance.destroy()
        assert list(tmp_path.iterdir()) == []
        assert records(run) == []
        await instance.destroy()


@kit.in_a_loop
async def test_what_is_not_frozen_is_said(tmp_path: Path) -> None:
    provider = platform(tmp_path, freeze=None, thaw=None)
    assert provider.treatments()["idle"] == "not frozen"
    async with kit.running(provider) as run:
        instance = await run.create(whole_host(run))
        await instance.freeze()
        await instance.thaw()
        assert (await kit.sh(instance, "true"))[0].status == 0


def records(run: kit.Run) -> list[user_commands.Removal]:
    return [removal for removal in user_commands.records() if removal.tag == run.tag]


async def refused(provider: UserCommand, **changes: Any) -> UllageError:
    """Why it could not be made; nothing is left of it."""
    async with kit.running(provider) as run:
        with pytest.raises(UllageError) as caught:
            await run.create(whole_host(run, **changes))
        assert records(run) == []
    return caught.value


@kit.in_a_loop
async def test_success_that_made_nothing(tmp_path: Path) -> None:
    error = await refused(platform(tmp_path, create=[["true"]], destroy=[["true"]]))
    assert error.kind is errors.INSTANCE_NOT_STARTED
    assert "`create` ended well, but `list` does not name ullage-u" in error.message


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"create": [["sh", "-c", "echo no room >&2; exit 3"]]}, "no room"),
        ({"create": [["/nowhere/tool"]]}, "No such file"),
        ({"exec": ["echo", "hello"]}, "hello"),
        ({"exec": ["sh", "-c", "echo no such pod >&2; exit 1"]}, "no such pod"),
    ],
)
@kit.in_a_loop
async def test_a_command_that_fails(tmp_path: Path, changes: dict[str, Any], says: str) -> None:
    error = await refused(platform(tmp_path, **changes))
    assert error.kind is errors.INSTANCE_NOT_STARTED
    assert says in error.message
    assert list(tmp_path.iterdir()) == []


@kit.in_a_loop
async def test_a_limit_that_does_not_hold(tmp_path: Path) -> None:
    provider = platform(tmp_path, exec=["{agent}", "serve"])
    error = await refused(provider, cpu_ids=(1,))
    assert error.kind is errors.LIMIT_NOT_APPLIED


@kit.in_a_loop
async def test_a_quota_where_cpus_were_to_be_pinned(tmp_path: Path) -> None:
    error = await refused(platform(tmp_path, cpu_limit="quota"))
    assert error.kind is errors.LIMIT_NOT_APPLIED
    assert "a quota of 1 CPUs" in error.message


@kit.in_a_loop
async def test_a_network_needs_an_address(tmp_path: Path) -> None:
    async with kit.running(platform(tmp_path)) as run:
        with pytest.raises(UllageError, match="say `address:`"):
            await run.create(replace(whole_host(run), network=run.network))
    async with kit.running(platform(tmp_path, address=["echo", "10.1.2.3"])) as run:
        instance = await run.create(replace(whole_host(run), network=run.network))
        assert instance.address == "10.1.2.3"
    async with kit.running(platform(tmp_path, address=["echo", "soon"])) as run:
        with pytest.raises(UllageError, match="'soon', which is no IPv4 address"):
            await run.create(replace(whole_host(run), network=run.network))


@kit.in_a_loop
async def test_a_busy_platform_is_asked_again(tmp_path: Path) -> None:
    script = f'test -e "{tmp_path}/$1.asked" && exec rm "{tmp_path}/$1" "{tmp_path}/$1.asked"'
    again = f'{script}; touch "{tmp_path}/$1.asked"; echo busy >&2; exit 1'
    provider = platform(tmp_path, destroy=[["sh", "-c", again, "sh", "{name}"]])
    async with kit.running(provider) as run:
        instance = await run.create(whole_host(run))
        await instance.destroy()
        assert list(tmp_path.iterdir()) == []


@kit.in_a_loop
async def test_what_is_not_removed_is_told_with_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(user_commands, "_PATIENCE_S", 0.0)
    provider = platform(tmp_path, destroy=[["false", "{name}"]])
    async with kit.running(provider) as run:
        instance = await run.create(whole_host(run))
        with pytest.raises(UllageError) as caught:
            await instance.destroy()
        assert caught.value.kind is errors.INSTANCE_NOT_REMOVED
        assert f"by hand: false ullage-{run.tag}-c-0" in caught.value.hint
        assert not instance.spec.state_dir.exists(), "the rest is removed all the same"
        (removal,) = records(run)
        (tmp_path / removal.name).unlink()
        await instance.destroy()  # gone by hand


@kit.in_a_loop
async def test_clean_removes_what_a_killed_run_left(tmp_path: Path) -> None:
    async with kit.running(platform(tmp_path)) as run:
        removal = user_commands.Removal(
            tag=run.tag,
            name=f"ullage-{run.tag}-c-0",
            listing=("ls", str(tmp_path)),
            destroy=(("rm", str(tmp_path / f"ullage-{run.tag}-c-0")),),
            deadline_s=10,
        )
        await asyncio.to_thread(user_commands.keep, removal)
        (tmp_path / removal.name).touch()
        remaining = await asyncio.to_thread(leftovers.find, run.tag, own=True)
        mine = [leftover for leftover in remaining if leftover.kind == "command"]
        assert [leftover.name for leftover in mine] == [removal.name]
        assert await asyncio.to_thread(leftovers.remove, mine) == []
        assert list(tmp_path.iterdir()) == []
        assert records(run) == []


def test_records_of_others_are_never_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ULLAGE_STATE_DIR", str(tmp_path))
    monkeypatch.setenv("ULLAGE_DATA_DIR", str(tmp_path / "data"))
    tag = paths.new_tag()
    removal = user_commands.Removal(
        tag=tag, name="x", listing=("ls",), destroy=(("rm", "x"),), deadline_s=1
    )
    user_commands.keep(removal)
    assert list(user_commands.records()) == [removal]
    os.chown(removal.path, 1234, 1234)
    assert list(user_commands.records()) == []
    removal.path.unlink()
    removal.path.symlink_to("/dev/zero")
    assert list(user_commands.records()) == []
    removal.path.unlink()
    removal.path.write_text("{")
    assert list(user_commands.records()) == []


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"create": [["make", "{nmae}"]]}, "{nmae} is none of"),
        ({"create": [["make", "{name!r}"]]}, "{name} is none of"),
        ({"create": [["make", "{name.__class__}"]]}, "is none of"),
        ({"create": [["make", "{"]]}, "Single"),
        ({"create": []}, "at least 1"),
        ({"create": [[]]}, "at least 1"),
        ({"list": ["ls", "{name}"]}, "takes no"),
        ({"thaw": None}, "belong together"),
        ({"data": "here"}, "pattern"),
        ({"label": "a\nb"}, "pattern"),
    ],
)
def test_the_plan_is_checked(tmp_path: Path, changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError) as caught:
        platform(tmp_path, **changes)
    assert says in str(caught.value)


@pytest.mark.parametrize("text", EXAMPLES, ids=lambda text: text.splitlines()[1])
def test_the_examples_of_the_guide_are_read(text: str) -> None:
    fields = yaml.safe_load(text)
    assert fields.pop("provider") == "command"
    CommandOptions.model_validate(fields)


def test_the_guide_has_an_example_of_each_platform() -> None:
    labels = {yaml.safe_load(text)["label"] for text in EXAMPLES}
    assert labels == {"Kubernetes", "Vagrant", "Proxmox container", "Firecracker"}


@kit.in_a_loop
async def test_a_platform_that_does_not_answer(tmp_path: Path) -> None:
    with pytest.raises(UllageError) as caught:
        await platform(tmp_path / "nowhere").check()
    assert caught.value.kind is errors.HOST_NO_ANSWER
    with pytest.raises(UllageError) as caught:
        await platform(tmp_path, list=["no-such-tool"]).check()
    assert caught.value.kind is errors.HOST_MISSING
