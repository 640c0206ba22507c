"""`iperf3` with UDP: a real run over this host's loopback, and outputs that lie."""

import json
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.workloads.iperf3kit import IPERF3, bent, bent_anywhere
from tests.workloads.workload_runs import checked, free_port, printing, run
from ullage.workloads.base import InvalidTrialError, Output
from ullage.workloads.network.iperf3 import Iperf3Parameters

NEEDED_OF_UDP = (
    "start.test_start.protocol",
    "start.test_start.blksize",
    "start.test_start.target_bitrate",
    "end.streams",
    "end.sum",
    "end.sum_received.bytes",
    "end.sum_received.packets",
    "end.sum_received.lost_packets",
    "end.sum_received.jitter_ms",
    "end.sum_received.bits_per_second",
)


@cache
def udp_sample() -> tuple[Iperf3Parameters, dict[str, Output]]:
    """A real run with UDP, made once."""
    parameters = Iperf3Parameters(
        protocol="udp", bitrate=20_000_000, streams=2, datagram=500, port=free_port()
    )
    with TemporaryDirectory() as directory:
        return parameters, run(IPERF3, parameters, Path(directory))


def test_udp_gives_loss_and_jitter() -> None:
    parameters, outputs = udp_sample()
    figures = checked(IPERF3, parameters, outputs)
    assert set(figures) == {metric.name for metric in IPERF3.metrics} - {"retransmits"}
    received = json.loads(outputs["client"].stdout)["end"]["sum_received"]
    assert figures["loss"] == received["lost_packets"] / received["packets"] < 1
    assert figures["jitter"] == received["jitter_ms"] / 1000
    assert "sender_congestion" not in IPERF3.facts(parameters, outputs)


@pytest.mark.parametrize("path", NEEDED_OF_UDP)
def test_every_field_of_udp_is_needed(path: str) -> None:
    parameters, outputs = udp_sample()
    values: tuple[Any, ...] = (..., None, {}, -1)
    for value in values:
        with pytest.raises(InvalidTrialError):
            IPERF3.check(parameters, bent(path, value, outputs))


@pytest.mark.parametrize(
    ("path", "change"),
    [
        ("end.sum_received.lost_packets", 1),
        ("end.sum_received.packets", 1),
        ("end.sum_received.bytes", 500),
        ("end.streams.0.udp.lost_packets", 1),
        ("start.test_start.blksize", 1),
        ("start.test_start.target_bitrate", 1),
    ],
)
def test_datagrams_that_do_not_add_up(path: str, change: int) -> None:
    parameters, outputs = udp_sample()
    result = json.loads(outputs["client"].stdout)
    *parents, last = path.split(".")
    inner = result
    for parent in parents:
        inner = inner[int(parent) if parent.isdigit() else parent]
    inner[last] += change
    with pytest.raises(InvalidTrialError):
        IPERF3.check(parameters, printing(outputs, "client", json.dumps(result)))


def test_more_datagrams_lost_than_sent() -> None:
    parameters, outputs = udp_sample()
    received = json.loads(outputs["client"].stdout)["end"]["sum_received"]
    lost = bent("end.sum_received.lost_packets", received["packets"] + 1, outputs)
    with pytest.raises(InvalidTrialError, match="cannot be lost"):
        IPERF3.check(parameters, lost)


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_a_bent_result_of_udp_is_invalid_or_a_figure(data: st.DataObject) -> None:
    parameters, outputs = udp_sample()
    changed = bent_anywhere(data, outputs)
    try:
        IPERF3.check(parameters, changed)
    except InvalidTrialError:
        return
    checked(IPERF3, parameters, changed)
