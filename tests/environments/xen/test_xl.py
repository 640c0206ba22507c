"""What `xl` tells, and what is refused by it."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from tests.support.xenkit import FakeXl, fake_xl
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.environments.xen import xl
from ullage.environments.xen.options import XenOptions
from ullage.environments.xen.provider import Xen


@pytest.fixture
def xen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeXl:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return fake_xl(tmp_path, monkeypatch)


ALWAYS = (
    "libxl: error: libxl_console.c:271:libxl__device_console_add: Domain 5:"
    "Primary console has invalid configuration"
)


def provider(**fields: object) -> Xen:
    return Xen(XenOptions.model_validate(fields))


def refusal(**fields: object) -> UllageError:
    with pytest.raises(UllageError) as caught:
        asyncio.run(provider(**fields).check_at_once())
    return caught.value


def test_a_dom0_whose_vcpus_are_pinned_will_do(xen: FakeXl) -> None:
    one = provider(mode="pv")
    assert one.label() == "xen-pv", "asked before `check`"
    assert one.treatments()["mode"] == "pv"
    asyncio.run(one.check_at_once())
    assert one.treatments()["hypervisor"] == "Xen 4.17.7"
    assert one.treatments()["native"] == "is dom0, a guest of the same Xen"
    assert xen.calls == ["info", "vcpu-list"]


@pytest.mark.parametrize(
    ("file", "text", "says"),
    [
        ("type", "kvm\n", "its hypervisor is kvm"),
        ("type", None, "no hypervisor is below its kernel"),
        ("capabilities", "\n", "does not say control_d"),
    ],
)
def test_another_host_is_refused(xen: FakeXl, file: str, text: str | None, says: str) -> None:
    path = xen.place.with_name(file)
    path.unlink() if text is None else path.write_text(text, encoding="ascii")
    error = refusal()
    assert error.kind is errors.XEN_NOT_HERE
    assert says in error.message
    assert "xen-system-amd64" in error.hint


def test_an_xl_that_fails_is_no_xen(xen: FakeXl) -> None:
    xen.say(fails={"info": "cannot open libxc handle"})
    error = refusal()
    assert error.kind is errors.XEN_NOT_HERE
    assert "cannot open libxc handle" in error.message


def test_without_hardware_only_pv_is_had(xen: FakeXl) -> None:
    xen.say(info={"virt_caps": "pv gnttab-v1"})
    for mode in ("pvh", "hvm"):
        error = refusal(mode=mode)
        assert error.kind is errors.XEN_NO_MODE
        assert f"`mode: {mode}` here: it can do pv gnttab-v1" in error.message
    asyncio.run(provider(mode="pv").check_at_once())


@pytest.mark.parametrize(("cpus", "says"), [("all", "any CPU"), ("0-1", "CPU 0, 1")])
def test_a_dom0_that_floats_is_refused(xen: FakeXl, cpus: str, says: str) -> None:
    xen.say(affinity=["0", cpus])
    error = refusal()
    assert error.kind is errors.XEN_NOT_PINNED
    assert f"dom0's vCPU 1 may run on {says}," in error.message
    assert "dom0_vcpus_pin" in error.hint


def test_a_plain_user_is_refused(xen: FakeXl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert refusal().kind is errors.HOST_NEEDS_ROOT
    assert xen.calls == []


def test_cpus_as_xl_writes_them() -> None:
    assert xl.cpu_set("0-2,5") == {0, 1, 2, 5}
    assert xl.cpu_set("all") is None


def test_of_many_lines_the_first_error_is_the_reason() -> None:
    cascade = "\n".join(f"libxl: error: {number}" for number in range(9))
    summary = xl.first_lines(f"Parsing config from vm.cfg\n{ALWAYS}\n{cascade}\n")
    assert summary == "libxl: error: 0; libxl: error: 1; libxl: error: 2"
    assert xl.first_lines("no such domain\n") == "no such domain"
