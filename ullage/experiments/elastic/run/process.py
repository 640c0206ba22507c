"""Programs of ours that a repetition runs on this host: the front and the viewers."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any

from ullage.common.commands import tail
from ullage.common.files import put
from ullage.host import binaries


async def spawn(
    argv: tuple[str, ...],
    config: Path,
    settings: dict[str, Any],
    stderr: Path,
    tag: str,
    **streams: Any,
) -> asyncio.subprocess.Process:
    """Start a program on its settings, which are written to `config`. PROGRAM_MISSING."""
    put(config, json.dumps(settings, indent=1).encode())
    with stderr.open("ab") as file:
        return await asyncio.create_subprocess_exec(
            str(binaries.program(argv[0])),
            *argv[1:],
            "--config",
            str(config),
            stdout=asyncio.subprocess.PIPE,
            stderr=file,
            env={**os.environ, "ULLAGE_TAG": tag},
            start_new_session=True,  # a Ctrl-C is for us alone
            **streams,
        )


def last_words(stderr: Path) -> str:
    """The end of what a program said beside its output; empty where it said nothing."""
    try:
        text = stderr.read_bytes()[-4096:].decode(errors="replace")
    except OSError:
        return ""
    return tail(text).removeprefix("error: ")


def ended(status: int) -> str:
    """How a process ended, in words."""
    if status >= 0:
        return f"it ended with status {status}"
    try:
        return f"it was ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"it was ended by signal {-status}"
