"""`connections` and `flood-ping` over this host's loopback, and outputs that lie."""

import json
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.workloads.connectionskit import CONNECTIONS, RECORDED, checked, recorded
from tests.workloads.workload_runs import context_in, printing
from ullage.workloads.base import InvalidTrialError, Output
from ullage.workloads.network.connections import ConnectionsParameters
from ullage.workloads.network.load_report import PROGRAM
from ullage.workloads.output import LONGEST


def bent(name: str, path: str, value: Any, role: str = "client") -> dict[str, Output]:
    """What was recorded, with one field changed; without it when the value is `...`."""
    outputs = recorded(name)[1]
    result = deepcopy(json.loads(outputs[role].stdout))
    *parents, last = path.split(".")
    inner = result
    for parent in parents:
        inner = inner[parent]
    if value is ...:
        del inner[last]
    else:
        inner[last] = value
    return printing(outputs, role, json.dumps(result))


def refused(name: str, outputs: dict[str, Output]) -> str:
    with pytest.raises(InvalidTrialError) as caught:
        CONNECTIONS.check(recorded(name)[0], outputs)
    return str(caught.value)


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_outputs_give_their_figures(name: str) -> None:
    parameters, outputs = recorded(name)
    figures = checked(parameters, outputs)
    assert set(figures) == {metric.name for metric in CONNECTIONS.metrics}
    report = json.loads(outputs["client"].stdout)
    assert figures["connections_per_second"] == report["connections_per_second"]
    assert figures["latency"] == [tuple(point) for point in report["latency"]["quantiles"]]
    assert figures["instance_cpu"] == 2.0 / report["completed"]
    assert figures["errors"] == 0


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("closed", {"threads": 3}),
        ("closed", {"time_s": 0.3}),
        ("closed", {"rate": 100.0}),
        ("closed", {"echo": True}),
        ("closed", {"close": "reset"}),
        ("open", {"rate": None, "connections": 1000}),
        ("open", {"rate": 400.0}),
        ("open", {"spacing": "constant"}),
        ("open", {"connections": 10}),
        ("counted", {"connections": 49}),
        ("counted", {"connections": 51}),
    ],
)
def test_another_test_is_not_what_was_asked(name: str, change: dict[str, Any]) -> None:
    parameters, outputs = recorded(name)
    requested = ConnectionsParameters(**{**parameters.model_dump(), **change})
    with pytest.raises(InvalidTrialError):
        CONNECTIONS.check(requested, outputs)


@pytest.mark.parametrize("name", RECORDED)
def test_every_field_is_needed(name: str) -> None:
    report = json.loads(recorded(name)[1]["client"].stdout)
    unread = {"lateness", "reason", "rate", "spacing"}
    for path in [*report, *(f"errors.{kind}" for kind in report["errors"])]:
        if path not in unread:
            assert refused(name, bent(name, path, None))
        if path not in {"lateness"}:
            assert refused(name, bent(name, path, ...))


@pytest.mark.parametrize(
    ("path", "value", "complaint"),
    [
        ("started", 10**9, "started"),
        ("completed", 1, "started"),
        ("in_time", 10**9, "were in time"),
        ("connections_per_second", 1.0, "are not"),
        ("connections_per_second", 0.0, "are not"),
        ("in_time", 0, "were in time"),
        ("seconds", 0.1, "were measured"),
        ("seconds", 9.0, "were measured"),
        ("unsent", 1, "never begun"),
        ("valid", False, "it does not say why"),
        ("reason", "late", "late"),
        ("errors.refused", -1, "refused"),
        ("latency.count", 1, "were timed"),
        ("latency.quantiles", [], "quantiles"),
        ("latency.quantiles", [[0.9, 1e-4]], "not its quantiles"),
        ("latency.quantiles", [[0.5, 2e-4], [0.9, 1e-6]], "do not rise"),
        ("latency.quantiles", [[0.5, 0.0]], "quantiles"),
        ("latency.min_s", 1.0, "do not rise"),
    ],
)
def test_figures_that_contradict_each_other(path: str, value: Any, complaint: str) -> None:
    assert complaint in refused("closed", bent("closed", path, value))


