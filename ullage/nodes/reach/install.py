"""ullage, put on another machine from this one: a tree over ssh, beside those of other versions."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from ullage.common import commands, processes
from ullage.common.errors import NODE_INSTALL_FAILED, UllageError
from ullage.nodes.reach.openssh import FAILED, Target, last_words
from ullage.nodes.reach.tree import HOME, packed, tree_digest

_SCRIPT: Final = """set -e
umask 022
mkdir -p "$1"
new=$(mktemp -d "$1/.new-XXXXXX")
old=$(mktemp -d "$1/.old-XXXXXX")
trap 'exit 1' HUP INT TERM
trap '[ -e "$1/$2" ] || [ ! -e "$old/$2" ] || mv "$old/$2" "$1/"; rm -rf "$new" "$old"' EXIT
tar -xzf - -C "$new"
chmod 755 "$new"
[ ! -e "$1/$2" ] || mv "$1/$2" "$old/"
mv "$new" "$1/$2"
"""
"""Its words are ours and its arguments are a fixed place and a digest.

One that is there goes aside first: a session that begins meanwhile has a whole tree but for a
moment, and no half of one. It comes back where the new one cannot take its place.
"""
_PATIENCE_S: Final = 600.0


@dataclass(frozen=True)
class Installed:
    """What was put there."""

    digest: str
    sent_bytes: int


async def install(target: Target) -> Installed:
    """Put this version there. One of the errors of nodes says why it cannot be."""
    data, digest = await asyncio.to_thread(packed), tree_digest()
    process = await asyncio.create_subprocess_exec(
        *target.argv(("sh", "-c", _SCRIPT, "sh", str(HOME), digest)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(_PATIENCE_S):
            output = await commands.feed(process, data)
    except TimeoutError:
        output = f"it has not ended within {_PATIENCE_S:g} s".encode()
    finally:
        status = await processes.end(process, group=True)
    if status == 0:
        return Installed(digest, len(data))
    if known := target.refusal(output, status):
        raise known
    if status == FAILED:
        raise target.unreachable(output, status)
    reason = last_words(output)
    raise UllageError(NODE_INSTALL_FAILED, address=target.address, reason=reason)
