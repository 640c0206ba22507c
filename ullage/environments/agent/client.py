"""The controller's side of the agent's protocol (docs/internals/agent-protocol.md).

An agent may run in a guest that nobody trusts. Whatever it sends is bounded and checked. A peer
that breaks the protocol loses its channel, and who waits on it hears so at once (AGENT_LOST).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.common.faults import first_fault
from ullage.common.text import printable
from ullage.environments.agent import clock as agent_clock
from ullage.environments.agent import files
from ullage.environments.agent.channel import AgentChannel, AgentError
from ullage.environments.agent.clock import (
    Aside,
    ClockClaims,
    ClockLooks,
    ClockMap,
    Look,
    LookReason,
)
from ullage.environments.agent.frames import VERSION, FrameError, Message
from ullage.environments.agent.process import KEEP_BYTES, Command, OutputStream, Process, ProgramEnd
from ullage.environments.agent.transport import Transport, quoted
from ullage.host import claims, clock

LONGEST_TEXT: Final = 200
MOST_CPUS: Final = 1 << 16
WINDOWS_BINARY: Final = Path(__file__).resolve().parents[2] / "bin" / "ullage-agent.exe"
"""`make windows` builds it."""

Text = Annotated[str, AfterValidator(lambda text: printable(text, LONGEST_TEXT))]
WholeNumber = Annotated[int, Field(ge=0, lt=1 << 63)]
CpuId = Annotated[int, Field(ge=0, lt=MOST_CPUS)]


class AgentFacts(BaseModel):
    """The facts that the protocol knows. An agent leaves out or nulls what it cannot tell.

    They are kept in every run's journal, so they are as flat and short as
    docs/internals/agent-protocol.md says, or refused.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    hostname: Text | None = None
    kernel: Text | None = None
    machine: Text | None = None
    os: Text | None = None
    uid: WholeNumber | None = None
    pid: WholeNumber | None = None
    cpus_online: WholeNumber | None = None
    cpus_allowed: Annotated[list[CpuId], Field(max_length=MOST_CPUS)] | None = None
    cpu_model: Text | None = None
    cpu_quota: Annotated[float, Field(ge=0, le=MOST_CPUS)] | None = None
    memory_total_bytes: WholeNumber | None = None
    memory_limit_bytes: WholeNumber | None = None
    clocksource: Text | None = None
    hypervisor: Text | None = None
    init: bool | None = None


def checked(facts: dict[str, Any]) -> dict[str, Any]:
    """The facts, fit to be stored and shown; FrameError when they are not those of the protocol."""
    try:
        return AgentFacts.model_validate(facts).model_dump(exclude_unset=True)
    except ValidationError as error:
        raise FrameError(f"hello: the fact {first_fault(error)}") from None


__all__ = [
    "AgentClient",
    "AgentError",
    "ClockMap",
    "Command",
    "Process",
    "ProgramEnd",
    "binary",
    "printable",
    "windows_binary",
]


def binary() -> Path:
    """The static agent binary on this host. AGENT_BINARY_MISSING when there is none."""
    package = Path(__file__).resolve().parents[2]
    places = [
        package / "bin" / "ullage-agent",
        package.parent / "target/x86_64-unknown-linux-gnu/release/ullage-agent",
    ]
    if configured := os.environ.get("ULLAGE_AGENT"):
        places = [Path(configured)]
    for place in places:
        if place.is_file() and os.access(place, os.X_OK):
            return place.absolute()
    raise UllageError(errors.AGENT_BINARY_MISSING, places=", ".join(map(str, places)))


def windows_binary() -> Path:
    """The agent for Windows on this host. AGENT_BINARY_MISSING."""
    if not WINDOWS_BINARY.is_file():
        raise UllageError(errors.AGENT_BINARY_MISSING, places=WINDOWS_BINARY)
    return WINDOWS_BINARY


