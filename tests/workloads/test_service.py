"""`service`: a server of the user's, minded by `ullage-load service`, loaded at a stated rate."""

import socket
import sys
import time
from dataclasses import replace
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.support.enginekit import run
from tests.workloads.servicekit import SERVICE, invalid, outputs
from tests.workloads.web_samples import bent
from tests.workloads.workload_runs import context_in, free_port
from ullage.common import errors
from ullage.host import binaries
from ullage.runs.records import ImageConfig
from ullage.workloads.base import InvalidTrialError, Output
from ullage.workloads.web.service import ServiceParameters

SERVER = """\
import http.server, itertools, os, signal, sys, time

host, port, manner = sys.argv[1], int(sys.argv[2]), sys.argv[3]
kept, requests = [], itertools.count(1)


def stop_for_a_second():
    if os.fork() == 0:
        os.kill(os.getppid(), signal.SIGSTOP)
        time.sleep(1)
        os.kill(os.getppid(), signal.SIGCONT)
        os._exit(0)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        number = next(requests)
        if manner == "leaks":
            kept.append(b"x" * (32 << 20))
        if manner == "dies" and number == 5:
            os.kill(os.getpid(), signal.SIGKILL)
        if manner == "stops" and number == 20:
            stop_for_a_second()
        others = {"fails": b"500 Oh", "moves": b"302 Found"}
        status = others.get(manner, b"200 OK")
        self.wfile.write(b"HTTP/1.1 " + status + b"\\r\\nContent-Length: 2\\r\\n\\r\\nhi")

    def log_message(self, *_):
        pass


print("about to listen", flush=True)
http.server.ThreadingHTTPServer((host, port), Handler).serve_forever()
"""


def server(folder: Path, manner: str = "well", host: str = "127.0.0.1", port: int = 0) -> list[str]:
    script = folder / "server.py"
    script.write_text(SERVER)
    return [sys.executable, "-S", str(script), host, str(port), manner]


def parameters(folder: Path, manner: str = "well", **fields: Any) -> ServiceParameters:
    port = free_port()
    usual = {"rate": 100, "time_s": 0.5, "deadline_s": 60, "late_limit_s": 60, "ready_s": 120}
    return ServiceParameters.model_validate(
        {"argv": server(folder, manner, port=port), "port": port, "client": "beside", **usual}
        | fields
    )


def test_a_server_that_does_well(tmp_path: Path) -> None:
    chosen = parameters(tmp_path, ready="/", ready_output="about to listen", rate=400, time_s=1)
    printed = outputs(chosen, tmp_path)
    SERVICE.check(chosen, printed)
    figures = SERVICE.parse(chosen, printed)
    assert set(figures) <= {metric.name for metric in SERVICE.metrics}
    assert figures["errors"] == 0.0
    for name in ("startup", "server_cpu_per_reply", "server_peak_memory", "latency_p95"):
        value = figures[name]
        assert isinstance(value, float) and value > 0, name
    p50, p95, most = (figures[f"latency_{name}"] for name in ("p50", "p95", "max"))
    assert isinstance(p50, float) and isinstance(p95, float) and isinstance(most, float)
    assert p50 <= p95 <= most * 1.01
    assert "about to listen" in printed["server"].stderr


def test_what_a_leak_takes_of_each_answer(tmp_path: Path) -> None:
    chosen = parameters(tmp_path, "leaks", spacing="constant", rate=20, time_s=0.5)
    grown = SERVICE.parse(chosen, outputs(chosen, tmp_path))["server_memory_per_reply"]
    assert isinstance(grown, float) and 32 << 20 <= grown < 40 << 20


def test_what_waited_for_a_server_that_stood_still_has_waited(tmp_path: Path) -> None:
    """For a second nothing is answered. In a closed loop only 16 of 200 requests would notice."""
    chosen = parameters(tmp_path, "stops", spacing="constant", time_s=2)
    printed = outputs(chosen, tmp_path)
    SERVICE.check(chosen, printed)
    figures = SERVICE.parse(chosen, printed)
    points = figures["latency"]
    assert isinstance(points, list)
    # 50 of the 200 were due in the first half of that second, and so waited for the other half.
    assert dict(points)[0.9] >= 0.5


