"""Meter `wattsup`, on a pseudo-terminal that speaks the protocol."""

import fcntl
import itertools
import os
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testing.energy.waiting import until, until_fault
from testing.energy.wattsup_double import RAW, packet, plugged
from tests.meters.energy.scripted import fault, refused
from ullage.common import errors
from ullage.meters.energy import wattsup
from ullage.meters.energy.wattsup import Wattsup, WattsupOptions

SECONDS = RAW.read_bytes().splitlines(keepends=True)
"""A heading and nine packets."""


def always(*pieces: bytes) -> Iterable[bytes]:
    """Over and over."""
    return itertools.cycle(pieces)


def meter(device: Path, **options: object) -> Wattsup:
    return Wattsup(WattsupOptions.model_validate({"device": device, **options}))


def test_what_it_has_and_what_it_is_told(tmp_path: Path) -> None:
    with plugged(tmp_path, always(packet(2105))) as double:
        wattsup = meter(double.line)
        (channel,) = wattsup.open()
        assert (channel.name, channel.kind, channel.method) == ("wall", "power", "measured")
        assert (channel.scope, channel.observer) == ("wall", "host")
        assert (channel.resolution, channel.accuracy) == (0.1, 0.02)
        assert channel.source.startswith(f"packets #d of the Watts up? at {double.line} (version")
        assert wattsup.read() == {"wall": 210.5}
        wattsup.close()
        until(lambda: double.heard == b"#V,R,0;#L,W,3,E,,1;#L,R,0;", "it is told to stop")
        wattsup.close()
        assert meter(double.line, accuracy="1%").open()[0].accuracy == 0.01


def test_the_seconds_of_a_raw_file_come_in_order(tmp_path: Path) -> None:
    watts = [int(line.split(b",")[3]) / 10 for line in SECONDS[1:]]
    with plugged(tmp_path, [*SECONDS, *[SECONDS[-1]] * 10**6]) as double:
        wattsup = meter(double.line)
        wattsup.open()
        readings = [wattsup.read()["wall"]]
        while readings[-1] != watts[-1]:
            readings.append(wattsup.read()["wall"])
        wattsup.close()
    following = iter(watts)
    assert all(
        any(reading == second for second in following)
        for reading in readings
        if reading != watts[-1]
    )


def test_packets_come_in_pieces_among_noise(tmp_path: Path) -> None:
    whole = packet(3333)
    pieces = [whole[:1], whole[1:9], whole[9:], b"\x00\xff;#d,-,18;", b"#n,-,3,1,2,3;", b"#d,-,1"]
    with plugged(tmp_path, always(*pieces), period_s=0.005) as double:
        wattsup = meter(double.line)
        wattsup.open()
        for _ in range(5):
            assert wattsup.read() == {"wall": 333.3}
        wattsup.close()


def test_what_came_before_the_reading_is_forgotten(tmp_path: Path) -> None:
    """But a packet of which only a part had come is of the reading."""
    half, second_half = packet(1500)[:20], packet(1500)[20:]
    with plugged(tmp_path, []) as double:
        line = wattsup._Serial(double.line)
        double.send(packet(1000) * 3 + half)
        line.forget()
        double.send(second_half + packet(2000))
        deadline_s = time.monotonic() + 60
        assert line.packet(deadline_s) == packet(1500).decode()[:-3]
        assert line.packet(deadline_s) == packet(2000).decode()[:-3]
        line.close()


def test_no_such_line(tmp_path: Path) -> None:
    error = refused(meter(tmp_path / "ttyUSB0"))
    assert error.kind is errors.ENERGY_METER_ABSENT
    assert "/dev/serial/by-id" in error.hint


@pytest.mark.parametrize("device", ["/dev/null", "file"])
def test_what_is_no_serial_line(tmp_path: Path, device: str) -> None:
    (tmp_path / "file").touch()
    error = refused(meter(tmp_path / device))
    assert error.kind is errors.ENERGY_METER_BAD_ANSWER
    assert "no serial line" in error.message


def test_a_line_that_another_program_uses(tmp_path: Path) -> None:
    with plugged(tmp_path, always(packet(2105))) as double:
        other_program = os.open(double.line, os.O_RDWR | os.O_NOCTTY)
        fcntl.flock(other_program, fcntl.LOCK_EX)
        error = refused(meter(double.line))
        os.close(other_program)
        assert error.kind is errors.ENERGY_METER_DENIED
        assert "dialout" in error.hint
        wattsup = meter(double.line)
        wattsup.open()
        wattsup.close()


def test_a_line_that_falls_silent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with plugged(tmp_path, [packet(2105)] * 2) as double:
        logger = meter(double.line)
        logger.open()
        monkeypatch.setattr(wattsup, "READ_DEADLINE_S", 0.3)
        until_fault(logger, "silent")
        assert fault(logger).code == "silent"
        error = refused(meter(double.line))
        assert error.kind is errors.ENERGY_METER_ABSENT


def test_unplugged_and_plugged_in_again(tmp_path: Path) -> None:
    with plugged(tmp_path, always(packet(2105))) as double:
        wattsup = meter(double.line)
        wattsup.open()
        double.unplug()
        assert fault(wattsup).code == "gone"
        assert fault(wattsup).code == "gone"
    with plugged(tmp_path, always(packet(1407))):
        assert wattsup.read() == {"wall": 140.7}
        wattsup.close()


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (packet(-5), "negative"),
        (packet(0), "is 0"),
        (packet("12x4"), "no number"),
        (packet("99999999"), "more than any machine"),
        (packet("_"), "switched off"),
        (b"A" * 5000, "no packet of data"),
        (b";" * 5000, "no packet of data"),
    ],
)
def test_packets_that_cannot_be_trusted(tmp_path: Path, bad: bytes, words: str) -> None:
    with plugged(tmp_path, itertools.chain([packet(2105)], always(bad)), 0.002) as double:
        wattsup = meter(double.line)
        wattsup.open()
        error = fault(wattsup)
        wattsup.close()
    assert error.code == "nonsense"
    assert words in str(error)


noise = st.binary(max_size=40).filter(lambda data: b"#d" not in data)


@settings(max_examples=40)
@given(before=noise, cuts=st.lists(st.integers(1, 70), max_size=5), watts=st.integers(1, 40000))
def test_any_noise_and_any_pieces(before: bytes, cuts: list[int], watts: int) -> None:
    whole = before + packet(watts)
    edges = [0, *sorted({cut for cut in cuts if cut < len(whole)}), len(whole)]
    pieces = [whole[i:j] for i, j in itertools.pairwise(edges)]
    with (
        tempfile.TemporaryDirectory() as folder,
        plugged(Path(folder), always(*pieces), 0.001) as double,
    ):
        wattsup = meter(double.line)
        wattsup.open()
        assert wattsup.read() == {"wall": watts / 10}
        wattsup.close()