def test_a_quantile_that_so_few_do_not_have() -> None:
    _, outputs = recorded("counted")
    quantiles = json.loads(outputs["client"].stdout)["latency"]["quantiles"]
    more = [*quantiles, [0.99, quantiles[-1][1]]]
    assert "do not have" in refused("counted", bent("counted", "latency.quantiles", more))


def test_errors_count_up_to_their_limit() -> None:
    parameters, outputs = recorded("closed")
    report = json.loads(outputs["client"].stdout)
    report["started"] += 2
    report["errors"] |= {"refused": 1, "timed-out": 1}
    outputs = printing(outputs, "client", json.dumps(report))
    assert "1 refused, 1 timed-out" in refused("closed", outputs)
    lenient = parameters.model_copy(update={"error_limit": 0.5})
    assert checked(lenient, outputs)["errors"] == 2 / report["started"]


def test_the_server_must_have_seen_them() -> None:
    assert "the server saw 0" in refused("closed", bent("closed", "accepted", 0, "server"))
    assert "the server saw 0" in refused("open", bent("open", "answered", 0, "server"))
    assert "listen" in refused("closed", bent("closed", "mode", "connect", "server"))
    killed = {**recorded("closed")[1]}
    killed["server"] = replace(killed["server"], status=None, signal=9)
    assert "signal 9" in refused("closed", killed)
    assert "no output of server" in refused("closed", {"client": killed["client"]})


@pytest.mark.parametrize(
    "text", ["", "\x00", "null", "[]", "{}", "[" * 100_000, "\ud800", "9" * 9999], ids=range(8)
)
def test_garbage(text: str) -> None:
    outputs = recorded("closed")[1]
    for role in ("client", "server"):
        whole = outputs[role].stdout
        for printed in (text, text + whole, whole + text) if text else (text,):
            assert refused("closed", printing(outputs, role, printed))
    assert "not its report" in refused("closed", printing(outputs, "client", " " * (LONGEST + 1)))


@settings(max_examples=200, deadline=None)
@given(data=st.data(), name=st.sampled_from(list(RECORDED)))
def test_a_bent_report_is_invalid_or_figures(data: st.DataObject, name: str) -> None:
    parameters, outputs = recorded(name)
    role = data.draw(st.sampled_from(["client", "server"]))
    text = outputs[role].stdout
    at = data.draw(st.integers(0, len(text)))
    until = data.draw(st.integers(at, min(len(text), at + 30)))
    put = data.draw(st.one_of(st.text("0123456789.e-,:[]", max_size=8), st.text(max_size=8)))
    changed = printing(outputs, role, text[:at] + put + text[until:])
    try:
        CONNECTIONS.check(parameters, changed)
    except InvalidTrialError:
        return
    checked(parameters, changed)


def test_who_stands_where(tmp_path: Path) -> None:
    parameters = ConnectionsParameters(peer={"environment": "vm"}, rate=10.0)
    assert [role.place for role in CONNECTIONS.roles(parameters)] == ["instance", "partner"]
    assert CONNECTIONS.partner(parameters) == "vm"
    context = replace(
        context_in(tmp_path, CONNECTIONS, parameters),
        addresses={"client": "10.0.0.1", "server": "10.0.0.2"},
    )
    server, client = CONNECTIONS.tasks(parameters, context)
    assert server.service
    assert client.argv[:3] == (f"./{PROGRAM}", "connect", "10.0.0.2:7000")
    assert client.argv[client.argv.index("--seed") + 1] == str(context.seed)


@pytest.mark.parametrize(
    "wrong",
    [
        {"threads": 0},
        {"rate": 0},
        {"rate": "nan"},
        {"rate": float("inf")},
        {"time_s": 0},
        {"close": "nobody"},
        {"error_limit": 1},
        {"peer": "third"},
    ],
)
def test_wrong_parameters(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ConnectionsParameters(**wrong)


def test_ports_that_nobody_can_count_are_refused() -> None:
    with pytest.raises(ValidationError, match="keeps a port for a minute"):
        ConnectionsParameters(close="client")
    ConnectionsParameters(close="client", connections=100)


def test_titles() -> None:
    assert CONNECTIONS.title(ConnectionsParameters()) == "connections to the host, 4 threads"
    paced = ConnectionsParameters(threads=1, rate=2000.0, peer="away")
    assert (
        CONNECTIONS.title(paced) == "connections to an instance on another node, 1 thread at 2000/s"
    )
