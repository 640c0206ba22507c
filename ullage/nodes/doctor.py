"""What this host can do, what is missing, and the command that adds it."""

from __future__ import annotations

import asyncio
import os
import shutil
from typing import Any, Final, Literal

from ullage import environments
from ullage.common.errors import UllageError
from ullage.common.packages import install_command
from ullage.environments import Provider
from ullage.environments.agent import client
from ullage.environments.containers.docker import Docker
from ullage.host import cgroups, clock, facts
from ullage.nodes.answers import Finding, Health

WITH_STORE: Final[tuple[Literal["docker", "podman"], ...]] = ("docker", "podman")


async def examine(*, energy: bool = True) -> list[Finding]:
    """Look at the host; nothing is changed, and a small guest may be booted to try KVM.

    energy: look for meters too, which are read on the controller's machine only.
    """
    findings = [_root(), _cpus(), _agent(), _clock(), _cgroups()]
    findings.append(_program("mmdebstrap", "the image"))
    for provider in environments.without_options():
        findings.append(await _provider(provider))
    findings += [await _runtime(runtime) for runtime in WITH_STORE]
    return [*findings, await asyncio.to_thread(_energy)] if energy else findings


def as_json(findings: list[Finding]) -> dict[str, Any]:
    """The same for machines, with the host's facts."""
    return {"host": facts.facts(), "findings": [finding.model_dump() for finding in findings]}


def _root() -> Finding:
    if os.geteuid() == 0:
        return _finding("root", "ok", "all environments and the network are possible")
    return _finding(
        "root",
        "limited",
        "without root: `image: host`, rootless containers and VMs with user networking",
        "run as root for pinned limits, the built image and network workloads",
    )


def _cpus() -> Finding:
    count = len(os.sched_getaffinity(0))
    if count >= 2:
        return _finding("CPUs", "ok", f"{count}")
    return _finding(
        "CPUs", "limited", "one CPU: the two ends of a network workload share it", "use two or more"
    )


def _agent() -> Finding:
    try:
        return _finding("agent", "ok", str(client.binary()))
    except UllageError as error:
        return _finding("agent", "missing", error.message, error.hint)


def _clock() -> Finding:
    try:
        promise = clock.promise()
    except UllageError as error:
        return _finding("clock", "missing", error.message, error.hint)
    if promise.source == "counter" and promise.ordered_ns is not None:
        detail = f"the counter; threads can be compared within {promise.ordered_ns} ns"
        return _finding("clock", "ok", ", ".join([detail, *promise.reasons]))
    return _finding(
        "clock", "limited", ", ".join(promise.reasons), "`ullage clock check` says what to do"
    )


def _cgroups() -> Finding:
    available = sorted(cgroups.available())
    lacking = sorted({"cpuset", "memory", "freezer", "cpu"} - set(available))
    if lacking:
        return _finding(
            "cgroups",
            "limited",
            f"no controller for {', '.join(lacking)}",
            "mount the controllers, or boot with cgroup v2",
        )
    return _finding("cgroups", "ok", ", ".join(available))


def _energy() -> Finding:
    """A machine without any can do all else, so it is no more than limited."""
    # A node has neither the meters nor what they import.
    from ullage.meters import energy  # noqa: PLC0415
    from ullage.meters.energy import discovery  # noqa: PLC0415

    readable = [
        meter.name
        for meter in discovery.find_meters(energy.ENERGY_METERS)
        if meter.state == "readable"
    ]
    if readable:
        return _finding("energy", "ok", f"{', '.join(readable)} can be read here")
    return _finding(
        "energy",
        "limited",
        "no meter can be read here without being told where it is",
        "`ullage meter list` says what each of them needs",
    )


def _program(name: str, purpose: str) -> Finding:
    if path := shutil.which(name):
        return _finding(name, "ok", path)
    return _finding(name, "missing", f"needed for {purpose}", install_command(name))


async def _runtime(runtime: Literal["docker", "podman"]) -> Finding:
    """Nobody needs one: containers are made without it, so it is no more than limited."""
    subject = f"runtime {runtime}"
    try:
        await Docker(runtime).check()
    except UllageError as error:
        return _finding(subject, "limited", error.message, error.hint)
    return _finding(subject, "ok", f"`provider: oci` with `runtime: {runtime}`")


async def _provider(kind: type[Provider]) -> Finding:
    subject = f"provider {kind.name}"
    try:
        provider = kind(kind.options_model())
        await provider.check()
    except UllageError as error:
        state: Health = "limited" if kind.optional else "missing"
        return _finding(subject, state, error.message, error.hint)
    if provider.emulated:
        return _finding(
            subject,
            "limited",
            f"{provider.label()}: no guest boots with KVM here ({provider.why_emulated})",
            "figures that a KVM user would see need a host whose CPU has VT-x or AMD-V, turned on"
            " in its firmware, or passed on by the hypervisor under it",
        )
    return _finding(subject, "ok", provider.label())


def _finding(what: str, state: Health, detail: str, hint: str = "") -> Finding:
    return Finding(what=what, state=state, detail=detail, hint=hint)
