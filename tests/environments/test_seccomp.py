"""Conditions of a containers seccomp profile, resolved for one machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ullage.environments.containers.seccomp import load, resolve

PROFILE: dict[str, Any] = {
    "defaultAction": "SCMP_ACT_ERRNO",
    "defaultErrnoRet": 38,
    "archMap": [
        {"architecture": "SCMP_ARCH_X86_64", "subArchitectures": ["SCMP_ARCH_X86"]},
        {"architecture": "SCMP_ARCH_AARCH64", "subArchitectures": ["SCMP_ARCH_ARM"]},
    ],
    "syscalls": [],
}


def rule(name: str, **conditions: Any) -> dict[str, Any]:
    return {"names": [name], "action": "SCMP_ACT_ALLOW", "comment": "", "args": None, **conditions}


def rules_kept(
    *rules: dict[str, Any], capabilities: tuple[str, ...] = (), **where: str
) -> list[str]:
    resolved = resolve(
        {**PROFILE, "syscalls": list(rules)},
        capabilities,
        where.get("machine", "x86_64"),
        where.get("release", "6.1.0-9-amd64"),
    )
    return [name for entry in resolved["syscalls"] for name in entry["names"]]


def test_capabilities_include_and_exclude() -> None:
    rules = (
        rule("always"),
        rule("admin", includes={"caps": ["CAP_SYS_ADMIN"]}),
        rule("both", includes={"caps": ["CAP_SYS_ADMIN", "CAP_BPF"]}),
        rule("plain", excludes={"caps": ["CAP_SYS_ADMIN"]}),
    )
    assert rules_kept(*rules) == ["always", "plain"]
    assert rules_kept(*rules, capabilities=("CAP_SYS_ADMIN",)) == ["always", "admin"]
    both = ("CAP_SYS_ADMIN", "CAP_BPF")
    assert rules_kept(*rules, capabilities=both) == ["always", "admin", "both"]


def test_architectures() -> None:
    rules = (
        rule("arch_prctl", includes={"arches": ["amd64", "x32"]}),
        rule("sync_file_range2", includes={"arches": ["arm64"]}),
        rule("not_here", excludes={"arches": ["amd64"]}),
    )
    assert rules_kept(*rules) == ["arch_prctl"]
    assert rules_kept(*rules, machine="aarch64") == ["sync_file_range2", "not_here"]
    resolved = resolve(PROFILE, (), "aarch64", "6.1.0")
    assert resolved["architectures"] == ["SCMP_ARCH_AARCH64", "SCMP_ARCH_ARM"]


@pytest.mark.parametrize(
    ("release", "names"),
    [("4.7.10", []), ("4.8.0", ["ptrace"]), ("4.10.1-cloud", ["ptrace"]), ("6.1+x", ["ptrace"])],
)
def test_least_kernel(release: str, names: list[str]) -> None:
    assert rules_kept(rule("ptrace", includes={"minKernel": "4.8"}), release=release) == names


def test_actions_arguments_and_errors_stay_and_conditions_go() -> None:
    argument = {"index": 0, "value": 8, "valueTwo": 0, "op": "SCMP_CMP_EQ"}
    profile = {
        **PROFILE,
        "syscalls": [
            rule("personality", args=[argument], includes={}, excludes={}),
            {"names": ["bpf"], "action": "SCMP_ACT_ERRNO", "errnoRet": 1, "errno": "EPERM"},
        ],
    }
    resolved = resolve(profile, (), "x86_64", "6.1.0")
    assert resolved["defaultAction"] == "SCMP_ACT_ERRNO"
    assert resolved["defaultErrnoRet"] == 38
    assert resolved["syscalls"] == [
        {"names": ["personality"], "action": "SCMP_ACT_ALLOW", "args": [argument]},
        {"names": ["bpf"], "action": "SCMP_ACT_ERRNO", "errnoRet": 1},
    ]


def test_no_profile_is_none_and_one_is_read(tmp_path: Path) -> None:
    assert load((), tmp_path / "none.json") is None
    (tmp_path / "seccomp.json").write_text(json.dumps(PROFILE))
    profile = load((), tmp_path / "seccomp.json")
    assert profile is not None
    assert profile["defaultAction"] == "SCMP_ACT_ERRNO"
