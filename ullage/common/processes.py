"""The end of a child process, whoever still holds its pipes.

`Process.wait` of asyncio returns only when the pipes are closed as well (Python 3.11 to 3.13). A
grandchild that has inherited one, or bytes in it that nobody reads any more, would hold us for
ever.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from asyncio.subprocess import Process
from typing import Final

from ullage.common.errors import PROCESS_STUCK, UllageError

KILLED_S: Final = 10.0
"""So long after SIGKILL is an end awaited: only the kernel keeps a process longer."""
_LOOK_S: Final = 0.05
"""Only where somebody holds its pipes does an end have to be looked for."""


async def ended(process: Process, limit_s: float) -> bool:
    """Wait for the end of the process itself; False when it has not come within the limit."""
    until = time.monotonic() + limit_s
    waiting = asyncio.ensure_future(process.wait())
    try:
        while process.returncode is None and (left_s := until - time.monotonic()) > 0:
            await asyncio.wait({waiting}, timeout=min(left_s, _LOOK_S))
    finally:
        waiting.cancel()
    return process.returncode is not None


async def end(process: Process, *, group: bool = False) -> int:
    """See that it is gone, and let go of its pipes; how it ended. PROCESS_STUCK."""
    try:
        return await kill(process, group=group)
    finally:
        let_go(process)


async def kill(process: Process, *, group: bool = False) -> int:
    """SIGKILL it, or its whole process group, unless it has ended; how it ended.

    PROCESS_STUCK when it is still there KILLED_S later.
    """
    if process.returncode is None:  # else its id may be another's by now
        with contextlib.suppress(ProcessLookupError):
            if group:
                os.killpg(process.pid, signal.SIGKILL)
            else:
                process.kill()
    if not await ended(process, KILLED_S):
        raise UllageError(PROCESS_STUCK, pid=process.pid, seconds=KILLED_S)
    assert process.returncode is not None
    return process.returncode


def let_go(process: Process) -> None:
    """Close our ends of its pipes: who still writes into one gets an error.

    The transport is not public; of a pipe that is read, nothing public leads to its end.
    """
    process._transport.close()  # type: ignore[attr-defined]