def test_a_server_that_dies_under_load(tmp_path: Path) -> None:
    chosen = parameters(tmp_path, "dies")
    printed = outputs(chosen, tmp_path)
    reason = invalid(chosen, printed)
    assert reason.startswith("the service ended by itself with 'signal 9', ")
    assert "memory" not in reason
    assert "it last printed 'about to listen'" in reason
    killed = {**printed, "server": replace(printed["server"], memory_kills=1)}
    assert "the instance ran out of memory" in invalid(chosen, killed)


def test_a_server_that_answers_with_another_status(tmp_path: Path) -> None:
    """It is ready: 302 is an answer. It is no good one, and the trial says which it was."""
    chosen = parameters(tmp_path, "moves", ready="/")
    reason = invalid(chosen, outputs(chosen, tmp_path))
    assert "requests had an answer: 'status' " in reason
    assert reason.endswith(" (answered 302, not 200: set `path:` or `status:`)")


def test_a_status_may_be_asked_for(tmp_path: Path) -> None:
    chosen = parameters(tmp_path, "fails", status=500)
    SERVICE.check(chosen, outputs(chosen, tmp_path))


def test_a_load_generator_of_ones_own(tmp_path: Path) -> None:
    script = (
        "import urllib.request as r; n = sum(len(r.urlopen('http://{host}:{port}/').read()) "
        "for _ in range(5)); print('letters:', n)"
    )
    metrics = {
        "letters": {"unit": "1", "better": "higher", "primary": True, "regex": "letters: (.*)"}
    }
    chosen = parameters(tmp_path, load=[sys.executable, "-c", script], metrics=metrics)
    printed = outputs(chosen, tmp_path)
    SERVICE.check(chosen, printed)
    figures = SERVICE.parse(chosen, printed)
    assert figures["letters"] == 10.0
    assert set(figures) == {metric.name for metric in SERVICE.metrics_of(chosen)}
    client = replace(printed["client"], stdout="nothing")
    assert "metric letters" in invalid(chosen, {**printed, "client": client})


def minded(options: list[str], argv: list[str]) -> Popen[str]:
    program = [str(binaries.program("ullage-load")), "service", *options, "--", *argv]
    return Popen(program, text=True, stdout=PIPE, stderr=PIPE)


def complaint(process: Popen[str]) -> str:
    stdout, stderr = process.communicate(timeout=120)
    assert process.returncode == 1 and not stdout
    return stderr.strip().rpartition("\n")[2]


UNREADY = r"""
use IO::Socket::IP;
my ($host, $port) = @ARGV;
my $listener = IO::Socket::IP->new(LocalHost => $host, LocalPort => $port, Listen => 9) or die;
while (my $client = $listener->accept) {
    while (<$client>) {
        last if /^\r$/;
    }
    print $client "HTTP/1.1 500 Oh\r\nContent-Length: 2\r\n\r\nno";
    close $client;
}
"""
"""Of every Debian, and up in milliseconds: no test of deadlines may wait for Python to start."""


def test_why_a_server_does_not_get_ready() -> None:
    """All at the same time, as each takes its time."""
    ports = [free_port() for _ in range(5)]

    def case(number: int, host: str, *options: str, to: str = "127.0.0.1") -> Popen[str]:
        argv = ["perl", "-e", UNREADY, host, str(ports[number])]
        return minded(["--address", f"{to}:{ports[number]}", "--within", "8", *options], argv)

    processes = [
        case(0, "127.0.0.1", to="127.0.0.2"),
        case(1, "::1"),
        case(2, "127.0.0.1", "--http", "/health"),
        case(3, "127.0.0.1", "--output", "never said"),
        minded(["--address", f"127.0.0.1:{ports[4]}", "--within", "1"], ["sleep", "60"]),
    ]
    reasons = [complaint(process) for process in processes]
    late = "error: the service: not ready within 8 s: "
    only = "let it listen on 0.0.0.0"
    assert reasons == [
        f"{late}it listens on 127.0.0.1 only, where 127.0.0.2 is asked for: {only}",
        f"{late}it listens on ::1 only, where 127.0.0.1 is asked for: {only}",
        f"{late}it answers /health with status 500",
        f'{late}it has not printed "never said"',
        f"error: the service: not ready within 1 s: nobody listens on port {ports[4]}",
    ]


