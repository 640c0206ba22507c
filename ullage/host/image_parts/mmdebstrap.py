"""One Debian root filesystem as a tar, the same bytes for the same packages."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ullage.common import processes
from ullage.common.commands import CommandError, needed, run
from ullage.common.errors import IMAGE_BUILD_FAILED, UllageError

SUITE: Final = "bookworm"
RECIPE: Final = "3"
"""Changes with everything below that changes the bytes of an image."""

INSTANT: Final = 1735689600
"""2025-01-01T00:00:00Z: no file of an image claims to be younger."""

_PACKAGE: Final = re.compile(r"[a-z0-9][a-z0-9+.-]+")
_FORWARDED: Final = re.compile(r"Acquire::(https?::|Check-Valid-Until |Retries )")
_SOURCES: Final = (Path("/etc/apt/sources.list"), Path("/etc/apt/sources.list.d"))
_OPTIONS_INSIDE: Final = "99mmdebstrap"

# A constant: mmdebstrap gives it to `sh -c` with the root directory as $1. It makes the mount
# points that every provider uses, and removes what this host, its mirror and its proxy left, and
# what packages made by chance: PostgreSQL's first cluster, the key that no two images should share.
_HOOK: Final = f"""set -e
cd "$1"
mkdir -p data ullage
: > ullage/agent
chmod 755 data ullage ullage/agent
rm -rf etc/apt/sources.list etc/apt/sources.list.d/* etc/apt/apt.conf.d/{_OPTIONS_INSIDE}
rm -f etc/dpkg/dpkg.cfg.d/{_OPTIONS_INSIDE}
rm -rf var/cache/debconf/*-old var/lib/dpkg/*-old
rm -rf var/lib/apt/lists/* var/cache/apt/*
rm -rf var/lib/postgresql/*/main etc/postgresql/*/main
rm -f etc/ssl/private/ssl-cert-snakeoil.key etc/ssl/certs/ssl-cert-snakeoil.pem
find etc/ssl/certs -xtype l -delete 2>/dev/null || true
mkdir -p var/cache/apt/archives/partial var/lib/apt/lists/partial
chmod -R 755 var/cache/apt var/lib/apt/lists
: > etc/resolv.conf
echo ullage > etc/hostname
printf '127.0.0.1 localhost\\n::1 localhost\\n' > etc/hosts
chmod 644 etc/resolv.conf etc/hostname etc/hosts
"""


_LEAVE_S: Final = 30.0
"""So long may it take its mounts down."""


@dataclass(frozen=True)
class AptSource:
    """One place that apt fetches from."""

    uri: str
    suite: str
    components: tuple[str, ...]
    signed_by: str | None = None
    old: bool = False
    """An archive of an instant: what it says of its own age does not count."""

    def line(self) -> str:
        """As a line of sources.list."""
        options = [f"signed-by={self.signed_by}"] if self.signed_by else []
        options += ["check-valid-until=no"] if self.old else []
        option = f"[{' '.join(options)}] " if options else ""
        return f"deb {option}{self.uri} {self.suite} {' '.join(self.components)}"


async def bootstrap(
    packages: Sequence[str],
    tar: Path,
    work: Path,
    on_progress: Callable[[str], None],
    extra: Sequence[Path] = (),
    *,
    commands: Sequence[Sequence[str]] = (),
    snapshot: str | None = None,
) -> None:
    """Write the root filesystem with these packages to `tar`; `work` is scratch space.

    extra: directories that are copied into its root (`…/opt` becomes `/opt`). commands: run in it
    then, in order. In `work` remains
    `lists`, where apt says what it fetched (`hashes`).

    Fetches from where the host's own apt does, or from `snapshot`, the address of an archive of one
    instant. Raises IMAGE_BUILD_FAILED.
    """
    program = needed("mmdebstrap", "mmdebstrap")
    if os.geteuid() != 0:
        needed("newuidmap", "uidmap")
    for package in packages:
        if not _PACKAGE.fullmatch(package):
            raise UllageError(
                IMAGE_BUILD_FAILED,
                reason=f"{package!r} is not the name of a Debian package",
                suggestion="names are lower-case letters, digits, `+`, `-` and `.`",
            )
    places = (
        host_sources() if snapshot is None else [AptSource(snapshot, SUITE, ("main",), old=True)]
    )
    sources = [source.line() + "\n" for source in places]
    (work / "sources.list").write_text("".join(sources), encoding="utf-8")
    (work / "apt.conf").write_text(await _host_options(), encoding="utf-8")
    status, stderr = await _run(
        *_confined(),
        program,
        "--variant=minbase",
        f"--include={','.join(packages)}",
        # By file: a proxy's address may hold a password, and everybody can read an argv.
        f"--aptopt={work / 'apt.conf'}",
        "--dpkgopt=force-unsafe-io",  # who loses power builds anew: a fifth of the time is syncing
        *(f"--customize-hook=copy-in {shlex.quote(str(path))} /" for path in extra),
        f"--customize-hook=copy-out /var/lib/apt/lists {shlex.quote(str(work))}",
        *(f'--customize-hook=chroot "$1" {shlex.join(argv)}' for argv in commands),
        f"--customize-hook={_HOOK}",
        # The hook does that: what apt leaves depends on whether its own user reaches the place.
        "--skip=cleanup/apt",
        SUITE,
        str(tar),
        *([str(work / "sources.list")] if sources else []),
        work=work,
        on_progress=on_progress,
    )
    if status != 0:
        raise _failure(stderr)


def host_sources() -> list[AptSource]:
    """Where this host's apt gets the suite from; empty: mmdebstrap's own default is right."""
    files = [path for path in _SOURCES if path.is_file()]
    if _SOURCES[1].is_dir():
        files += sorted(_SOURCES[1].iterdir())
    sources: list[AptSource] = []
    for path in files:
        text = path.read_text(encoding="utf-8", errors="replace")
        if path.suffix == ".list":
            sources += one_line_sources(text)
        elif path.suffix == ".sources":
            sources += deb822_sources(text)
    suites = {SUITE, f"{SUITE}-updates", f"{SUITE}-security"}
    # `main` tells Debian's own archive from the others that use its suite names.
    ours = [s for s in sources if s.suite in suites and "main" in s.components]
    if not any(source.suite == SUITE for source in ours):
        return []
    return sorted(
        {AptSource(s.uri, s.suite, ("main",), s.signed_by) for s in ours}, key=AptSource.line
    )


def one_line_sources(text: str) -> Iterator[AptSource]:
    """The entries of a `sources.list` file: sources.list(5), one-line style."""
    for line in text.splitlines():
        match = re.match(r"deb\s+(?:\[([^]]*)\]\s*)?(\S+)\s+(\S+)\s+([^#]*)", line.strip())
        if match:
            signed = re.search(r"signed-by=(\S+)", match[1] or "")
            yield AptSource(
                match[2], match[3], tuple(match[4].split()), _key(signed[1] if signed else "")
            )


def deb822_sources(text: str) -> Iterator[AptSource]:
    """The entries of a `.sources` file: sources.list(5), deb822 style."""
    lines = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    for stanza in re.split(r"\n\s*\n", lines):
        joined = re.sub(r"\n[ \t]+", " ", stanza)
        fields = {
            key.strip().lower(): value.strip()
            for key, colon, value in (line.partition(":") for line in joined.splitlines())
            if colon
        }
        on = fields.get("enabled", "yes").lower() not in {"no", "false", "0"}
        if not on or "deb" not in fields.get("types", "").split():
            continue
        for uri in fields.get("uris", "").split():
            for suite in fields.get("suites", "").split():
                components = tuple(fields.get("components", "").split())
                yield AptSource(uri, suite, components, _key(fields.get("signed-by", "")))


def hashes(lists: Path, versions: Mapping[str, str]) -> dict[str, str]:
    """Package → SHA-256 of the `.deb` that it came from, by the index that apt has checked.

    lists: apt's directory of indices. versions: package → the version that is installed.
    """
    digests: dict[str, str] = {}
    for index in sorted(lists.glob("*_Packages")):
        for stanza in index.read_text(encoding="utf-8", errors="replace").split("\n\n"):
            fields = dict(re.findall(r"^(Package|Version|SHA256): (\S+)$", stanza, re.MULTILINE))
            name = fields.get("Package", "")
            if name in versions and fields.get("Version") == versions[name] and "SHA256" in fields:
                digests[name] = fields["SHA256"]
    return dict(sorted(digests.items()))


def telling_lines(stderr: str) -> list[str]:
    """The lines that say why mmdebstrap failed, without its own follow-up noise."""
    lines = [line.strip() for line in stderr.splitlines() if line.startswith(("E:", "W: Failed"))]
    noise = ("E: setup failed", "E: mmdebstrap failed", "E: run_chroot failed")
    return list(dict.fromkeys(line for line in lines if not line.startswith(noise)))


def _failure(stderr: str) -> UllageError:
    lines = telling_lines(stderr)
    unknown = re.search(r"Unable to locate package (\S+)|Package '?(\S+?)'? has no", stderr)
    if unknown:
        package = unknown[1] or unknown[2]
        suggestion = f"Debian {SUITE} has no package {package}; `apt-cache search` finds names"
    else:
        suggestion = "can this host reach its Debian mirror? try `apt-get update`"
    reason = "; ".join(lines[:3]) or "mmdebstrap failed without a word"
    return UllageError(IMAGE_BUILD_FAILED, reason=reason, suggestion=suggestion)


async def _host_options() -> str:
    """Proxies, certificates and retries of the host's apt, which mmdebstrap does not look at."""
    try:
        dump = await run(["apt-config", "dump"])
    except CommandError:
        return ""
    return "".join(f"{line}\n" for line in dump.splitlines() if _FORWARDED.match(line))


def _confined() -> list[str]:
    """What dies with us and mounts nothing that others see.

    mmdebstrap mounts the host's device nodes in what it builds. Were they still there when its
    half-built tree is removed, the host's own nodes would go. Without root it makes its own
    namespaces, and cannot harm ours.
    """
    command = [needed("setpriv", "util-linux"), "--pdeathsig", "KILL", "--"]
    if os.geteuid() == 0:
        command += [needed("unshare", "util-linux"), "--mount", "--propagation", "private"]
        command += ["--pid", "--fork", "--mount-proc", "--kill-child=SIGKILL", "--"]
    return command


async def _run(*argv: str, work: Path, on_progress: Callable[[str], None]) -> tuple[int, str]:
    """Run mmdebstrap; its exit status and all that it said. Cancelled: it ends at once."""
    environment = {**os.environ, "LC_ALL": "C", "SOURCE_DATE_EPOCH": str(INSTANT)}
    if os.geteuid() == 0:  # else other user ids must be able to reach it
        environment["TMPDIR"] = str(work)
    process = await asyncio.create_subprocess_exec(
        *argv,
        env=environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        limit=1 << 20,
        start_new_session=True,
    )
    assert process.stderr is not None
    printed: list[str] = []
    try:
        async for raw in process.stderr:
            line = raw.decode(errors="replace").rstrip()
            printed.append(line)
            if line.startswith("I: ") and line.endswith("..."):
                on_progress(line.removeprefix("I: ").removesuffix("..."))
        return await process.wait(), "\n".join(printed)
    finally:
        if process.returncode is None:
            # All of them: mmdebstrap alone would wait for its child's work first. As root their
            # mounts go with their namespace; else they must have the time to take them down.
            os.killpg(process.pid, signal.SIGKILL if os.geteuid() == 0 else signal.SIGTERM)
            await processes.ended(process, _LEAVE_S)
            await processes.end(process, group=True)


def _key(signed_by: str) -> str | None:
    return signed_by if re.fullmatch(r"/[\w./+-]+", signed_by) else None
