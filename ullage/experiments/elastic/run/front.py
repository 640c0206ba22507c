"""The front, as the controller sees it: a process that asks for nodes, and is started again."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
import urllib.request
from collections.abc import AsyncIterator
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final, NoReturn
from urllib.error import HTTPError, URLError

from pydantic import BaseModel, ConfigDict, ValidationError

from ullage.common import processes
from ullage.common.errors import (
    ELASTIC_FRONT_DIED,
    ELASTIC_FRONT_NOT_STARTED,
    ELASTIC_FRONT_SILENT,
    UllageError,
)
from ullage.experiments.elastic.folder import FRONT_CONFIG, FRONT_STDERR
from ullage.experiments.elastic.run.process import ended, last_words, spawn
from ullage.host import claims, clock

PROGRAM: Final = "ullage-front"
_START_S: Final = 60.0
_QUIT_S: Final = 30.0
_LONGEST_LINE: Final = 1 << 20


class _Line(BaseModel):
    """A line of its standard output; fields that we do not know do not matter."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    listening: str | None = None
    clock: str | None = None
    at_ns: int = 0
    allocate: int | None = None
    release: int | None = None


@dataclass(frozen=True)
class Wish:
    """The front wants a node more, or one less."""

    node: int
    release: bool
    at_ns: int


@dataclass(frozen=True)
class Restarted:
    """The front had died and is back, with what its log remembers."""

    ended_ns: int
    back_ns: int
    how: str


class Front:
    """One front over a repetition, however often its process dies."""

    def __init__(self, settings: dict[str, Any], folder: Path, tag: str, restarts: int) -> None:
        self.settings = dict(settings)
        self.folder = folder
        self.tag = tag
        self.address = ""
        """`ip:port`: the same after a restart, for viewers to carry on."""
        self.deaths: list[str] = []
        self.shares_clock = True
        """Its instants are on our clock, as they have been all the time."""
        self._restarts = restarts
        self._quitting = False
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int:
        """Of the process that runs now, or ran last."""
        assert self._process is not None
        return self._process.pid

    @property
    def up(self) -> bool:
        """It runs, as far as we have heard."""
        return self._process is not None and self._process.returncode is None

    async def start(self) -> None:
        """Start it, and wait until it listens. ELASTIC_FRONT_NOT_STARTED, PROGRAM_MISSING."""
        # Anew each time: the line of our clock has gone on since.
        self.settings["clock"] = shared_clock()
        self._process = await spawn(
            (PROGRAM,),
            self.folder / FRONT_CONFIG,
            self.settings,
            self.folder / FRONT_STDERR,
            self.tag,
            stdin=asyncio.subprocess.PIPE,
            limit=_LONGEST_LINE,
        )
        line: _Line | None = None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_START_S):
                line = await self._line()
        if line is None or line.listening is None:
            how = await self._kill()
            raise UllageError(ELASTIC_FRONT_NOT_STARTED, reason=self._last_words() or how)
        self.address = self.settings["listen"] = line.listening
        self.shares_clock &= line.clock == "shared"

    async def messages(self) -> AsyncIterator[Wish | Restarted]:
        """What it wants, until it is told to quit. ELASTIC_FRONT_DIED when it dies too often."""
        while True:
            line = await self._line()
            if line is None:
                ended_ns = clock.ordered_ns()
                how = await self._kill()
                if self._quitting:
                    return
                await self._again(how)
                yield Restarted(ended_ns, clock.ordered_ns(), how)
            elif line.allocate is not None:
                yield Wish(line.allocate, release=False, at_ns=line.at_ns)
            elif line.release is not None:
                yield Wish(line.release, release=True, at_ns=line.at_ns)

    async def _again(self, how: str) -> None:
        """Start it again, as often as it may die; ELASTIC_FRONT_DIED."""
        while not self._quitting:
            self.deaths.append(how)
            if len(self.deaths) > self._restarts:
                raise UllageError(
                    ELASTIC_FRONT_DIED, times=len(self.deaths), how=how, stderr=self._last_words()
                )
            try:
                await self.start()
                break
            except UllageError as error:
                if error.kind is not ELASTIC_FRONT_NOT_STARTED:
                    raise
                how = str(error.facts["reason"])
        if self._quitting:  # it was told to while this one came up
            await self._kill()

    def tell(self, **fields: object) -> None:
        """A line to its standard input; lost when it has just died, see `Restarted`."""
        process = self._process
        if process is None or process.stdin is None or process.stdin.is_closing():
            return
        with contextlib.suppress(OSError):
            process.stdin.write(json.dumps(fields).encode() + b"\n")

    async def quit(self) -> None:
        """Tell it to end, and see that it does; ends `messages`."""
        self._quitting = True
        if self._process is None:
            return
        self.tell(quit=True)
        await processes.ended(self._process, _QUIT_S)
        await self._kill()

    async def give_up(self) -> None:
        """End it without a word, and do not start it again; ends `messages`."""
        self._quitting = True
        if self.up:
            assert self._process is not None
            await processes.end(self._process)

    async def _line(self) -> _Line | None:
        """The next line that can be understood; None at the end of its output."""
        assert self._process is not None and self._process.stdout is not None
        while True:
            try:
                line = await self._process.stdout.readline()
            except (ValueError, OSError):  # a line without end
                return None
            if not line.endswith(b"\n"):
                return None
            with contextlib.suppress(ValidationError):
                return _Line.model_validate_json(line)

    async def _kill(self) -> str:
        """See that it is gone; how it ended."""
        process = self._process
        assert process is not None
        await processes.ended(process, 1.0)  # its output ends a moment before it does
        return ended(await processes.end(process))

    def _last_words(self) -> str:
        return last_words(self.folder / FRONT_STDERR)