def test_whose_server_would_be_measured_is_said_before_it_starts(tmp_path: Path) -> None:
    for host, to in (("127.0.0.1", "127.0.0.1"), ("127.0.0.1", "127.0.0.2"), ("::1", "127.0.0.1")):
        port = free_port()
        with Popen(["perl", "-e", UNREADY, host, str(port)]) as other:
            wait_for(host, port)
            touched = tmp_path / "started"
            options = ["--address", f"{to}:{port}"]
            reason = complaint(minded(options, ["touch", str(touched)]))
            other.kill()
        place = f"[{host}]" if ":" in host else host
        by = f"perl (process {other.pid})"
        assert reason == f"error: cannot start the server: {place}:{port} is taken by {by}"
        assert not touched.exists()


def test_who_has_the_port_at_another_address_is_said_of_a_server_that_ends() -> None:
    port = free_port()
    with Popen(["perl", "-e", UNREADY, "127.0.0.3", str(port)]) as other:
        wait_for("127.0.0.3", port)
        argv = ["perl", "-e", UNREADY, "0.0.0.0", str(port)]
        reason = complaint(minded(["--address", f"127.0.0.1:{port}"], argv))
        other.kill()
    assert "it ended with status " in reason
    assert reason.endswith(f"ready; its port is taken by perl (process {other.pid})")


def wait_for(host: str, port: int) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            socket.create_connection((host, port), 5).close()
        except OSError:
            time.sleep(0.02)
        else:
            return
    raise AssertionError(f"nobody listens on {host}:{port}")


def test_a_server_that_ends_at_once_or_is_not_there() -> None:
    options = ["--address", f"127.0.0.1:{free_port()}"]
    ended = complaint(minded(options, ["sh", "-c", "echo no such option >&2; exit 3"]))
    assert ended == "error: the service: it ended with status 3 before it was ready"
    assert "No such file" in complaint(minded(options, ["/nonexistent"]))


def test_a_server_that_goes_to_the_background_is_not_called_anothers() -> None:
    port = free_port()
    behind = "exit if fork; " + UNREADY
    reason = complaint(
        minded(
            ["--address", f"127.0.0.1:{port}", "--output", "never"],
            ["perl", "-e", behind, "127.0.0.1", str(port)],
        )
    )
    assert "it went to the background (perl, process " in reason
    assert reason.endswith("ended with status 0: let it stay in the foreground")


def test_the_signal_of_its_own_ends_it() -> None:
    """An image's STOPSIGNAL."""
    port = free_port()
    script = '$SIG{QUIT} = sub { print STDERR "told to quit\n"; exit };' + UNREADY
    options = ["--address", f"127.0.0.1:{port}", "--stop-signal", "3"]
    with minded(options, ["perl", "-e", script, "127.0.0.1", str(port)]) as minder:
        assert minder.stdout is not None
        assert "ready" in minder.stdout.readline()
        minder.terminate()
        _, stderr = minder.communicate(timeout=120)
    assert "told to quit" in stderr


@pytest.mark.root
@pytest.mark.usefixtures("places_of_its_own")
def test_in_instances_of_a_run(tmp_path: Path) -> None:
    def entry(name: str, manner: str, more: str = "") -> str:
        argv = server(tmp_path, manner, "0.0.0.0", 8080)
        limits = "rate: 50, time_s: 1, deadline_s: 20, late_limit_s: 60, ready_s: 60"
        return f"name: service, as: {name}, argv: {argv}, {limits}{more}"

    entries = [
        entry("well", "well"),
        entry("leaks", "leaks"),
        'name: service, as: ends, argv: [sh, -c, "echo no config >&2; exit 4"]',
    ]
    _, folder = run(tmp_path, entries, blocks=1)
    reasons = {
        name: [trial.reason for trial in folder.trials if trial.workload == name]
        for name in ("well", "leaks", "ends")
    }
    assert all(reason is None for reason in reasons["well"]), reasons
    for reason in reasons["leaks"]:
        assert reason is not None and reason.code == "not-valid"
        assert "ended by itself with 'signal 9'" in reason.message
        assert "the instance ran out of memory" in reason.message
    for reason in reasons["ends"]:
        assert reason is not None and reason.code == "agent-not-ready"
        assert reason.message.startswith(
            "the service: it ended with status 4 before it was ready; before that: no config; "
        )


