"""Meter `perf`: the real program as far as this machine goes, and what it prints elsewhere."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testing.energy.perfkit import REAL, program
from tests.meters.energy.scripted import refused
from ullage.common import errors
from ullage.meters.energy.base import FaultError
from ullage.meters.energy.perf import Perf, PerfOptions, parse_line

needs_perf = pytest.mark.skipif(shutil.which("perf") is None, reason="needs linux-perf")
NO_ENERGY = not Path("/sys/bus/event_source/devices/power/events/energy-pkg").exists()
"""Some hosts have the unit, with no counter but that of the whole platform, which stands at 0."""

TWO_SOCKETS = """
n = 0
while True:
    n += 1
    say(line(n * every_s, "2.500000"), line(n * every_s, "3.000000", socket=1))
    if len(events) > 1:
        ram = "power/energy-ram/"
        say(line(n * every_s, "0.250000", ram), line(n * every_s, "0.500000", ram, socket=1))
    time.sleep(every_s)
"""


def meter(folder: Path, body: str, every: float = 0.1) -> Perf:
    return Perf(PerfOptions(program=program(folder, body), every=every))


def fault(perf: Perf) -> FaultError:
    """Of the first reading that fails; those before it are good."""
    with pytest.raises(FaultError) as caught:
        for _ in range(1000):
            perf.read()
    return caught.value


@needs_perf
@pytest.mark.skipif(not NO_ENERGY, reason="this processor tells its energy")
def test_real_perf_says_why_there_is_none() -> None:
    error = refused(Perf(PerfOptions()))
    assert error.kind is errors.ENERGY_METER_ABSENT
    assert re.search("Cannot find PMU `power'|unknown term 'energy-pkg'", error.message)


@needs_perf
@pytest.mark.skipif(NO_ENERGY, reason="no processor here tells its energy")
def test_real_perf_counts_real_energy() -> None:
    perf = Perf(PerfOptions(every=0.1))
    assert "package-0" in {channel.name for channel in perf.open()}
    first = perf.read()["package-0"]
    assert perf.read()["package-0"] > first > 0
    perf.close()


@needs_perf
@pytest.mark.root
def test_real_intervals_add_up_to_the_truth(tmp_path: Path) -> None:
    perf = meter(tmp_path, REAL)
    channel, *others = perf.open()
    assert (channel.name, others) == ("package-0", [])
    first, began = perf.read()["package-0"], time.monotonic()
    while time.monotonic() < began + 1:
        last, ended = perf.read()["package-0"], time.monotonic()
    perf.close()
    truth = (ended - began) * (os.cpu_count() or 1) * 1000
    assert 0.5 < (last - first) / truth < 1.5, "lines may come late on a busy machine"


@needs_perf
@pytest.mark.root
def test_a_unit_that_is_no_energy_is_refused(tmp_path: Path) -> None:
    error = refused(meter(tmp_path, REAL.replace("s|msec|Joules|; ", "")))
    assert error.kind is errors.ENERGY_METER_BAD_ANSWER
    assert '"unit" : "msec"' in error.message


@needs_perf
@pytest.mark.root
def test_denied_by_the_kernel_with_the_way_to_allow_it(tmp_path: Path) -> None:
    if int(Path("/proc/sys/kernel/perf_event_paranoid").read_text()) < 1:
        pytest.skip("here everybody may count the whole host")
    as_nobody = "os.execvp('setpriv', ['setpriv', '--reuid=65534', *real])"
    error = refused(meter(tmp_path, REAL.replace("words =", f"{as_nobody}\nwords =")))
    assert error.kind is errors.ENERGY_METER_DENIED
    assert "perf_event_paranoid=0" in error.hint


def test_no_such_program() -> None:
    error = refused(Perf(PerfOptions(program="/nowhere/perf")))
    assert error.kind is errors.ENERGY_METER_ABSENT
    assert "install linux-perf" in error.hint


def test_an_older_perf_that_has_no_json(tmp_path: Path) -> None:
    body = (
        'sys.stderr.write("  Error: unknown switch `j\'\\n\\n usage: perf stat\\n"); sys.exit(129)'
    )
    error = refused(meter(tmp_path, body))
    assert error.kind is errors.ENERGY_METER_ABSENT
    assert "status 129: Error: unknown switch `j'" in error.message


def test_each_package_and_its_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "energy-ram").write_text("event=0x03\n")
    monkeypatch.setattr(Perf, "EVENTS", tmp_path)
    perf = meter(tmp_path, TWO_SOCKETS)
    channels = {channel.name: channel for channel in perf.open()}
    assert sorted(channels) == ["memory-0", "memory-1", "package-0", "package-1"]
    assert channels["memory-1"].scope == "memory"
    assert {channel.method for channel in channels.values()} == {"measured"}
    assert {channel.wraps_at for channel in channels.values()} == {None}
    values = perf.read()
    intervals = values["package-0"] / 2.5
    assert intervals == round(intervals) >= 2
    assert values == {
        "package-0": 2.5 * intervals,
        "package-1": 3 * intervals,
        "memory-0": 0.25 * intervals,
        "memory-1": 0.5 * intervals,
    }
    assert perf.read()["package-0"] > values["package-0"]
    perf.close()
    perf.close()


def test_no_interval_is_lost_between_two_readings(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    body = f"""
say(line(0.1, "1.0")); say(line(0.2, "1.0"))
while not os.path.exists({str(gate)!r}):
    time.sleep(0.01)
for n in range(3, 5003):
    say(line(n / 10, "1.0"))
while True:
    n += 1
    say(line(n / 10, "0.0"))
    time.sleep(every_s)
