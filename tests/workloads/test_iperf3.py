"""`iperf3` over this host's loopback."""

import json
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.workloads.iperf3kit import IPERF3, bent, bent_anywhere, sample
from tests.workloads.workload_runs import checked, context_in, free_port, printing, run
from ullage.environments.agent.process import KEEP_BYTES
from ullage.workloads.base import InvalidTrialError, Output
from ullage.workloads.network.iperf3 import LONGEST_RESULT, Iperf3Parameters

DATA = Path(__file__).parent / "data" / "iperf3"
NEEDED = (
    "start",
    "start.version",
    "start.connecting_to.port",
    "start.sock_bufsize",
    "start.test_start.protocol",
    "start.test_start.num_streams",
    "start.test_start.omit",
    "start.test_start.duration",
    "start.test_start.reverse",
    "end",
    "end.streams",
    "end.sum_sent.seconds",
    "end.sum_received",
    "end.sum_received.bytes",
    "end.sum_received.seconds",
    "end.sum_received.bits_per_second",
    "end.cpu_utilization_percent.host_total",
    "end.cpu_utilization_percent.remote_total",
    "end.sender_tcp_congestion",
    "end.receiver_tcp_congestion",
)


UDP = {"loss", "jitter"}


def refused(outputs: dict[str, Output]) -> str:
    with pytest.raises(InvalidTrialError) as caught:
        IPERF3.check(sample()[0], outputs)
    return str(caught.value)


def test_a_real_run_gives_its_figures() -> None:
    parameters, outputs = sample()
    figures = checked(IPERF3, parameters, outputs)
    assert set(figures) == {metric.name for metric in IPERF3.metrics} - UDP
    end = json.loads(outputs["client"].stdout)["end"]
    assert figures["throughput"] == end["sum_received"]["bits_per_second"]
    share = end["cpu_utilization_percent"]["host_total"] / 100
    assert figures["per_instance_cpu"] == figures["throughput"] / share


def test_the_congestion_control_that_was_used_is_kept() -> None:
    facts = IPERF3.facts(*sample())
    assert facts["sender_congestion"] == facts["receiver_congestion"] == "reno"
    assert facts["version"].startswith("iperf 3.")


@pytest.mark.parametrize(
    "fields",
    [
        {"direction": "receive", "omit_s": 1},
        {"direction": "receive", "streams": 10, "congestion": None},
        {"window": "256KiB"},
        {"bitrate": 50_000_000},
        {"protocol": "udp", "direction": "receive", "omit_s": 1},
    ],
)
def test_other_ways(tmp_path: Path, fields: dict[str, Any]) -> None:
    parameters = Iperf3Parameters(port=free_port(), **fields)
    checked(IPERF3, parameters, run(IPERF3, parameters, tmp_path))


@pytest.mark.parametrize(
    "change",
    [
        {"streams": 3},
        {"time_s": 2},
        {"omit_s": 1},
        {"direction": "receive"},
        {"congestion": "cubic"},
        {"window": "1MiB"},
        {"bitrate": 1000},
        {"port": 1},
    ],
)
def test_another_test_is_not_what_was_asked(change: dict[str, Any]) -> None:
    parameters, outputs = sample()
    requested = Iperf3Parameters(**{**parameters.model_dump(), **change})
    with pytest.raises(InvalidTrialError, match="asked for"):
        IPERF3.check(requested, outputs)


def test_an_error_is_invalid_although_the_status_is_0(tmp_path: Path) -> None:
    parameters = Iperf3Parameters(port=free_port())
    (_, task) = IPERF3.tasks(parameters, context_in(tmp_path, IPERF3, parameters))
    done = subprocess.run(task.argv, capture_output=True, text=True, check=False)
    outputs = {"client": Output(done.returncode, None, done.stdout, done.stderr, 1.0)}
    assert done.returncode == 0
    with pytest.raises(InvalidTrialError, match="unable to connect to server"):
        IPERF3.check(parameters, outputs)


@pytest.mark.parametrize("path", NEEDED)
def test_every_field_is_needed(path: str) -> None:
    assert refused(bent(path, ...))
    assert refused(bent(path, None))
    assert refused(bent(path, {}))


@pytest.mark.parametrize("path", [path for path in NEEDED if "sum_received." in path])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1, 0, "1", True, 10**400])
def test_figures_must_be_figures(path: str, value: Any) -> None:
    assert refused(bent(path, value))