@pytest.mark.root
@pytest.mark.usefixtures("places_of_its_own")
def test_no_trial_measures_a_server_of_somebody_else(tmp_path: Path) -> None:
    """Without a network of its own native has the host's, with all that listens there."""
    port = free_port()
    entry = f"name: service, argv: {server(tmp_path, port=port)}, port: {port}, client: beside"
    with Popen(["perl", "-e", UNREADY, "127.0.0.1", str(port)]) as other:
        wait_for("127.0.0.1", port)
        _, folder = run(tmp_path, [entry], blocks=1)
        other.kill()
    assert folder.trials
    for trial in folder.trials:
        assert trial.reason is not None and not trial.metrics
        assert trial.reason.code == errors.AGENT_NOT_READY.code
        assert f"is taken by perl (process {other.pid})" in trial.reason.message


@settings(deadline=None, max_examples=50)
@given(st.data())
def test_whatever_the_minder_prints_is_invalid_or_gives_figures(data: st.DataObject) -> None:
    chosen = ServiceParameters.model_validate(
        {
            "argv": ["x"],
            "load": ["y"],
            "metrics": {"n": {"unit": "1", "better": "higher", "primary": True, "line": "last"}},
        }
    )
    good = (
        '{"ready":true,"startup_s":0.1}\n'
        '{"seconds":2.0,"cpu_s":0.5,"ready_peak_bytes":900,"peak_bytes":1000,"processes":1,"ended":null}\n'
    )
    printed = {
        "server": Output(0, None, data.draw(bent(good)), "", 3.0),
        "client": Output(0, None, "7", "", 2.0),
    }
    try:
        SERVICE.check(chosen, printed)
    except InvalidTrialError:
        return
    assert SERVICE.parse(chosen, printed)["n"] == 7.0


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"argv": ["a\x00b"]}, "pattern"),
        ({"path": "health"}, "pattern"),
        ({"path": "/a b"}, "pattern"),
        ({"ready": "/\r\nX: y"}, "pattern"),
        ({"port": 0}, "greater than or equal to 1"),
        ({"rate": 1, "time_s": 1}, "not enough for a median"),
        ({"load": ["wrk"]}, "must be primary"),
        (
            {"metrics": {"x": {"unit": "1", "better": "higher", "line": "last"}}},
            "give load, too",
        ),
        (
            {
                "load": ["x"],
                "metrics": {
                    "errors": {"unit": "1", "better": "lower", "line": "last", "primary": True}
                },
            },
            "errors is a metric of the workload already",
        ),
    ],
)
def test_wrong_parameters(wrong: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        ServiceParameters.model_validate({"argv": ["x"], **wrong})


def test_without_arguments_it_is_the_images_own_server(tmp_path: Path) -> None:
    chosen = ServiceParameters()
    config = ImageConfig(env={"A": "b"}, workdir="/app", entrypoint=("/app/server",), cmd=("-v",))
    context = context_in(tmp_path, SERVICE, chosen)
    minder, client = SERVICE.tasks(chosen, replace(context, image=config))
    assert minder.argv[-3:] == ("--", "/app/server", "-v")
    nothing = {"LANG": "", "LC_ALL": ""}
    assert (minder.cwd, dict(minder.env)) == ("/app", nothing | {"A": "b"})
    assert "--stop-signal" not in minder.argv
    other = config.model_copy(update={"stop_signal": 3, "env": {"LANG": "de_DE.UTF-8"}})
    quits, _ = SERVICE.tasks(chosen, replace(context, image=other))
    assert quits.argv[quits.argv.index("--stop-signal") + 1] == "3"
    assert quits.env == {"LANG": "de_DE.UTF-8", "LC_ALL": ""}
    assert client.cwd is None and not client.env
    assert SERVICE.runs_entry_point(chosen)


def test_titles_are_short() -> None:
    chosen = ServiceParameters(argv=["/app/server"], rate=200)
    assert SERVICE.title(chosen) == "server, 200 requests/s from the host"
