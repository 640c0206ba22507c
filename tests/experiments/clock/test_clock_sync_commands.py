"""`ullage clock serve` and `sync` as a user meets them: real networks, and what goes wrong."""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.experiments.clock.commands_kit import KEY, assert_failed, end, served, ullage, valid
from ullage.cli.main import app
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.common.quantities import many
from ullage.experiments.clock import serve
from ullage.experiments.clock.peer import PORT, VARIABLE, resolve, token
from ullage.experiments.clock.serve import ServeReport
from ullage.experiments.clock.sync import SyncReport, view
from ullage.host import clock


@pytest.mark.parametrize("protocol", [(), ("--tcp",)])
def test_the_offset_of_another_process_is_inside_its_bounds(protocol: tuple[str, ...]) -> None:
    """Its clock is made to be 5 ms ahead and 11.25 ppm fast; the counter beneath is the same."""
    with served(*protocol, "--json", ULLAGE_CLOCK_DISTORT="11250,5000000") as (address, process):
        done = ullage("sync", address, *protocol, "--seconds", "2", "--json")
        server_report = end(process)
    assert done.code == 0, done.stderr
    valid(SyncReport, done.stdout)
    report = SyncReport.model_validate_json(done.stdout)
    assert len(report.synchronisations) >= 3
    for record in report.synchronisations:
        # The two processes began within this of each other's rate, for some seconds.
        assert abs(record.offset_ns - 5_000_000) < record.hard_ns + 400_000, record
    assert {"distorted"} <= set(report.reasons)
    assert report.corrected is not None
    assert all(
        abs(forecast.error_ns) <= (forecast.hard_ns or 0) + forecast.measured_within_ns
        for forecast in report.foretold
    )
    valid(ServeReport, server_report)
    assert ServeReport.model_validate_json(server_report).answered >= 3


def test_how_long_a_synchronisation_may_be() -> None:
    with served() as (address, _):
        six = ("--messages", "6", "--time", "60s")
        done = ullage("sync", address, "--seconds", "0", *six, "--json")
        assert done.code == 0, done.stderr
        (record,) = SyncReport.model_validate_json(done.stdout).synchronisations
        assert (record.stop, record.messages) == ("messages", 6)
        short = ullage("sync", address, "--seconds", "0", "--time", "0.001ms", "--json")
        (record,) = SyncReport.model_validate_json(short.stdout).synchronisations
        assert record.stop == "time"
        wrong = ullage("sync", address, "--time", "soon")
    assert wrong.code == 2 and "--time: a duration such as 500ms" in wrong.stderr


def test_a_server_that_follows_hands_the_roots_time_on() -> None:
    with served(ULLAGE_CLOCK_DISTORT="0,5000000") as (root, _):
        with served("--follow", root, "--json") as (address, process):
            done = ullage("sync", address, "--seconds", "0", "--json")
            report = ServeReport.model_validate_json(end(process))
        assert done.code == 0, done.stderr
    record = SyncReport.model_validate_json(done.stdout).synchronisations[0]
    assert record.stratum == 1
    assert abs(record.offset_ns - 5_000_000) < record.hard_ns + 400_000
    assert (report.follows, report.stratum, report.failed) == (root, 1, 0)
    assert report.bound_ns is not None