@pytest.mark.parametrize("value", [10**400, 2**63, -1])
@pytest.mark.parametrize(
    "path",
    [
        *(path for path in NEEDED if path.split(".")[-1] in {"port", "sock_bufsize", "bytes"}),
        *(path for path in NEEDED if path.startswith("start.test_start.") and "proto" not in path),
        "end.sum_sent.bytes",
        "end.sum_sent.retransmits",
    ],
)
def test_no_integer_is_larger_than_any_count(path: str, value: int) -> None:
    assert path.rsplit(".", maxsplit=1)[-1] in refused(bent(path, value))


def test_bytes_that_agree_beyond_all_reason() -> None:
    """So large that they fit no float: the rate could not even be computed."""
    parameters, outputs = sample()
    end = (result := json.loads(outputs["client"].stdout))["end"]
    for stream in end["streams"]:
        stream["receiver"]["bytes"] = 10**400
    end["sum_received"]["bytes"] = parameters.streams * 10**400
    assert "receiver.bytes" in refused(printing(outputs, "client", json.dumps(result)))


def test_the_output_does_not_grow_with_the_length(tmp_path: Path) -> None:
    """A trial whose output was cut fails: a day of 128 streams must stay below what is kept."""
    parameters = Iperf3Parameters(streams=128, port=free_port())
    outputs = run(IPERF3, parameters, tmp_path)
    # Not all that a check wants: on a busy machine 128 streams end late.
    assert len(whole(outputs)["end"]["streams"]) == 128
    assert len(outputs["client"].stdout) < LONGEST_RESULT / 2 < KEEP_BYTES
    assert len(whole(outputs)["intervals"]) <= 1
    omitted = Iperf3Parameters(time_s=2, omit_s=1, port=free_port())
    longer = whole(run(IPERF3, omitted, tmp_path))
    assert longer["start"]["test_start"]["omit"] == 1
    assert len(longer["end"]["streams"]) == omitted.streams
    assert len(longer["intervals"]) <= 1


def whole(outputs: Mapping[str, Output]) -> Any:
    """What the client printed, of a test that came to its end."""
    assert outputs["client"].status == 0
    result = json.loads(outputs["client"].stdout)
    assert "error" not in result
    return result


def test_figures_that_contradict_each_other() -> None:
    received = json.loads(sample()[1]["client"].stdout)["end"]["sum_received"]
    rate = bent("end.sum_received.bits_per_second", received["bits_per_second"] * 2)
    assert "are not" in refused(rate)
    assert "over all streams" in refused(bent("end.sum_received.bytes", received["bytes"] + 1))
    assert "were measured" in refused(bent("end.sum_received.seconds", 7.0))
    assert "streams that ended" in refused(bent("end.streams", []))
    assert "protocol" in refused(bent("start.test_start.protocol", "UDP"))


def test_no_byte_received() -> None:
    outputs = sample()[1]
    result = json.loads(outputs["client"].stdout)
    for part in [result["end"]["sum_received"], *(s["receiver"] for s in result["end"]["streams"])]:
        part["bytes"] = part["bits_per_second"] = 0
    assert refused(printing(outputs, "client", json.dumps(result))) == "no byte was received"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\x00",
        "null",
        "[]",
        "{}",
        "[" * 100_000,
        "{" * 100_000,
        "\ud800",
        '{"error": 5}',
        "9" * 9999,
    ],
    ids=range(10),
)
def test_garbage(text: str) -> None:
    parameters, outputs = sample()
    whole = outputs["client"].stdout
    for printed in (text, text + whole, whole + text) if text else (text,):
        assert refused(printing(outputs, "client", printed))
        with pytest.raises(InvalidTrialError):
            IPERF3.parse(parameters, printing(outputs, "client", printed))


def test_too_much_text() -> None:
    outputs = printing(sample()[1], "client", " " * (LONGEST_RESULT + 1))
    assert "which is not its report" in refused(outputs)


@settings(max_examples=200, deadline=None)
@given(st.text())
def test_random_text_is_invalid_and_nothing_else(text: str) -> None:
    assert refused(printing(sample()[1], "client", text))


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_a_bent_result_is_invalid_or_a_figure(data: st.DataObject) -> None:
    parameters, outputs = sample()
    changed = bent_anywhere(data, outputs)
    try:
        IPERF3.check(parameters, changed)
    except InvalidTrialError:
        return
    checked(IPERF3, parameters, changed)


def test_status_and_signal() -> None:
    parameters, outputs = sample()
    for change in ({"status": 1}, {"status": None, "signal": 15}):
        with pytest.raises(InvalidTrialError):
            IPERF3.check(parameters, {"client": replace(outputs["client"], **change)})


