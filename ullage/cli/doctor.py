"""What this host can do, what is missing, and the command that adds it."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from ullage import environments
from ullage.common.errors import HOST_NEEDS_ROOT, SETUP_FAILED, UllageError
from ullage.common.packages import install_command, needed_to_run
from ullage.environments import Provider
from ullage.environments.agent import client
from ullage.environments.containers.docker import Docker
from ullage.host import cgroups, clock, facts
from ullage.meters import energy
from ullage.meters.energy import discovery

Health = Literal["ok", "missing", "limited"]
WITH_STORE: Final[tuple[Literal["docker", "podman"], ...]] = ("docker", "podman")


@dataclass(frozen=True)
class Finding:
    """One line of the doctor's answer."""

    what: str
    state: Health
    detail: str
    hint: str = ""


async def examine() -> list[Finding]:
    """Look at the host; nothing is changed, and a small guest may be booted to try KVM."""
    findings = [_root(), _cpus(), _agent(), _clock(), _cgroups()]
    findings.append(_program("mmdebstrap", "the image"))
    for provider in environments.without_options():
        findings.append(await _provider(provider))
    findings += [await _runtime(runtime) for runtime in WITH_STORE]
    findings.append(await asyncio.to_thread(_energy))
    return findings


def missing_packages() -> list[str]:
    """Debian's names of those that runs call and that this host does not have."""
    states = subprocess.run(
        ["dpkg-query", "--show", "--showformat=${Package} ${Status}\n", *needed_to_run()],
        check=False,
        capture_output=True,
        text=True,
    ).stdout
    installed = {
        line.split()[0] for line in states.splitlines() if line.endswith("install ok installed")
    }
    return [name for name in needed_to_run() if name not in installed]


def install(packages: list[str]) -> None:
    """By apt, whose output is the user's. HOST_NEEDS_ROOT, SETUP_FAILED."""
    if os.geteuid() != 0:
        otherwise = f"have root do this: {install_command(*packages)}"
        raise UllageError(HOST_NEEDS_ROOT, what="installing packages", otherwise=otherwise)
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for words in (["update"], ["install", "-y", "--no-install-recommends", *packages]):
        argv = ["apt-get", "-q", *words]
        status = subprocess.run(argv, check=False, env=quiet, stdout=sys.stderr).returncode
        if status != 0:
            raise UllageError(SETUP_FAILED, command=" ".join(argv), status=status)


def as_json(findings: list[Finding]) -> dict[str, Any]:
    """The same for machines, with the host's facts."""
    return {"host": facts.facts(), "findings": [asdict(finding) for finding in findings]}


def _root() -> Finding:
    if os.geteuid() == 0:
        return Finding("root", "ok", "all environments and the network are possible")
    return Finding(
        "root",
        "limited",
        "without root: `image: host`, rootless containers and VMs with user networking",
        "run as root for pinned limits, the built image and network workloads",
    )


def _cpus() -> Finding:
    count = len(os.sched_getaffinity(0))
    if count >= 2:
        return Finding("CPUs", "ok", f"{count}")
    return Finding(
        "CPUs", "limited", "one CPU: the two ends of a network workload share it", "use two or more"
    )


def _agent() -> Finding:
    try:
        return Finding("agent", "ok", str(client.binary()))
    except UllageError as error:
        return Finding("agent", "missing", error.message, error.hint)


def _clock() -> Finding:
    try:
        promise = clock.promise()
    except UllageError as error:
        return Finding("clock", "missing", error.message, error.hint)
    if promise.source == "counter" and promise.ordered_ns is not None:
        detail = f"the counter; threads can be compared within {promise.ordered_ns} ns"
        return Finding("clock", "ok", ", ".join([detail, *promise.reasons]))
    return Finding(
        "clock", "limited", ", ".join(promise.reasons), "`ullage clock check` says what to do"
    )


def _cgroups() -> Finding:
    available = sorted(cgroups.available())
    lacking = sorted({"cpuset", "memory", "freezer", "cpu"} - set(available))
    if lacking:
        return Finding(
            "cgroups",
            "limited",
            f"no controller for {', '.join(lacking)}",
            "mount the controllers, or boot with cgroup v2",
        )
    return Finding("cgroups", "ok", ", ".join(available))


def _energy() -> Finding:
    """A machine without any can do all else, so it is no more than limited."""
    readable = [
        meter.name
        for meter in discovery.find_meters(energy.ENERGY_METERS)
        if meter.state == "readable"
    ]
    if readable:
        return Finding("energy", "ok", f"{', '.join(readable)} can be read here")
    return Finding(
        "energy",
        "limited",
        "no meter can be read here without being told where it is",
        "`ullage meter list` says what each of them needs",
    )


def _program(name: str, purpose: str) -> Finding:
    if path := shutil.which(name):
        return Finding(name, "ok", path)
    return Finding(name, "missing", f"needed for {purpose}", install_command(name))


async def _runtime(runtime: Literal["docker", "podman"]) -> Finding:
    """Nobody needs one: containers are made without it, so it is no more than limited."""
    subject = f"runtime {runtime}"
    try:
        await Docker(runtime).check()
    except UllageError as error:
        return Finding(subject, "limited", error.message, error.hint)
    return Finding(subject, "ok", f"`provider: oci` with `runtime: {runtime}`")


async def _provider(kind: type[Provider]) -> Finding:
    subject = f"provider {kind.name}"
    try:
        provider = kind(kind.options_model())
        await provider.check()
    except UllageError as error:
        state: Health = "limited" if kind.optional else "missing"
        return Finding(subject, state, error.message, error.hint)
    if provider.emulated:
        return Finding(
            subject,
            "limited",
            f"{provider.label()}: no guest boots with KVM here ({provider.why_emulated})",
            "figures that a KVM user would see need a host whose CPU has VT-x or AMD-V, turned on"
            " in its firmware, or passed on by the hypervisor under it",
        )
    return Finding(subject, "ok", provider.label())
