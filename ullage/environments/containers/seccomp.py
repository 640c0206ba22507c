"""The containers project's default seccomp profile, in the form that an OCI runtime takes.

Docker, Podman and CRI-O filter system calls by default, and the filter is part of what a container
costs. Their profile is conditional on capabilities and architecture; the runtime specification's is
not (https://github.com/opencontainers/runtime-spec/blob/v1.0.2/config-linux.md#seccomp), so it is
resolved here for one set of capabilities on this machine.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final

PROFILE: Final = Path("/usr/share/containers/seccomp.json")
"""Of the Debian package golang-github-containers-common."""

_ARCHITECTURES: Final = {
    "x86_64": ("SCMP_ARCH_X86_64", "amd64"),
    "aarch64": ("SCMP_ARCH_AARCH64", "arm64"),
}
"""`uname -m` → libseccomp's name, and Go's, which the profile's conditions use."""


def load(capabilities: Collection[str], profile: Path = PROFILE) -> dict[str, Any] | None:
    """The `linux.seccomp` object; None when there is no profile for this machine."""
    if platform.machine() not in _ARCHITECTURES or not profile.is_file():
        return None
    return resolve(
        json.loads(profile.read_text(encoding="utf-8")),
        capabilities,
        platform.machine(),
        platform.release(),
    )


def resolve(
    profile: Mapping[str, Any], capabilities: Collection[str], machine: str, release: str
) -> dict[str, Any]:
    """Keep the rules whose conditions hold, without their conditions."""
    architecture, go_name = _ARCHITECTURES[machine]
    resolved: dict[str, Any] = {
        "defaultAction": profile["defaultAction"],
        "architectures": [architecture, *_compatible(profile, architecture)],
        "syscalls": [
            _rule(rule)
            for rule in profile["syscalls"]
            if _holds(rule.get("includes") or {}, capabilities, go_name, release)
            and not _excluded(rule.get("excludes") or {}, capabilities, go_name)
        ],
    }
    if profile.get("defaultErrnoRet") is not None:
        resolved["defaultErrnoRet"] = profile["defaultErrnoRet"]
    return resolved


def _compatible(profile: Mapping[str, Any], architecture: str) -> list[str]:
    for entry in profile.get("archMap") or ():
        if entry["architecture"] == architecture:
            return list(entry.get("subArchitectures") or ())
    return []


def _rule(rule: Mapping[str, Any]) -> dict[str, Any]:
    profile_rule: dict[str, Any] = {"names": list(rule["names"]), "action": rule["action"]}
    if rule.get("args"):
        profile_rule["args"] = list(rule["args"])
    if rule.get("errnoRet") is not None:
        profile_rule["errnoRet"] = rule["errnoRet"]
    return profile_rule


def _holds(
    includes: Mapping[str, Any], capabilities: Collection[str], go_name: str, release: str
) -> bool:
    """Every capability, one of the architectures, and at least that kernel."""
    return (
        all(capability in capabilities for capability in includes.get("caps") or ())
        and (not includes.get("arches") or go_name in includes["arches"])
        and _version(includes.get("minKernel") or "0") <= _version(release)
    )


def _excluded(excludes: Mapping[str, Any], capabilities: Collection[str], go_name: str) -> bool:
    """One capability or one architecture is enough."""
    return any(capability in capabilities for capability in excludes.get("caps") or ()) or (
        go_name in (excludes.get("arches") or ())
    )


def _version(text: str) -> tuple[int, ...]:
    """`6.1.0-9-amd64` → (6, 1)."""
    numbers = text.partition("-")[0].split(".")[:2]
    return tuple(int(number) for number in numbers if number.isdigit())