def test_roles_and_addresses(tmp_path: Path) -> None:
    parameters = Iperf3Parameters(peer="second", direction="receive")
    assert [(role.name, role.place) for role in IPERF3.roles(parameters)] == [
        ("client", "instance"),
        ("server", "second"),
    ]
    context = replace(
        context_in(tmp_path, IPERF3, parameters),
        addresses={"client": "10.0.0.1", "server": "10.0.0.2"},
    )
    server, client = IPERF3.tasks(parameters, context)
    assert (server.role, server.service, server.ready) == ("server", True, "Server listening")
    assert client.argv[client.argv.index("-c") + 1] == "10.0.0.2"
    assert "-R" in client.argv


@pytest.mark.parametrize(
    "wrong",
    [
        {"peer": "third"},
        {"streams": 0},
        {"streams": 129},
        {"time_s": 0},
        {"window": "1KiB"},
        {"window": "1GiB"},
        {"congestion": "-J"},
        {"congestion": "../x"},
        {"port": 0},
        {"udp": True},
        {"datagram": 500},
        {"protocol": "udp", "datagram": 65_508},
        {"protocol": "sctp"},
        {"bitrate": 0},
        {"bitrate": "100M"},
        {"peer": {"environment": 1}},
        {"peer": {"environment": "vm", "place": "away"}},
        {"peer": {}},
        {"peer": ["host"]},
        {"peer": "partner"},
        {"peer": "environment"},
    ],
)
def test_wrong_parameters(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Iperf3Parameters(**wrong)


def test_titles() -> None:
    assert IPERF3.title(Iperf3Parameters()) == "network to the host, 1 stream"
    assert (
        IPERF3.title(Iperf3Parameters(peer="second", direction="receive", streams=10))
        == "network from a second instance, 10 streams"
    )
    udp = Iperf3Parameters(
        protocol="udp", bitrate=100_000_000, streams=10, peer={"environment": "vm[nic=e1000]"}
    )
    assert IPERF3.title(udp) == "UDP to vm[nic=e1000], 10 streams of 100 Mbit/s"


def test_another_environment_is_the_partner() -> None:
    parameters = Iperf3Parameters(peer={"environment": "vm"})
    assert parameters == Iperf3Parameters(**parameters.model_dump())
    assert [role.place for role in IPERF3.roles(parameters)] == ["instance", "partner"]
    assert IPERF3.partner(parameters) == "vm"
    away = Iperf3Parameters(peer="away")
    assert [role.place for role in IPERF3.roles(away)] == ["instance", "away"]
    assert IPERF3.partner(away) is None


@pytest.mark.parametrize("protocol", ["tcp", "udp"])
def test_a_run_of_debian_13_gives_its_figures(protocol: str) -> None:
    """Recorded with iperf 3.18 in a German locale."""
    figures = checked(IPERF3, *of_another_release("3.18", protocol))
    assert figures["throughput"] > 0 and (set(figures) >= UDP) == (protocol == "udp")


@pytest.mark.parametrize("protocol", ["tcp", "udp"])
def test_a_version_that_does_not_say_all_is_refused(protocol: str) -> None:
    """Recorded with iperf 3.9, of Debian 11: it does not repeat the rate that it was asked for."""
    parameters, outputs = of_another_release("3.9", protocol)
    with pytest.raises(InvalidTrialError, match=r"^'iperf 3\.9' is too old: .*; 3\.12 works$"):
        IPERF3.check(parameters, outputs)
    newer = outputs["client"].stdout.replace('"iperf 3.9"', '"iperf 3.12"')
    with pytest.raises(InvalidTrialError, match=r"start\.test_start\.target_bitrate': Field req"):
        IPERF3.check(parameters, printing(outputs, "client", newer))


def of_another_release(version: str, protocol: str) -> tuple[Iperf3Parameters, dict[str, Output]]:
    by_option: dict[str, dict[str, Any]] = {
        "tcp": {"streams": 2, "port": 15201},
        "udp": {
            "protocol": "udp",
            "bitrate": 20_000_000,
            "streams": 2,
            "datagram": 500,
            "port": 15202,
        },
    }
    text = (DATA / f"{version}-{protocol}.json").read_text()
    # The server's output tells nothing that is read.
    outputs = {role: Output(0, None, "", "", 1.0) for role in ("server", "client")}
    return Iperf3Parameters(**by_option[protocol]), printing(outputs, "client", text)
