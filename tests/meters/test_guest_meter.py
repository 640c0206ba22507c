"""Meter `guest`: what a guest's kernel counted, through a real agent; and guests that lie."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.environments.agent.channel import AgentError
from ullage.environments.agent.client import AgentClient, Command
from ullage.meters import guest as guest_module
from ullage.meters.base import Fetch
from ullage.meters.guest import Guest
from ullage.meters.kernel import KernelReading

STAT = """\
cpu  {user} 0 {system} 400 0 {irq} 0 {steal} 0 0
intr {intr} 0 0
ctxt {ctxt}
processes 50
softirq 1000 1 200 3 400 50 0 7 8 9 10
"""
QUIET: Mapping[str, int] = {"user": 0, "system": 0, "irq": 0, "steal": 0, "intr": 9, "ctxt": 9}
DISK = "254 0 vda {0} 0 80 10 20 0 160 10 0 30 100 0 0 0 0 2 4\n254 1 vda1 9 9 9 9 9 9 9 9 9 9 9\n"
SECOND_NS = 10**9
DECLARED = {quantity.name for quantity in Guest.quantities}


class Inside:
    """A guest whose files can be set."""

    def __init__(self, **counts: int) -> None:
        self.files: dict[str, str] = {}
        self.set(**counts)

    def set(self, **counts: int) -> None:
        """Its counters."""
        counters = {**QUIET, **counts}
        self.files["/proc/stat"] = STAT.format(**counters)
        self.files["/proc/diskstats"] = DISK.format(counters.get("reads", 0))

    async def get(self, path: str, limit: int) -> bytes:
        """As an agent answers."""
        if path not in self.files:
            raise AgentError("vm-0", "get", "io", f"{path}: no such file")
        text = self.files[path].encode("utf-8", "surrogatepass")
        if len(text) > limit:
            raise AgentError("vm-0", "get", "too-long", f"{path} is longer than {limit} bytes")
        return text


@pytest.fixture
def ticking(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """The clock stands still, but for what it is told."""
    now = [SECOND_NS]
    monkeypatch.setattr("ullage.meters.guest.clock.ordered_ns", lambda: now[0])

    def go_on(seconds: float) -> None:
        now[0] += round(seconds * SECOND_NS)

    return go_on


def watched(guests: list[Inside], meanwhile: Callable[[], None]) -> dict[str, float]:
    """What the meter sees of them, when so much happens between."""
    fetches: list[Fetch] = [guest.get for guest in guests]

    async def scenario() -> dict[str, float]:
        meter = Guest()
        await meter.ask(fetches)
        meter.begin()
        meanwhile()
        await meter.ask(fetches)
        return meter.end()

    return asyncio.run(scenario())


def test_what_it_counted(ticking: Callable[[float], None]) -> None:
    inside = Inside()

    def work() -> None:
        ticking(2)
        inside.set(user=150, system=30, irq=6, steal=14, intr=1009, ctxt=409, reads=20)

    figures = watched([inside], work)
    assert figures["window"] == 2
    assert figures["guests"] == 1
    assert figures["refused"] == 0
    assert figures["cpu_user"] == 0.75  # of one CPU: 150 ticks of 10 ms in 2 s
    assert figures["cpu_kernel"] == 0.15
    assert figures["cpu_interrupts"] == 0.03
    assert figures["steal"] == 0.07
    assert figures["interrupts"] == 500
    assert figures["context_switches"] == 200
    assert figures["disk_reads"] == 10
    assert "page_faults" not in figures  # this guest has no vmstat
    assert set(figures) <= DECLARED


def test_several_are_added_up(ticking: Callable[[float], None]) -> None:
    first, second = Inside(), Inside()

    def work() -> None:
        ticking(1)
        for guest, stalled in ((first, 100_000), (second, 300_000)):
            guest.set(user=50, intr=109)
            guest.files["/proc/pressure/io"] = f"full avg10=0 total={stalled}\n"

    for guest in (first, second):
        guest.files["/proc/pressure/io"] = "full avg10=0 total=0\n"
    figures = watched([first, second], work)
    assert figures["guests"] == 2
    assert figures["cpu_user"] == 1.0
    assert figures["interrupts"] == 200
    assert figures["psi_io_full"] == 0.3
    assert figures["window"] == 1


@pytest.mark.parametrize(
    "nonsense",
    ["cpu  " + "9" * 5000, "intr ٣٣", "ctxt 99999999999999999999", "\udc80 \x00", "cpu  -1 " * 9],
    ids=["endless", "digits of another script", "over 64 bits", "no text", "negative"],
)
def test_a_file_that_no_kernel_writes_is_left_out_and_said(
    ticking: Callable[[float], None], nonsense: str
) -> None:
    inside = Inside()

    def work() -> None:
        ticking(1)
        inside.set(intr=1009, reads=5)
        inside.files["/proc/stat"] = nonsense + "\n"

    figures = watched([inside], work)
    assert "interrupts" not in figures
    assert "cpu_user" not in figures
    assert figures["disk_reads"] == 5
    assert figures["refused"] == ("-1" not in nonsense)  # that is a line like many: of no numbers


@pytest.mark.parametrize(
    ("before", "after", "lost"),
    [
        ({"intr": 900}, {"intr": 9}, "interrupts"),
        ({}, {"intr": 10**18}, "interrupts"),
        ({"user": 10**9}, {"user": 0}, "cpu_user"),
        ({}, {"steal": 10**15}, "steal"),
        ({"reads": 7}, {"reads": 3}, "disk_reads"),
    ],
)
def test_counters_that_cannot_be_are_left_out(
    ticking: Callable[[float], None], before: dict[str, int], after: dict[str, int], lost: str
) -> None:
    inside = Inside(**before)

    def work() -> None:
        ticking(1)
        inside.set(**{"ctxt": 59, **after})

    figures = watched([inside], work)
    assert lost not in figures
    assert figures["context_switches"] == 50


@given(st.dictionaries(st.sampled_from(guest_module._FILES), st.text(max_size=300), max_size=7))
def test_no_text_at_all_breaks_it(files: dict[str, str]) -> None:
    """Whatever a guest says: what is given is declared, and a number of sensible size."""
    inside = Inside()

    def work() -> None:
        inside.files |= {f"/proc/{name}": text for name, text in files.items()}

    figures = watched([inside], work)
    assert set(figures) <= DECLARED
    assert all(math.isfinite(value) and value >= 0 for value in figures.values())


WORDS = st.lists(st.sampled_from(["0", "7", "9" * 19, "x", "-1", "٣"]), min_size=8, max_size=22)
ROWS = st.fixed_dictionaries(
    {
        "stat": WORDS.map(lambda words: f"cpu  {' '.join(words)}\nsoftirq {' '.join(words)}\n"),
        "diskstats": WORDS.map(lambda words: f" 8 0 vda {' '.join(words)}\n"),
        "net/dev": WORDS.map(lambda words: f"a\nb\neth0: {' '.join(words)}\n"),
    }
)


@given(ROWS, ROWS)
@example(*2 * ({"diskstats": " 8 0 vda 1 2 3 4 5 6 7 8 9 10 x\n"},))
def test_no_row_at_all_breaks_it(before: dict[str, str], after: dict[str, str]) -> None:
    """Nor do rows that are almost those of a kernel."""
    inside = Inside()

    def say(files: dict[str, str]) -> None:
        inside.files |= {f"/proc/{name}": text for name, text in files.items()}

    say(before)
    figures = watched([inside], lambda: say(after))
    assert figures["guests"] == 1  # it can be reckoned with, not only survived
    assert set(figures) <= DECLARED
    assert all(math.isfinite(value) and value >= 0 for value in figures.values())


@pytest.mark.parametrize("where", ["of", "until"])
def test_what_cannot_be_reckoned_with_is_no_figure(
    monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Whatever we may have forgotten of what a guest can say: the run goes on."""

    def stumble(*_: object) -> None:
        raise IndexError

    monkeypatch.setattr(KernelReading, where, stumble)
    assert watched([Inside()], lambda: None) == {}