def test_a_page_and_words(tmp_path: Path) -> None:
    page = tmp_path / "sync.html"
    with served() as (address, process):
        done = ullage("sync", address, "--quick", "--html", str(page))
        assert "requests answered" in end(process)
    assert done.code == 0, done.stderr
    assert f"The clock at {address} is" in done.stdout
    assert "foretold" in done.stdout
    text = page.read_text()
    assert f"The clock at {address} is" in text
    assert "vegaEmbed" in text
    assert "How the bounds grow" in text


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP, signal.SIGINT])
def test_what_was_measured_is_told_however_it_ends(how: signal.Signals) -> None:
    """The server dies or stands still, or the client is interrupted."""
    argv = [sys.executable, "-m", "ullage", "clock", "sync", "--seconds", "60", "--json"]
    with served() as (address, process):
        client = subprocess.Popen(
            [*argv, address], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert client.stderr is not None
        assert client.stderr.readline().startswith("synchronising with ")
        time.sleep(2)
        (client if how is signal.SIGINT else process).send_signal(how)
        stdout, stderr = client.communicate(timeout=30)
    valid(SyncReport, stdout)
    report = SyncReport.model_validate_json(stdout)
    assert report.synchronisations
    if how is signal.SIGINT:
        assert (client.returncode, report.ended, stderr) == (130, "interrupted", "")
        return
    assert (client.returncode, report.ended) == (1, "failed")
    assert f"error[{errors.CLOCK_STOPPED_ANSWERING.code}]" in stderr
    count = len(report.synchronisations)
    assert f"stopped answering after {many(count, 'synchronisation')}: " in stderr
    assert "token" not in stderr


@pytest.mark.parametrize("seconds", ["inf", "nan", "1e30", "-1"])
@pytest.mark.parametrize("command", ["sync", "serve"])
def test_seconds_end(command: str, seconds: str) -> None:
    done = CliRunner().invoke(app, ["clock", command, "127.0.0.1:1", "--seconds", seconds])
    assert done.exit_code == errors.ExitCode.BAD_INPUT
    assert "a finite number of seconds from 0 to a year" in done.output


def test_the_explicit_option_wins() -> None:
    with served() as (address, _):
        done = ullage("sync", address, "--quick", "--seconds", "0")
    assert "1 synchronisation over UDP" in done.stdout
    assert "Stopped by " in done.stdout


@pytest.mark.parametrize("name", ["none/page.html", "."])
def test_a_page_that_cannot_be_is_refused_before_measuring(tmp_path: Path, name: str) -> None:
    done = ullage("cost", "--html", str(tmp_path / name))
    assert_failed(done, errors.FILE_FAILED)
    assert done.stderr.splitlines()[0].startswith(f"error[file-failed]: {tmp_path / name}: ")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["fast", "1,", "1,2,3", "1000001", "1.5", "0,9223372036854775808"])
def test_a_distortion_that_nobody_understands(text: str) -> None:
    done = ullage("cost", "--quick", ULLAGE_CLOCK_DISTORT=text)
    assert_failed(done, errors.CLOCK_BAD_DISTORTION)


