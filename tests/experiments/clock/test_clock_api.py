"""`ullage.host.clock` as a program uses it: the own clock, RGAP without a network, and over one."""

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise

import pytest

from ullage.common.clock_reasons import ADVICE
from ullage.host import clock
from ullage.host.clock import (
    Client,
    Correction,
    Drift,
    Fix,
    Global,
    Rules,
    Server,
    Standing,
    Synced,
)

TOKEN = bytes(range(16))


def fix(local_ns: int, offset_ns: int, half_ns: int = 1_000) -> Fix:
    return Fix(
        local_ns=local_ns,
        offset_ns=offset_ns,
        half_ns=half_ns,
        sure_ns=half_ns,
        noise_ns=half_ns,
        rtt_ns=2 * half_ns,
    )


def exchange(
    client: Client, server: Server, towards: Callable[[int], int], standing: Standing | None = None
) -> clock.Outcome:
    """All of a synchronisation: each way takes 500 ns, the server's clock is `there`."""
    now = 1_000
    while True:
        match client.poll(now):
            case ("send", request):
                pending = server.receive(request, towards(now + 500))
                assert pending is not None
                answer = pending.answer(towards(now + 500), standing)
                now += 1_000
                client.receive(answer, now, True)
            case ("done", outcome):
                return outcome
            case other:
                raise AssertionError(other)


def test_values_strictly_increase_and_threads_can_be_compared() -> None:
    values = [clock.now_ns() for _ in range(10_000)]
    assert all(earlier < later for earlier, later in pairwise(values))
    promised = clock.promise().ordered_ns
    if promised is None:
        pytest.skip("this machine's cores are apart")
    seen: list[int] = []
    thread = threading.Thread(target=lambda: seen.append(clock.ordered_ns()))
    before = clock.ordered_ns()
    thread.start()
    thread.join()
    assert before - promised <= seen[0] <= clock.ordered_ns() + promised


def test_stamps_say_what_is_promised() -> None:
    ns, reasons = clock.stamp()
    assert ns > 0
    assert set(clock.promise().reasons) <= set(reasons) <= set(clock.REASONS)
    assert set(clock.check()) <= set(clock.REASONS)
    assert clock.facts().readable or "no-counter" in reasons
    better = clock.refine()
    assert (better.bound_ppb or 0) <= (clock.promise().rate.bound_ppb or 0)


def test_there_is_advice_for_every_reason() -> None:
    assert set(ADVICE) == set(clock.REASONS)


def test_a_line_of_elsewhere_is_refused() -> None:
    line = clock.line()
    with pytest.raises(clock.ApartError):
        clock.adopt(line[1:])
    with pytest.raises(clock.ApartError):
        clock.adopt(bytes([*line[:19], line[19] ^ 1, *line[20:]]))


def test_a_synchronisation_finds_the_offset() -> None:
    outcome = exchange(Client(TOKEN, 1_000), Server(TOKEN), lambda now: now + 123_456)
    assert abs(outcome.fix.offset_ns - 123_456) <= 1
    assert outcome.fix.rtt_ns == 1_000
    assert outcome.stop == "alike"
    assert outcome.counts.answers == outcome.counts.sent == 25
    assert outcome.fix.sure_ns < outcome.fix.half_ns


def test_the_servers_bounds_and_reasons_are_handed_on() -> None:
    standing = Standing(hard_ns=7_000, bound_ns=50, stratum=3, reasons=["moved"])
    outcome = exchange(Client(TOKEN, 1_000), Server(TOKEN), lambda now: now, standing)
    assert outcome.reasons == ("moved",)
    assert outcome.stratum == 3
    assert outcome.fix.half_ns > 7_500
    lost = Standing(hard_ns=None, bound_ns=None)
    assert (lost.hard_ns, lost.bound_ns) == (None, None)
    with pytest.raises(ValueError, match='no reason is called "bored"'):
        Standing(reasons=["bored"])


def test_another_token_gets_no_answer() -> None:
    server = Server(bytes(16))
    match Client(TOKEN, 0).poll(1):
        case ("send", request):
            assert server.receive(request, 5) is None
        case other:
            raise AssertionError(other)
    assert server.receive(b"GET / HTTP/1.0", 5) is None
    assert (server.served.foreign, server.served.malformed, server.served.answered) == (1, 1, 0)
    with pytest.raises(ValueError, match="16 bytes"):
        Server(b"short")