@pytest.mark.parametrize("died", [0, 1])
def test_of_two_guests_one_died_in_the_work(ticking: Callable[[float], None], died: int) -> None:
    """The sum would be of one: there is none. Nor is one taken for the other."""
    guests = [Inside(), Inside()]

    async def scenario(before: list[Fetch], after: list[Fetch]) -> dict[str, float]:
        meter = Guest()
        await meter.ask(before)
        meter.begin()
        ticking(1)
        await meter.ask(after)
        return meter.end()

    both: list[Fetch] = [guest.get for guest in guests]
    assert asyncio.run(scenario(both, [guests[died].get])) == {}
    assert asyncio.run(scenario([guests[died].get], [guests[1 - died].get])) == {}
    assert asyncio.run(scenario(both, [guest.get for guest in guests[::-1]]))["guests"] == 2


def test_a_guest_that_is_gone_leaves_out_all_of_the_trial(ticking: Callable[[float], None]) -> None:
    inside, second = Inside(), Inside()

    async def gone(path: str, limit: int) -> bytes:
        raise UllageError(errors.AGENT_LOST, agent="vm-0", reason="it closed its channel")

    def work() -> None:
        ticking(1)
        inside.get = gone  # type: ignore[method-assign]

    async def scenario() -> dict[str, float]:
        meter = Guest()
        await meter.ask([inside.get, second.get])
        meter.begin()
        work()
        await meter.ask([inside.get, second.get])
        return meter.end()

    assert asyncio.run(scenario()) == {}


def test_a_guest_that_does_not_answer_is_waited_for_no_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(guest_module, "_PATIENCE_S", 0.01)

    async def silent(path: str, limit: int) -> bytes:
        await asyncio.Event().wait()
        raise AssertionError

    async def scenario() -> dict[str, float]:
        meter = Guest()
        await meter.ask([silent])
        meter.begin()
        await meter.ask([silent])
        return meter.end()

    assert asyncio.run(scenario()) == {}


def test_asked_once_is_no_figure() -> None:
    async def scenario() -> dict[str, float]:
        meter = Guest()
        await meter.ask([Inside().get])
        meter.begin()
        return meter.end()

    assert asyncio.run(scenario()) == {}


def test_known_work_shows_through_a_real_agent(agent_binary: Path) -> None:
    """997 processes, in whatever kernel the agent is on."""

    async def scenario() -> dict[str, float]:
        client = await AgentClient.launch([str(agent_binary), "serve"], deadline_s=60)
        try:
            meter = Guest()
            await meter.ask([client.get])
            meter.begin()
            script = "i=0; while [ $i -lt 997 ]; do (:); i=$((i+1)); done"
            done, _, _ = await client.run(Command(argv=("sh", "-c", script)))
            assert done.status == 0
            await meter.ask([client.get])
            return meter.end()
        finally:
            await client.bye()

    figures = asyncio.run(scenario())
    assert figures["forks"] * figures["window"] >= 997
    assert figures["context_switches"] > 0
    assert figures["cpu_kernel"] > 0
    assert figures["refused"] == 0
    assert figures["asked"] > 0
    assert set(figures) <= DECLARED