@pytest.mark.parametrize("text", ["", "11250", "-50, -1000", "+1,-9223372036854775808"])
def test_a_distortion_that_is_meant(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(clock.VARIABLE, text)
    clock.check()


def stopped(pid: int) -> list[bool]:
    """Of each of its threads."""
    stats = (path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/stat"))
    return [stat.rpartition(") ")[2].startswith("T") for stat in stats]


def test_a_lost_server_is_told_of_once_and_again_when_it_is_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The server is stopped as a machine would be that hangs."""
    monkeypatch.setattr(serve, "FOLLOW_EVERY_S", 0.0)
    warnings: list[str] = []
    with served() as (address, process):
        follower = serve.Follower(
            resolve(address), bytes.fromhex(KEY), tcp=False, warn=warnings.append
        )
        process.send_signal(signal.SIGSTOP)
        while not all(stopped(process.pid)):  # its other threads only by and by
            time.sleep(0.01)
        follower.go_on()
        follower.go_on()
        assert follower.failed == 2
        assert len(warnings) == 1
        process.send_signal(signal.SIGCONT)
        while follower.failed == follower.done:
            follower.go_on()
    assert warnings[1:] == [f"{address} answers again"]


def test_bounds_that_are_the_same_are_told_once() -> None:
    with served() as (address, _):
        done = ullage("sync", address, "--seconds", "0", "--json")
    report = SyncReport.model_validate_json(done.stdout)
    (record,) = report.synchronisations
    for bound, offset, words in (
        (record.hard_ns, -5, "5 ns behind this one, ± "),
        (1, 5, "99.9 %"),
    ):
        changed = record.model_copy(update={"bound_ns": bound, "offset_ns": offset})
        answer = view(report.model_copy(update={"synchronisations": [changed]})).answer[0]
        assert words in answer
        assert ("99.9 %" in answer) is (bound == 1)


def test_another_token() -> None:
    foreign = KEY[::-1]
    with served() as (address, process):
        assert_failed(
            ullage("sync", address, "--seconds", "0", ULLAGE_CLOCK_TOKEN=foreign),
            errors.CLOCK_NO_ANSWER,
        )
        assert " 0 requests answered" in f" {end(process)}"
    with served("--tcp") as (address, _):
        assert_failed(
            ullage("sync", address, "--tcp", ULLAGE_CLOCK_TOKEN=foreign), errors.CLOCK_TURNED_AWAY
        )


def test_nobody_there() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        assert_failed(ullage("serve", address), errors.CLOCK_CANNOT_SERVE)
        assert_failed(ullage("sync", address, "--tcp"), errors.CLOCK_REFUSED)
    assert_failed(ullage("sync", address), errors.CLOCK_REFUSED)
    assert_failed(ullage("sync", "255.255.255.255"), errors.CLOCK_UNREACHABLE)


@contextmanager
def liar(honest: int) -> Iterator[str]:
    """A server whose clock jumps by a second at every answer, after so many synchronisations."""
    server, over = clock.Server(bytes.fromhex(KEY)), threading.Event()
    clock.ordered_ns()  # the first reading measures the counter's rate, which takes its time
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.settimeout(0.1)

        def lie() -> None:
            clients, lies = set(), 0
            while not over.is_set():
                try:
                    data, client = listening.recvfrom(200)
                except TimeoutError:
                    continue
                clients.add(client)
                lies += len(clients) > honest
                now = clock.ordered_ns() + lies * 1_000_000_000
                pending = server.receive(data, now)
                assert pending is not None
                listening.sendto(pending.answer(now), client)

        thread = threading.Thread(target=lie)
        thread.start()
        try:
            yield f"127.0.0.1:{listening.getsockname()[1]}"
        finally:
            over.set()
            thread.join()


def test_a_liar() -> None:
    """Where the machine is busy, the first synchronisation may have one answer only."""
    with liar(honest=0) as address:
        done = ullage("sync", address, "--seconds", "3")
    assert done.code == errors.CLOCK_CONTRADICTION.exit_code
    assert f"error[{errors.CLOCK_CONTRADICTION.code}]" in done.stderr


def test_one_who_lies_in_the_end() -> None:
    """What was measured before is told."""
    with liar(honest=1) as address:
        done = ullage("sync", address, "--seconds", "60", "--json")
    assert done.code == errors.CLOCK_CONTRADICTION.exit_code
    assert f"error[{errors.CLOCK_CONTRADICTION.code}]" in done.stderr
    report = SyncReport.model_validate_json(done.stdout)
    assert report.synchronisations
    assert report.ended == "contradicted"
    assert f"{address} answers cannot be true: {report.failure}" in done.stderr


@pytest.mark.parametrize(
    "text", ["", ":7000", "127.0.0.1:70000", "no.such.host.invalid", "a:b:c", "a:" + "9" * 5000]
)
def test_no_address(text: str) -> None:
    with pytest.raises(UllageError) as refused:
        resolve(text)
    assert refused.value.kind is errors.CLOCK_BAD_ADDRESS


def test_what_is_wrong_with_an_address() -> None:
    for text, reason in (("h:http", "port is not a number"), ("::1", "write [::1]")):
        with pytest.raises(UllageError, match=re.escape(reason)):
            resolve(text)


def test_addresses() -> None:
    assert str(resolve("127.0.0.1")) == f"127.0.0.1:{PORT}"
    assert str(resolve("127.0.0.1:0")) == "127.0.0.1:0"
    assert str(resolve("[::1]:5")) == "[::1]:5"


def test_tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert token(None) == bytes.fromhex(KEY)
    file = tmp_path / "token"
    created = token(file, create=True)
    assert file.stat().st_mode & 0o777 == 0o600
    assert token(file, create=True) == token(file) == created
    file.write_text("secret")
    for where in (file, None):
        monkeypatch.setenv(VARIABLE, KEY[1:])
        with pytest.raises(UllageError) as refused:
            token(where)
        assert refused.value.kind is errors.CLOCK_BAD_TOKEN
    assert "secret" not in str(refused.value)
    monkeypatch.delenv(VARIABLE)
    for where in (tmp_path / "none", None):
        with pytest.raises(UllageError) as refused:
            token(where)
        assert refused.value.kind is errors.CLOCK_NO_TOKEN


def test_token_files_that_are_refused(tmp_path: Path) -> None:
    file, fifo = tmp_path / "token", tmp_path / "fifo"
    os.mkfifo(fifo, 0o600)
    for where in (fifo, Path("/dev/zero")):
        with pytest.raises(UllageError, match="not a regular file") as refused:
            token(where)
        assert refused.value.kind is errors.CLOCK_NO_TOKEN
    file = tmp_path / "my token"
    token(file, create=True)
    file.chmod(0o640)
    with pytest.raises(UllageError) as refused:
        token(file)
    assert refused.value.kind is errors.CLOCK_TOKEN_EXPOSED
    assert f"`chmod 600 '{file}'`" in refused.value.hint
    file.chmod(0o600)
    file.write_text(KEY + " " * 2000)
    with pytest.raises(UllageError) as refused:
        token(file)
    assert refused.value.kind is errors.CLOCK_BAD_TOKEN
