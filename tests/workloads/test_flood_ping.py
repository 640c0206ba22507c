"""`flood-ping`: what the prober prints, on this host's loopback and recorded between instances."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.workloads.workload_runs import context_in, printing
from ullage.host import binaries
from ullage.workloads.base import InvalidTrialError, Output
from ullage.workloads.network.flood_ping import FloodPing, FloodPingParameters
from ullage.workloads.network.load_report import PROGRAM

FLOOD_PING = FloodPing()
DATA = Path(__file__).parent / "data" / "flood_ping"
PARAMETERS = FloodPingParameters(count=1000)
RECORDED = ("raw", "ping")
NEEDED = {"sent", "size", "received", "lost", "late", "duplicates", "corrupt", "valid", "mode"}


def recorded(name: str = "raw") -> dict[str, Output]:
    return {"prober": Output(0, None, (DATA / f"{name}.json").read_text(), "", 1.0)}


def changed(**fields: Any) -> dict[str, Output]:
    """What was recorded, with fields of its top changed."""
    outputs = recorded()
    return printing(outputs, "prober", json.dumps(json.loads(outputs["prober"].stdout) | fields))


def refused(outputs: dict[str, Output], parameters: FloodPingParameters = PARAMETERS) -> str:
    with pytest.raises(InvalidTrialError) as caught:
        FLOOD_PING.check(parameters, outputs)
    return str(caught.value)


def checked(parameters: FloodPingParameters, outputs: dict[str, Output]) -> dict[str, Any]:
    """Check, parse, and every figure is one."""
    FLOOD_PING.check(parameters, outputs)
    figures = FLOOD_PING.parse(parameters, outputs)
    assert set(figures) == {metric.name for metric in FLOOD_PING.metrics}
    assert 0 <= figures["loss"] <= parameters.loss_limit  # type: ignore[operator]
    assert 0 <= figures["late"] <= 1  # type: ignore[operator]
    assert isinstance(figures["rtt"], list)
    times = [figures["median_rtt"], figures["median_rtt_user"], *(x for _, x in figures["rtt"])]
    assert all(isinstance(x, float) and 0 < x < 1e6 for x in times)
    return figures


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_outputs_give_their_figures(name: str) -> None:
    figures = checked(PARAMETERS, recorded(name))
    probes = json.loads(recorded(name)["prober"].stdout)
    assert figures["median_rtt"] == probes["rtt"]["quantiles"][0][1]
    assert [share for share, _ in figures["rtt"]] == [0.5, 0.9, 0.99]
    assert figures["median_rtt"] <= figures["median_rtt_user"]
    assert FLOOD_PING.facts(PARAMETERS, recorded(name))["socket"] == name


@pytest.mark.parametrize("change", [{"count": 999}, {"size": 13}])
def test_other_probes_are_not_what_was_asked(change: dict[str, Any]) -> None:
    assert "asked for" in refused(recorded(), FloodPingParameters(**{"count": 1000, **change}))


@pytest.mark.parametrize("field", sorted(NEEDED | {"rtt", "rtt_user", "seconds", "socket"}))
def test_every_field_is_needed(field: str) -> None:
    values: tuple[Any, ...] = (None, {}, -1, 10**400)
    for value in values:
        assert refused(changed(**{field: value}))
    result = json.loads(recorded()["prober"].stdout)
    del result[field]
    assert refused(printing(recorded(), "prober", json.dumps(result)))


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"corrupt": 1}, "not what was sent"),
        ({"received": 900, "lost": 100}, "were not answered"),
        ({"received": 999}, "answered or lost"),
        ({"late": 1001}, "cannot be late"),
        ({"received": 999, "lost": 1}, "were timed"),
        ({"valid": False, "reason": "the clock was set"}, "the clock was set"),
        ({"mode": "connect"}, "mode"),
        ({"rtt": None}, "nothing was timed"),
    ],
)
def test_figures_that_contradict_each_other(fields: dict[str, Any], complaint: str) -> None:
    assert complaint in refused(changed(**fields))


def test_the_program_cannot_be_before_the_kernel() -> None:
    probes = json.loads(recorded()["prober"].stdout)
    swapped = changed(rtt=probes["rtt_user"], rtt_user=probes["rtt"])
    assert "before the kernel" in refused(swapped)


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_a_bent_report_is_invalid_or_figures(data: st.DataObject) -> None:
    outputs = recorded()
    text = outputs["prober"].stdout
    at = data.draw(st.integers(0, len(text)))
    until = data.draw(st.integers(at, min(len(text), at + 30)))
    put = data.draw(st.one_of(st.text("0123456789.e-,:[]", max_size=8), st.text(max_size=8)))
    bent = printing(outputs, "prober", text[:at] + put + text[until:])
    try:
        FLOOD_PING.check(PARAMETERS, bent)
    except InvalidTrialError:
        return
    checked(PARAMETERS, bent)


def test_status_and_signal() -> None:
    for change in ({"status": 1}, {"status": None, "signal": 15}):
        assert refused({"prober": replace(recorded()["prober"], **change)})


def test_who_stands_where(tmp_path: Path) -> None:
    parameters = FloodPingParameters(peer="away")
    assert [role.place for role in FLOOD_PING.roles(parameters)] == ["instance", "away"]
    assert FLOOD_PING.partner(parameters) is None
    context = replace(
        context_in(tmp_path, FLOOD_PING, parameters),
        addresses={"prober": "10.0.0.1", "peer": "10.0.0.2"},
    )
    (task,) = FLOOD_PING.tasks(parameters, context)
    assert task.argv[:3] == (f"./{PROGRAM}", "icmp", "10.0.0.2")


@pytest.mark.parametrize("wrong", [{"count": 99}, {"size": -1}, {"size": 65_508}, {"peer": 1}])
def test_wrong_parameters(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        FloodPingParameters(**wrong)


def test_titles() -> None:
    assert FLOOD_PING.title(FloodPingParameters()) == "flood ping to the host, 12 bytes"
    one_byte = FloodPingParameters(size=1, peer={"environment": "vm"})
    assert FLOOD_PING.title(one_byte) == "flood ping to vm, 1 byte"


@pytest.fixture(scope="module")
def directory() -> Iterator[Path]:
    if not (binaries.DIRECTORY / PROGRAM).is_file():
        pytest.skip("`make programs` builds it")
    with TemporaryDirectory() as name:
        shutil.copy(binaries.program(PROGRAM), Path(name) / PROGRAM)
        yield Path(name)


@pytest.mark.root
@pytest.mark.parametrize("size", [0, 1, 12, 16, 56, 8000])
def test_a_real_flood_gives_its_figures(directory: Path, size: int) -> None:
    parameters = FloodPingParameters(count=200, size=size)
    (task,) = FLOOD_PING.tasks(parameters, context_in(directory, FLOOD_PING, parameters))
    done = subprocess.run(task.argv, cwd=directory, capture_output=True, text=True, check=False)
    checked(parameters, {"prober": Output(done.returncode, None, done.stdout, done.stderr, 1.0)})


@pytest.mark.root
def test_nobody_answers(directory: Path) -> None:
    """In a network namespace, at the end of a cable where nobody has that address."""
    script = "ip link add d0 type veth peer name d1 && ip link set d0 up && ip link set d1 up"
    script += " && ip address add 192.0.2.1/24 dev d0"
    script += " && ip neigh add 192.0.2.9 lladdr 02:00:00:00:00:09 dev d0"
    probe = f"exec ./{PROGRAM} icmp 192.0.2.9 --count 5 --wait 0 --late-limit 10"
    done = subprocess.run(
        ["unshare", "--net", "sh", "-c", f"{script} && {probe}"],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["sent"], report["received"], report["lost"]) == (5, 0, 5)
    assert report["rtt"] is None
    assert report["lateness"]["woken"]["count"] == 5
    requested = FloodPingParameters.model_construct(count=5, size=12, loss_limit=0.01)
    complaint = refused({"prober": Output(0, None, done.stdout, "", 1.0)}, requested)
    assert complaint == "5 of 5 requests were not answered"