"""
    perf = meter(tmp_path, body)
    perf.open()
    gate.write_text("")
    deadline = time.monotonic() + 60
    while (last := perf.read()["package-0"]) != 5002:
        assert last < 5002 and time.monotonic() < deadline
    perf.close()


BAD = {
    "dies": ("sys.exit('perf: killed')", "gone", "status 1: perf: killed"),
    "negative": ("say(line(0.3, '-1.0'))", "nonsense", "no energy"),
    "no number": ("say(line(0.3, 'many'))", "nonsense", "no energy"),
    "not a number": ("say(line(0.3, 'nan'))", "nonsense", "no energy"),
    "not counted": ("say(line(0.3, '<not counted>', unit=''))", "gone", "not counted for a while"),
    "not supported": ("say(line(0.3, '<not supported>'))", "gone", "not supported here"),
    "scaled": ("say(line(0.3, '1.0', running=50.0))", "nonsense", "50 % of the time"),
    "comma": ("say(line(0.3, '1,5'))", "nonsense", "no energy"),
    "other event": ("say(line(0.3, '1.0', event='cycles'))", "nonsense", "neither package nor"),
    "new package": ("say(line(0.3, '1.0', socket=1))", "nonsense", "without all its channels"),
    "garbage": ("say('Segmentation fault')", "nonsense", "no line of perf stat --json"),
}


@pytest.mark.parametrize("name", BAD)
def test_in_the_middle(tmp_path: Path, name: str) -> None:
    body, code, words = BAD[name]
    start = 'say(line(0.1, "1.0")); say(line(0.2, "1.0"))\ntime.sleep(0.1)\n'
    perf = meter(tmp_path, f"{start}{body}\nsay(line(0.4, '1.0'))\ntime.sleep(600)")
    perf.open()
    first = fault(perf)
    assert (first.code, words in str(first)) == (code, True), first
    assert fault(perf) is first, "what was used meanwhile is not known: it stays broken"
    perf.close()


def test_opened_anew_after_its_perf_died(tmp_path: Path) -> None:
    perf = meter(tmp_path, TWO_SOCKETS)
    channels = perf.open()
    while perf.read()["package-0"] < 25:
        pass
    assert perf._child is not None
    perf._child.kill()
    assert fault(perf).code == "gone"
    perf.close()
    assert perf.open() == channels
    assert perf.read()["package-0"] < 25, "the count begins anew"
    perf.close()


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("say(line(0.1, '<not supported>', unit='')); time.sleep(600)", "ENERGY_METER_ABSENT"),
        ("say('<html>'); time.sleep(600)", "ENERGY_METER_BAD_ANSWER"),
        ("sys.exit(0)", "ENERGY_METER_ABSENT"),
        (
            "ram = 'power/energy-ram/'\n"
            "say(line(0.1, '1.0', ram)); say(line(0.2, '1.0', ram)); time.sleep(600)",
            "ENERGY_METER_BAD_ANSWER",
        ),
    ],
)
def test_when_it_is_opened(tmp_path: Path, body: str, kind: str) -> None:
    assert refused(meter(tmp_path, body)).kind is getattr(errors, kind)


def test_one_that_says_nothing_is_left_at_the_deadline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ullage.meters.energy.perf.READ_DEADLINE_S", 0.5)
    error = refused(meter(tmp_path, "time.sleep(600)"))
    assert error.kind is errors.ENERGY_METER_ABSENT
    assert "perf said nothing for 0.5 s" in error.message


def test_silence_in_the_middle_is_over_when_it_speaks_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = tmp_path / "gate"
    body = f"""
say(line(0.1, "1.0")); say(line(0.2, "1.0"))
while not os.path.exists({str(gate)!r}):
    time.sleep(0.01)
while True:
    say(line(time.monotonic(), "4.0"))
    time.sleep(0.01)
"""
    perf = meter(tmp_path, body)
    perf.open()
    monkeypatch.setattr("ullage.meters.energy.perf.READ_DEADLINE_S", 0.2)
    assert fault(perf).code == "silent"
    monkeypatch.setattr("ullage.meters.energy.perf.READ_DEADLINE_S", 60)
    gate.write_text("")
    assert perf.read()["package-0"] >= 6
    perf.close()


@needs_perf
@pytest.mark.root
def test_perf_ends_with_a_controller_that_was_killed(tmp_path: Path) -> None:
    code = (
        "import sys; from ullage.meters.energy.perf import *\n"
        f"meter = Perf(PerfOptions(program={program(tmp_path, REAL)!r}, every=0.1)); meter.open()\n"
        "print(meter._child.pid, flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as controller:
        assert controller.stdout is not None
        group = int(controller.stdout.readline())
        assert in_group(group)
        controller.kill()
    deadline = time.monotonic() + 60
    while in_group(group):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def in_group(group: int) -> list[str]:
    """Processes of the session that the meter gave its perf."""
    process_ids = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == group and fields[0] != "Z":
            process_ids.append(status.parent.name)
    return process_ids


@given(st.binary(max_size=200))
def test_any_bytes_are_a_line_or_a_fault(text: bytes) -> None:
    try:
        line = parse_line(text)
    except FaultError as error:
        assert error.code in {"nonsense", "gone"}
    else:
        assert line.joules >= 0


@given(
    st.dictionaries(
        st.sampled_from(["interval", "socket", "counter-value", "unit", "event", "pcnt-running"]),
        st.one_of(
            st.text(max_size=8),
            st.floats(),
            st.sampled_from(["S0", "Joules", "power/energy-pkg/", "1.5", "<not counted>"]),
        ),
    )
)
def test_any_fields_are_a_line_or_a_fault(fields: dict[str, object]) -> None:
    try:
        line = parse_line(json.dumps(fields).encode())
    except FaultError as error:
        assert error.code in {"nonsense", "gone"}
    else:
        assert line.joules >= 0