def shared_clock() -> dict[str, str]:
    """Our line of the counter, for a program on this kernel to take over."""
    return {"boot_id": claims.boot_id(), "line": clock.line().hex()}


_HTTP_S: Final = 10.0
_LOOK_S: Final = 1.0
_DIRECTLY: Final = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""The front is on this host, whatever proxy its user has."""


async def silence(front: Front, limit_s: float) -> NoReturn:
    """End the front that runs and answers nobody for so long. ELASTIC_FRONT_SILENT.

    One that died is another matter: `Front.messages` starts it again.
    """
    heard = time.monotonic()
    while True:
        patience_s = min(_HTTP_S, limit_s)
        if not front.up or await asyncio.to_thread(_heard, front.address, patience_s):
            heard = time.monotonic()
        elif (silent_s := time.monotonic() - heard) > limit_s:
            await front.give_up()
            raise UllageError(ELASTIC_FRONT_SILENT, seconds=silent_s)
        await asyncio.sleep(min(_LOOK_S, limit_s))


async def moving(address: str) -> bool:
    """Does a node come or go, as the front sees it? True too when it does not answer: it starts."""
    state = await asyncio.to_thread(_state, address)
    try:
        return state is None or any(n["state"] in ("coming", "leaving") for n in state["nodes"])
    except (KeyError, TypeError):
        return True


def _heard(address: str, patience_s: float) -> bool:
    """Does it answer at all? One whose connections are all in use refuses, and closes: it works."""
    try:
        return _read_state(address, patience_s) is not None
    except (HTTPError, ConnectionResetError):
        return True
    except URLError as error:
        return isinstance(error.reason, ConnectionResetError)
    except (OSError, HTTPException, ValueError):
        return False


def _state(address: str) -> dict[str, Any] | None:
    """What it says of itself; None: it does not answer."""
    try:
        return _read_state(address, _HTTP_S)
    except (OSError, HTTPException, ValueError):
        return None


def _read_state(address: str, patience_s: float) -> dict[str, Any] | None:
    with _DIRECTLY.open(f"http://{address}/state", timeout=patience_s) as answer:
        state = json.load(answer)
    return state if isinstance(state, dict) else None
