"""A domain from its making to its end, with an `xl` that makes nothing."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.environments.containerkit import bare_spec
from tests.environments.xen.test_xen_config import DOMAIN
from tests.support.xenkit import FakeXl, fake_xl
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.environments.xen.running import XenDomain
from ullage.host import paths, user_commands


@pytest.fixture
def xen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeXl]:
    monkeypatch.setattr(paths, "state_root", lambda: tmp_path / "state")
    monkeypatch.setattr(paths, "data_root", lambda: tmp_path / "data")
    yield fake_xl(tmp_path, monkeypatch)


def domain(folder: Path, quota: float | None = None) -> XenDomain:
    channel = folder / "agent.sock"
    return XenDomain(
        replace(DOMAIN, cpu_ids=(0,), cpu_quota=quota, channel=channel),
        bare_spec(name="vm-0"),
        folder / "console.log",
    )


def boot(vm: XenDomain, folder: Path) -> None:
    asyncio.run(vm.boot(bare_spec(name="vm-0", state_dir=folder)))


def names() -> list[str]:
    return [removal.name for removal in user_commands.records()]


def test_it_is_made_halted_looked_at_and_let_run(xen: FakeXl, tmp_path: Path) -> None:
    xen.say(affinity=["0"])
    vm = domain(tmp_path)
    boot(vm, tmp_path)
    assert xen.state["calls"][0] == ["create", "-p", f"{tmp_path}/vm-0.cfg"]
    assert xen.calls.index("vcpu-list") < xen.calls.index("unpause")
    assert names() == [DOMAIN.name], "so that `clean` finds it after the worst of deaths"
    (tmp_path / f"xl-{DOMAIN.name}.log").touch()
    asyncio.run(vm.kill())
    assert xen.state["domains"] == {}
    assert names() == []
    assert list(tmp_path.glob("*.log")) == [], "of Xen's own about it"


def test_clean_lists_it_by_its_name_alone(xen: FakeXl, tmp_path: Path) -> None:
    xen.say(affinity=["0"])
    boot(domain(tmp_path), tmp_path)
    (removal,) = user_commands.records()
    assert user_commands.names(removal.listing, 10) == {DOMAIN.name}
    xen.say(fails={"list": "xenstored is gone"})
    with pytest.raises(subprocess.SubprocessError, match="xenstored is gone"):
        user_commands.names(removal.listing, 10)


def test_what_is_frozen_twice_runs_on_after_one_thaw(xen: FakeXl, tmp_path: Path) -> None:
    xen.say(affinity=["0"])
    vm = domain(tmp_path)
    boot(vm, tmp_path)

    async def twice() -> None:
        for step in (vm.stop, vm.stop, vm.cont, vm.cont):
            await step()

    asyncio.run(twice())
    assert (xen.calls.count("pause"), xen.calls.count("unpause")) == (1, 2)


@pytest.mark.parametrize(
    ("says", "quota", "seen"),
    [
        ({"affinity": ["all"]}, None, "any CPU"),
        ({"affinity": ["0-1"]}, None, "CPU 0, 1"),
        ({"affinity": ["0"], "cap": 0}, 0.5, "none"),
        ({"affinity": ["0"], "cap": 20}, 0.5, "20 %"),
    ],
)
def test_a_limit_that_xen_has_not_set_is_seen(
    xen: FakeXl, tmp_path: Path, says: dict[str, object], quota: float | None, seen: str
) -> None:
    xen.say(**says)
    with pytest.raises(UllageError) as caught:
        boot(domain(tmp_path, quota), tmp_path)
    assert caught.value.kind is errors.LIMIT_NOT_APPLIED
    assert caught.value.facts["seen"] == seen
    assert "unpause" not in xen.calls


def test_a_cap_that_holds_is_taken(xen: FakeXl, tmp_path: Path) -> None:
    xen.say(affinity=["0"], cap=50)
    boot(domain(tmp_path, 0.5), tmp_path)


def test_xls_own_words_are_told(xen: FakeXl, tmp_path: Path) -> None:
    xen.say(fails={"create": "not enough free memory"})
    log = tmp_path / f"qemu-dm-{DOMAIN.name}.log"
    log.write_text("linux kernel too old to load a ram disk\n", encoding="ascii")
    with pytest.raises(UllageError) as caught:
        boot(domain(tmp_path), tmp_path)
    assert caught.value.kind is errors.VM_FAILED
    assert "not enough free memory" in caught.value.message
    assert "QEMU: linux kernel too old" in caught.value.message
    assert not (tmp_path / "vm-0.cfg").exists()


def test_one_that_cannot_be_destroyed_is_named_with_the_command(
    xen: FakeXl, tmp_path: Path
) -> None:
    xen.say(affinity=["0"], fails={"destroy": "device busy"})
    vm = domain(tmp_path)
    boot(vm, tmp_path)
    with pytest.raises(UllageError) as caught:
        asyncio.run(vm.kill())
    assert caught.value.kind is errors.INSTANCE_NOT_REMOVED
    assert f"xl destroy {DOMAIN.name}" in caught.value.hint
    assert names() == [DOMAIN.name]


def test_one_that_another_made_by_our_name_is_left_alone(xen: FakeXl, tmp_path: Path) -> None:
    theirs = {"7": {"uuid": "00000000-1111-2222-3333-444444444444", "name": DOMAIN.name}}
    xen.say(domains=theirs, fails={"create": "Domain with name already exists"})
    vm = domain(tmp_path)
    with pytest.raises(UllageError):
        boot(vm, tmp_path)
    asyncio.run(vm.kill())
    assert xen.state["domains"] == theirs


def test_a_guest_that_never_speaks_is_told_with_its_mode(xen: FakeXl, tmp_path: Path) -> None:
    xen.say(affinity=["0"])
    vm = domain(tmp_path)
    boot(vm, tmp_path)

    async def silence() -> None:
        server = await asyncio.start_unix_server(lambda *_: None, tmp_path / "agent.sock")
        async with server:
            await vm.agent(0.2)

    with pytest.raises(UllageError) as caught:
        asyncio.run(silence())
    assert caught.value.kind is errors.VM_NEVER_BOOTED
    assert "xen pvh" in caught.value.message


def test_of_qemus_log_only_the_end_is_read(xen: FakeXl, tmp_path: Path) -> None:
    with (tmp_path / f"qemu-dm-{DOMAIN.name}.log").open("wb") as log:
        log.seek(20 << 30)
        log.write(b"\n\n\n\nno such device\n")
    error = asyncio.run(domain(tmp_path)._failure("its channel", OSError("refused")))
    assert "refused; QEMU: no such device" in error.message