def test_silence_is_a_failure_within_the_patience() -> None:
    client, now = Client(TOKEN, 0, Rules(patience_ns=10_000_000)), 0
    for _ in range(100):
        match client.poll(now):
            case ("wait", until):
                assert until > now
                now = until
            case ("failed", kind):
                assert kind == "no-answer"
                assert now == 10_000_000
                return
    raise AssertionError("it never gave up")


def test_a_global_clock_and_its_correction() -> None:
    second = 1_000_000_000
    first, last = fix(0, 0), fix(10 * second, 100_000)
    once = Global.once(first)
    assert once.rate() is None
    assert once.at(second).hard_ns == pytest.approx(101_000, abs=10)
    rated = Global.fit([first, last])
    rate = rated.rate()
    assert rate is not None
    assert abs(rate[0] - 10_000_000) < 1_000
    correction = Correction(first, last)
    assert correction.residual_ns is None
    correction.check(fix(5 * second, 50_400))
    assert correction.residual_ns == 400
    assert correction.drifted_ns == 100_000
    assert abs(correction.at(5 * second).ns - (5 * second + 50_000)) <= 2


def test_what_cannot_be_is_an_exception() -> None:
    with pytest.raises(clock.ContradictionError):
        Global.fit([fix(0, 0), fix(1_000, 1_000_000)])
    with pytest.raises(clock.ContradictionError):
        Correction(fix(0, 0), fix(1_000, 1_000_000))
    near = [fix(0, 0), fix(1_000, 2_500)]
    with pytest.raises(clock.ContradictionError):
        Global.fit(near)
    assert Global.fit(near, Drift(worst_ppb=1_000_000_000)).rate() is None


@contextmanager
def serving(kind: type[clock.UdpServer] | type[clock.TcpServer]) -> Iterator[str]:
    Synced().lead()
    server = kind("127.0.0.1:0", TOKEN)
    try:
        yield server.address
    finally:
        served = server.stop()
    assert served.answered > 0
    assert not server.running


@pytest.mark.parametrize("protocol", ["udp", "tcp"])
def test_over_a_network_to_oneself(protocol: str) -> None:
    with serving(clock.UdpServer if protocol == "udp" else clock.TcpServer) as address:
        synchronise = clock.synchronise_udp if protocol == "udp" else clock.synchronise_tcp
        outcome = synchronise(address, TOKEN, Rules(time_ns=50_000_000, patience_ns=5_000_000_000))
    assert abs(outcome.fix.offset_ns) <= outcome.fix.half_ns
    assert outcome.stratum == 0


def test_nobody_there() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        host, port = silent.getsockname()
        with pytest.raises(clock.NoAnswerError):
            clock.synchronise_udp(f"{host}:{port}", TOKEN, Rules(patience_ns=20_000_000))
    with pytest.raises(ConnectionRefusedError):
        clock.synchronise_tcp(f"{host}:{port}", TOKEN)
    with pytest.raises(ValueError, match="not an address"):
        clock.synchronise_udp("localhost", TOKEN)


def test_an_address_in_use() -> None:
    server = clock.UdpServer("127.0.0.1:0", TOKEN)
    try:
        with pytest.raises(OSError, match="in use") as failed:
            clock.UdpServer(server.address, TOKEN)
        assert failed.value.errno == 98
    finally:
        server.stop()
    with pytest.raises(RuntimeError):
        server.stop()


def test_all_processes_of_a_host_share_one_synchronisation() -> None:
    synced = Synced()
    synced.lead()
    assert synced.stratum == 0
    share = synced.encode()
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        second = Synced()
        os.write(writer, f"{second.adopt(share)} {second.now().hard_ns} {second.stratum}".encode())
        os._exit(0)
    os.waitpid(child, 0)
    moved, hard, stratum = os.read(reader, 100).decode().split()
    assert int(moved) == 0
    assert stratum == "0"
    now = synced.now()
    assert now.hard_ns is not None
    assert int(hard) <= now.hard_ns, "it grows with time, for all of them alike"
    assert abs(synced.now_ns() - now.ns) < 1_000_000_000