class AgentClient:
    """One agent, ready: it has said hello and its clock is known. Made by `connect` or `launch`."""

    def __init__(
        self, channel: AgentChannel, boot_id: str | None = None, aside: Aside | None = None
    ) -> None:
        """boot_id, aside: see `launch`."""
        self.facts: dict[str, Any] = {}
        self.clock_claims: ClockClaims
        self.line: dict[str, str] | None
        """By which programs inside show the agent's time, see `agentclock.own_line`."""
        self.clock: ClockMap
        self.looks: list[Look] = []
        """Those that nobody has taken yet, see `take_looks`."""
        self.greeted_ns = 0
        """When its first word came, on this host's clock."""
        self.rtt_ns = 0
        """The least round trip that a look has seen."""
        self._token = secrets.token_bytes(16)
        self._boot_id = boot_id or claims.boot_id()
        self._offered = b""
        self._apart_ns = 0
        self._aside = aside
        self._series = ClockLooks()
        self._count = 0
        self._turn = asyncio.Lock()
        self._channel = channel
        self._transport: Transport | None = None

    @classmethod
    async def connect(
        cls,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        deadline_s: float = 10,
        name: str = "instance",
        boot_id: str | None = None,
        aside: Aside | None = None,
    ) -> AgentClient:
        """Skip banners, say hello, exchange clocks.

        `name` is the instance's, for messages. AGENT_NOT_STARTED when that takes longer than
        `deadline_s` or goes wrong; the streams are closed then.
        """
        client = cls(AgentChannel(reader, writer, name), boot_id, aside)
        reason = "cancelled"
        try:
            async with asyncio.timeout(deadline_s):
                await client._greet()
            return client
        except TimeoutError:
            reason = f"no hello within {deadline_s:g} s" + quoted(client._channel.banner)
        except UllageError as error:
            reason = str(error.facts.get("reason", error.message)) + quoted(client._channel.banner)
        except BaseException:
            await client.close()
            raise
        await client.close()
        raise UllageError(errors.AGENT_NOT_STARTED, agent=name, reason=reason)

    @classmethod
    async def launch(
        cls,
        argv: Sequence[str],
        *,
        deadline_s: float = 10,
        stderr: Path | None = None,
        env: Mapping[str, str] | None = None,
        name: str = "instance",
        boot_id: str | None = None,
        aside: Aside | None = None,
    ) -> AgentClient:
        """Start a transport program with pipes and connect to the agent at its other end.

        `boot_id` is this kernel's as it is seen inside, where that is another than here: by it the
        agent knows that its clock can be ours. `aside` is another way to its clock. `stderr` gets
        what the transport says there, up to 1 MiB. On failure the transport is killed and the error
        (AGENT_NOT_STARTED) holds the end of what it said.
        """
        transport = await Transport.start(argv, stderr, env, name)
        try:
            client = await cls.connect(
                transport.reader,
                transport.writer,
                deadline_s=deadline_s,
                name=name,
                boot_id=boot_id,
                aside=aside,
            )
        except BaseException as error:
            await transport.end()
            if isinstance(error, UllageError):
                reason = f"{error.facts['reason']}{quoted(transport.tail)}"
                raise UllageError(error.kind, agent=name, reason=reason) from error
            raise
        client._transport = transport
        return client

    @property
    def closed(self) -> bool:
        """True once the channel has ended, from whichever side."""
        return self._channel.failure is not None

    @property
    def pid(self) -> int | None:
        """Process id of the transport program; None when `connect` made the client."""
        return None if self._transport is None else self._transport.pid

    async def transport_status(self) -> int | None:
        """How the transport program ended; None: it has not, or there is none."""
        return None if self._transport is None else await self._transport.ending()

    async def sync(self, why: LookReason = "thaw") -> ClockMap:
        """Look at its clock anew; what happens from now on is told by this look.

        Where the line is shared, one exchange shows that it still is. AGENT_CLOCK when the clock
        cannot be known, or is not what the agent says it is.
        """
        async with self._turn:
            if self.clock_claims.shared and clock.line() != self._offered:
                await self._hello()
            look = await self._look(why)
            if look.shared:
                agent_clock.check_shared(self._channel.agent, look, self._apart_ns)
            else:
                self._series.add(look)
            self.looks.append(look)
            self.rtt_ns = min(self.rtt_ns or look.fix.rtt_ns, look.fix.rtt_ns)
            self.clock = ClockMap(look, apart_ns=self._apart_ns)
            return self.clock

    def take_looks(self) -> list[Look]:
        """All looks since the last call."""
        looks, self.looks = self.looks, []
        return looks

    def residual_ns(self) -> int | None:
        """How far looks at its clock are off a straight line since it last stood still.

        None when there are fewer than three.
        """
        return self._series.residual_ns()

    async def spawn(
        self,
        command: Command,
        *,
        at_ns: int | None = None,
        stdout_path: Path | None = None,
        stderr_path: Path | None = None,
        keep_bytes: int = KEEP_BYTES,
    ) -> Process:
        """Ask for a program; at an instant of the controller's clock, or now.

        Its output goes verbatim to the files as it comes, and is kept in memory up to `keep_bytes`
        a stream. That it runs is known when `Process.started` returns.
        """
        stdout, stderr = (
            OutputStream(stdout_path, keep_bytes),
            OutputStream(stderr_path, keep_bytes),
        )
        process = Process(self._channel, command, lambda: self.clock, stdout, stderr)
        try:
            process.send(at_ns)
        except UllageError:
            stdout.close()
            stderr.close()
            raise
        return process

    async def run(
        self,
        command: Command,
        *,
        at_ns: int | None = None,
        stdout_path: Path | None = None,
        stderr_path: Path | None = None,
        keep_bytes: int = KEEP_BYTES,
    ) -> tuple[ProgramEnd, bytes, bytes]:
        """Run a program to its end: how it ended, standard output, standard error.

        When the waiting is cancelled, the program is killed.
        """
        process = await self.spawn(
            command,
            at_ns=at_ns,
            stdout_path=stdout_path,
            stderr_path=stderr_path,
            keep_bytes=keep_bytes,
        )
        try:
            finished = await process.wait()
        except BaseException:
            process.kill_unheard()
            raise
        return finished, process.stdout, process.stderr

    async def put(self, data: bytes | Path, path: str, mode: int = 0o644) -> None:
        """Write a file inside, from bytes or from a file here. AGENT_CORRUPT unless it is whole."""
        await files.put(self._channel, data, path, mode)

    async def get(self, path: str, limit: int = files.GET_LIMIT) -> bytes:
        """Read a file inside. AgentError when it cannot be read or is longer than `limit` bytes."""
        return await files.get(self._channel, path, limit)

    async def sample(self) -> dict[str, Any]:
        """Counters of the machine inside, as the protocol lists them."""
        answer, _ = await self._channel.call("sample", "sample", lambda answer: answer.fields)
        return {name: value for name, value in answer.items() if name not in {"op", "id"}}

    async def sweep(self) -> int:
        """Kill what ended programs have left running; how many processes that were."""
        killed, _ = await self._channel.call(
            "sweep", "done", lambda answer: answer.integer("killed")
        )
        return killed

    async def bye(self, timeout_s: float = 2) -> None:
        """Ask the agent to kill its children and end, then close; never fails."""
        if not self.closed:
            with contextlib.suppress(UllageError, TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await self._channel.call("bye", "done", lambda _: None)
        await self.close()

    async def hand_over(self) -> tuple[int, int]:
        """The pipes to the agent, for another process that speaks to it from now on.

        To read from, to write to; whoever takes them closes them. `close` still ends the program
        that was launched.
        """
        return await self._channel.hand_over()

    def abandon(self, why: UllageError) -> None:
        """Whoever waits for it hears why it will not answer."""
        self._channel.fail(why)

    async def close(self) -> None:
        """Close the channel, and end the transport program with its process group."""
        await self._channel.close()
        if self._transport is not None:
            await self._transport.end()

    async def _greet(self) -> None:
        await asyncio.wait((self._channel.greeted,))
        self._channel.greeted.result()
        self.greeted_ns = clock.ordered_ns()
        await self._hello()
        await self.sync("connect")

    async def _hello(self) -> None:
        """Say who we are, and offer our line of the counter, should it be on this kernel."""
        self._offered = clock.line()
        offer = agent_clock.offer(self._boot_id, self._offered)
        (self.facts, self.clock_claims, self.line), _ = await self._channel.call(
            "hello", "hello", _hello, version=VERSION, token=self._token.hex(), offer=offer
        )
        self._apart_ns = (
            agent_clock.apart_ns(self.clock_claims, self.facts) if self.clock_claims.shared else 0
        )

    async def _look(self, why: LookReason) -> Look:
        """Exchange clocks; what was found out must all be true of the same two."""
        exchanges, aside = await self._exchanges()
        fixes = [exchange.fix for exchange in exchanges]
        if self._aside is not None and aside:
            fixes[-1] = agent_clock.widened(fixes[-1], self._aside.apart_ns)
        best = min(fixes, key=lambda fix: fix.half_ns)
        if not all(agent_clock.agree(best, fix) for fix in fixes):
            raise self._unknown("what it answers cannot be true of two clocks")
        self._count += 1
        return Look(
            number=self._count,
            why=why,
            shared=self.clock_claims.shared,
            fix=best,
            messages=sum(exchange.counts.sent + exchange.counts.answers for exchange in exchanges),
            took_ns=sum(exchange.took_ns for exchange in exchanges),
            reasons=tuple(dict.fromkeys(name for it in exchanges for name in it.reasons)),
            aside=aside,
        )

    async def _exchanges(self) -> tuple[list[clock.Outcome], bool]:
        """Over the channel, and by the other way last, if there is one: True.

        Where nothing good came of the channel on a busy host, once more for longer.
        """
        if self.clock_claims.shared:
            return [await self._exchange(agent_clock.one_exchange())], False
        if self._aside is not None:
            once = await self._exchange(agent_clock.one_exchange())
            try:
                other = await self._aside.exchange()
            except clock.ContradictionError:
                raise self._unknown("what its machine answers cannot be true of a clock") from None
            if other is not None:
                return [once, self._known(other)], True
        exchanges = [await self._exchange(agent_clock.usual_rules())]
        if exchanges[0].fix.half_ns > agent_clock.WIDE_NS:
            exchanges.append(await self._exchange(agent_clock.patient_rules()))
        return exchanges, False

    async def _exchange(self, rules: clock.Rules) -> clock.Outcome:
        outcome = await self._channel.synchronise(self._token, rules)
        if isinstance(outcome, str):
            if outcome == "contradiction":
                raise self._unknown("what it answers cannot be true of two clocks")
            raise self._unknown("it does not answer for it")
        return self._known(outcome)

    def _known(self, outcome: clock.Outcome) -> clock.Outcome:
        if agent_clock.knows_nothing(outcome):
            raise self._unknown("it does not know the time itself")
        return outcome

    def _unknown(self, reason: str) -> UllageError:
        return UllageError(errors.AGENT_CLOCK, agent=self._channel.agent, reason=reason)


def _hello(hello: Message) -> tuple[dict[str, Any], ClockClaims, dict[str, str] | None]:
    version = hello.integer("version")
    if version != VERSION:
        raise FrameError(f"it speaks version {version}, not {VERSION}")
    facts = checked(hello.mapping("facts"))
    return facts, ClockClaims.read(hello), agent_clock.own_line(hello)
