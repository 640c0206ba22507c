"""Short external programs: run one, take its output, give up after a deadline."""

from __future__ import annotations

import asyncio
import os
import shutil
from asyncio.subprocess import Process
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from ullage.common import processes
from ullage.common.errors import COMMAND_FAILED, HOST_MISSING, UllageError
from ullage.common.packages import install_command
from ullage.common.quantities import format_bytes

SHARE: Final = 0.1
"""Of the wait, until the next look."""
SHORTEST_S: Final = 0.001
"""The event loop's own timer is no finer."""
LONGEST_S: Final = 0.01
MOST_BYTES: Final = 64 << 20
"""Of what a program prints: a guest, or a name that it chose, may stand behind it."""
_PIECE: Final = 1 << 16


def poll_interval_s(waited_s: float, longest_s: float = LONGEST_S) -> float:
    """Seconds until the next look, after waiting for `waited_s`.

    A change is then seen within a tenth of the wait, or SHORTEST_S where that is more, and never
    later than `longest_s`. Looking costs little: some 35 looks in the first 100 ms.
    """
    return min(longest_s, max(SHORTEST_S, SHARE * waited_s))


def needed(program: str, package: str) -> str:
    """Where the program is; HOST_MISSING with what installs it when it is nowhere.

    package: Debian's name of the one that holds it.

    Also looks where system tools stand, which a plain user's PATH may lack.
    """
    path = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))
    location = shutil.which(program, path=path)
    if location is None:
        raise UllageError(HOST_MISSING, what=program, command=install_command(package))
    return location


class CommandError(UllageError):
    """COMMAND_FAILED, unless somebody knows more of it: a program that could not be started,
    failed, or took too long.
    """

    def __init__(self, program: str, status: int | None, reason: str) -> None:
        self.program = program
        self.status = status
        """Exit status; None when it did not start or was stopped at the deadline."""
        self.reason = reason
        super().__init__(COMMAND_FAILED, program=program, reason=reason)

    def __str__(self) -> str:
        return self.message


async def run(
    argv: Sequence[str],
    *,
    stdin: str = "",
    timeout_s: float = 30.0,
    reason: Callable[[str], str] | None = None,
) -> str:
    """Standard output of the program; CommandError with the end of its standard error otherwise.

    reason: what to tell of the standard error instead.
    It has a session of its own: a Ctrl-C is for us alone, who may be tearing down with its help.
    """
    program = argv[0].rpartition("/")[2]
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "LC_ALL": "C"},
            start_new_session=True,
        )
    except OSError as error:
        raise CommandError(program, None, error.strerror or str(error)) from error
    try:
        async with asyncio.timeout(timeout_s):
            out, err = await _talk(process, program, stdin.encode())
    except TimeoutError:
        raise CommandError(program, None, f"no answer after {timeout_s:g} s") from None
    finally:
        # Also when we are cancelled: nobody else would ever wait for it.
        await processes.end(process)
    if process.returncode != 0:
        message = (reason or tail)(err.decode(errors="replace"))
        status = process.returncode
        raise CommandError(program, status, message or f"exit status {status}")
    return out.decode(errors="replace")


async def feed(process: Process, stdin: bytes) -> bytes:
    """Give it all of that, and wait: the end of its standard error, however much it prints."""
    assert process.stderr is not None
    _, err = await asyncio.gather(_tell(process, stdin), ending(process.stderr))
    await process.wait()
    return err


async def outputs(process: Process, program: str) -> tuple[bytes, bytes]:
    """As `Process.communicate`, which keeps whatever a program without an end prints.

    CommandError when its standard output goes beyond a bound; of its complaints the end is kept.
    """
    assert process.stdout is not None and process.stderr is not None
    out, err = await asyncio.gather(_all(process.stdout, program), ending(process.stderr))
    await process.wait()
    return out, err


async def _talk(process: Process, program: str, stdin: bytes) -> tuple[bytes, bytes]:
    _, printed = await asyncio.gather(_tell(process, stdin), outputs(process, program))
    return printed


async def _tell(process: Process, stdin: bytes) -> None:
    assert process.stdin is not None
    with suppress(BrokenPipeError, ConnectionResetError):
        process.stdin.write(stdin)
        await process.stdin.drain()
    process.stdin.close()


async def _all(stream: asyncio.StreamReader, program: str) -> bytes:
    data = bytearray()
    while piece := await stream.read(_PIECE):
        data += piece
        if len(data) > MOST_BYTES:
            raise CommandError(program, None, f"it printed over {format_bytes(MOST_BYTES)}")
    return bytes(data)


async def ending(stream: asyncio.StreamReader) -> bytes:
    """The last of what comes, however much that is."""
    data = b""
    while piece := await stream.read(_PIECE):
        data = (data + piece)[-_PIECE:]
    return data


async def attempt(argv: Sequence[str], *, stdin: str = "", timeout_s: float = 30.0) -> bool:
    """The same where failure is an answer, such as removing what may be gone already."""
    try:
        await run(argv, stdin=stdin, timeout_s=timeout_s)
    except CommandError:
        return False
    return True


def tail(text: str, lines: int = 3) -> str:
    """The last lines that say something, on one line."""
    last = [line.strip() for line in text.splitlines() if line.strip()]
    return "; ".join(last[-lines:])[-600:]
