"""The NTP experiment's arithmetic: recorded output of a real chronyd, and clocks with known faults.

`data/` was recorded from chrony 4.3 in an emulated guest 50 ppm slow, polling every 8 s.
"""

from __future__ import annotations

import contextlib
import itertools
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.experiments.clock.ntp import experiment, guest, logs
from ullage.experiments.clock.ntp import sampler as ntp_sampler
from ullage.experiments.clock.ntp.logs import LogError
from ullage.experiments.clock.ntp.outcome import (
    LEARNING_UPDATES,
    ChronyOutput,
    NtpOptions,
    Sizes,
    evaluate,
    mean_interval_s,
)
from ullage.experiments.clock.ntp.series import (
    ClockExchange,
    ClockReadings,
    OscillatorRate,
    SeriesError,
)

DATA = Path(__file__).parent / "data"
TRACKING_LOG = (DATA / "tracking.log").read_text()
MEASUREMENTS_LOG = (DATA / "measurements.log").read_text()
TRACKING = (
    "0AD52F01,10.213.47.1,11,1795278508.066835684,0.000022604,-0.000017125,0.000192152,"
    "-49.691,-0.034,4.150,0.000366596,0.000092679,8.1,Normal\n"
)
SOURCES = "^,*,10.213.47.1,10,3,377,5,-0.000031233,-0.000048358,0.000183395\n"


# --- what chrony says -----------------------------------------------------------------------------
def test_updates_of_a_recorded_session() -> None:
    updates = logs.updates(TRACKING_LOG)
    assert len(updates) == len(TRACKING_LOG.splitlines()) - 1  # one line before it had a source
    first, last = updates[0], updates[-1]
    assert first.offset_ns == -24_130_000  # the clock was slow
    assert first.epoch_s == 1795278330
    assert last.frequency_ppb == pytest.approx(-49_691)
    assert last.skew_ppb == pytest.approx(4_150)
    assert (last.offset_ns, last.remaining_ns) == (-17_120, 9_643)
    assert all(earlier.epoch_s <= later.epoch_s for earlier, later in itertools.pairwise(updates))


def test_measurements_of_a_recorded_session() -> None:
    measurements = logs.measurements(MEASUREMENTS_LOG)
    assert {measurement.poll for measurement in measurements} == {3}
    assert measurements[0].delay_ns == 24_290_000
    assert [later.epoch_s - earlier.epoch_s for earlier, later in itertools.pairwise(measurements)][
        :2
    ] == [
        8,
        8,
    ]


def test_tracking_and_sources_of_a_recorded_session() -> None:
    tracking = logs.tracking(TRACKING)
    assert (tracking.server, tracking.stratum) == ("10.213.47.1", 11)
    assert tracking.rms_offset_ns == 192_152
    assert tracking.frequency_ppb == pytest.approx(-49_691)
    assert tracking.update_interval_s == 8.1
    assert logs.reached(SOURCES)
    assert not logs.reached(SOURCES.replace(",377,", ",0,"))
    assert not logs.reached("")
    assert not logs.reached(SOURCES.replace(",377,", ",98²,"))
    assert not logs.reached("506 Cannot talk to daemon\n")


LINE = TRACKING_LOG.splitlines()[-1]


@pytest.mark.parametrize(
    "damaged",
    [
        "garbage",
        LINE + " 1",
        LINE.rpartition(" ")[0],
        LINE.replace("-49.691", "nan"),
        LINE.replace("-49.691", "fast"),
        LINE.replace("-49.691", "1e306"),
        LINE.replace("-49.691", "1_0"),
        LINE.replace("-49.691", "\x1f49.691"),
        LINE.replace("-49.691", "\u0664\u0669"),
        LINE.replace("2026-11-21", "2026-13-21"),
        LINE + "\n\n" + LINE,
    ],
)
def test_a_log_that_chrony_does_not_write_is_refused(damaged: str) -> None:
    with pytest.raises(LogError, match="line"):
        logs.updates(damaged)


@pytest.mark.parametrize("column", range(2, 14))
def test_no_number_of_tracking_is_too_large(column: int) -> None:
    words = TRACKING.strip().split(",")
    words[column] = "1e306"
    with contextlib.suppress(LogError):
        tracking = logs.tracking(",".join(words))
        assert str(tracking) == str(logs.tracking(TRACKING))  # a column that nobody reads


@given(st.text(max_size=300))
def test_no_text_breaks_the_parsers(text: str) -> None:
    logs.reached(text)
    for parse in (logs.updates, logs.measurements, logs.tracking):
        with contextlib.suppress(LogError):
            parse(text)


@given(st.lists(st.text("0123456789.-+einfa:", min_size=1), min_size=14, max_size=14))
def test_no_words_break_the_parsers(words: list[str]) -> None:
    for parse, line in ((logs.updates, " ".join(words)), (logs.tracking, ",".join(words))):
        with contextlib.suppress(LogError):
            parse(line)


# --- what was done to the clock -------------------------------------------------------------------
SECOND = 1_000_000_000


def readings(kernel_ppm: list[float], *, step_ns: int = 0, step_at: int = -1) -> ClockReadings:
    """A guest's clocks, 100 readings a second; each rate is held for a second."""
    rates = np.repeat(1 + np.array(kernel_ppm) / 1e6, 100)
    raw = 10 * SECOND + np.arange(len(rates), dtype=np.int64) * 10_000_000
    moved = np.concatenate(([0], np.cumsum((rates[:-1] - 1) * np.diff(raw))))
    mono = raw - 3 * SECOND + np.round(moved).astype(np.int64)
    real = mono + 1_700_000_000 * SECOND
    if step_at >= 0:
        real[step_at:] += step_ns
    return ClockReadings(raw, real, mono, np.full(len(rates), 2_000), rates)


def exchanges(series: ClockReadings, error_ppm: float, noise_ns: int = 0) -> list[ClockExchange]:
    """What a host sees that has the true time."""
    true = (series.raw - series.raw[0]) / (1 + error_ppm / 1e6)
    return [
        ClockExchange(
            7 * SECOND + round(true[i]) + noise_ns * (-1) ** i, int(series.mono[i]), 50_000
        )
        for i in range(0, len(true), 61)
    ]


@given(st.floats(-400, 400), st.lists(st.floats(-500, 500), min_size=3, max_size=12))
def test_the_rate_is_found_through_whatever_the_daemon_does(
    error: float, kernel: list[float]
) -> None:
    series = readings(kernel)
    rate = series.rate(exchanges(series, error))
    assert rate.error_ppb == pytest.approx(error * 1e3, abs=5)
    assert rate.bound_ppb > 0


def test_the_bound_holds_for_readings_as_bad_as_they_may_be() -> None:
    series = readings([0.0] * 60)
    rate = series.rate(exchanges(series, 50, noise_ns=50_000))
    assert abs(rate.error_ppb - 50_000) <= rate.bound_ppb


def test_slews_and_a_step_are_found_with_their_sizes() -> None:
    # 50 ppm slow; taken away for a second, overdone by 100 ppm for two, then taken away again.
    series = readings([50, 150, 150, 50, 50], step_ns=-3_000_000, step_at=450)
    corrections = series.corrections(OscillatorRate(-50_000, 0))
    assert [correction.kind for correction in corrections] == [
        "slew",
        "slew",
        "slew",
        "step",
        "slew",
    ]
    sizes = [correction.size_ns for correction in corrections]
    assert sizes[1] == pytest.approx(200_000, abs=2_000)
    assert sizes[3] == pytest.approx(-3_000_000, abs=1_000)
    assert max(abs(sizes[i]) for i in (0, 2, 4)) < 2_000
    assert corrections[1].rate_ppb == pytest.approx(100_000, rel=0.01)
    assert corrections[1].duration_ns == pytest.approx(2 * SECOND, rel=0.01)
    assert corrections[3].duration_ns == 0
    assert corrections[3].at_ns == pytest.approx(4.49 * SECOND, rel=1e-3)
    assert series.unexplained_max_ns() < 10


@given(
    st.floats(-400, 400),
    st.lists(st.floats(-500, 500), min_size=1, max_size=8),
    st.integers(-(10**9), 10**9),
    st.data(),
)
def test_no_part_of_what_was_done_is_lost(
    error: float, kernel: list[float], step: int, data: st.DataObject
) -> None:
    at = data.draw(st.integers(1, 100 * len(kernel) - 1))
    series = readings(kernel, step_ns=step, step_at=at)
    corrections = series.corrections(OscillatorRate(error * 1e3, 0))
    whole = (series.real[-1] - series.real[0]) - (series.raw[-1] - series.raw[0]) / (
        1 + error / 1e6
    )
    assert sum(correction.size_ns for correction in corrections) == pytest.approx(
        whole, abs=len(corrections) + 1
    )
    steps = [correction for correction in corrections if correction.kind == "step"]
    assert len(steps) == (abs(step) > 60_000) or 40_000 < abs(step) <= 60_000


def test_a_recorded_slew_of_24_ms() -> None:
    """chrony's first update there: -24.13 ms, taken away within a second."""
    series = ClockReadings.load(DATA / "samples.txt")
    corrections = series.corrections(OscillatorRate(-50_137, 0))
    (fast,) = [correction for correction in corrections if correction.size_ns > 1_000_000]
    assert fast.size_ns == pytest.approx(24_130_000, rel=0.005)
    assert fast.rate_ppb == pytest.approx(24_070_000, rel=0.005)
    assert fast.duration_ns == pytest.approx(SECOND, rel=0.05)
    assert {correction.kind for correction in corrections} == {"slew"}
    assert series.unexplained_max_ns() < 2_000


@pytest.mark.parametrize(
    "text",
    ["", "1 2 3 4 5 6\n", "1 2 3 4 5\n2 3 4 5 6\n", "a b c d e f\n" * 2, "2 1 1 1 1 1\n" * 2],
)
def test_readings_that_cannot_be_used_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "samples").write_text(text)
    with pytest.raises(SeriesError):
        ClockReadings.load(tmp_path / "samples")


def test_a_line_cut_at_the_end_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "samples").write_text((DATA / "samples.txt").read_text() + "24 17")
    assert len(ClockReadings.load(tmp_path / "samples").raw) == 100


def test_a_rate_needs_two_exchanges_within_the_readings() -> None:
    series = readings([0.0])
    with pytest.raises(SeriesError, match="fewer than two"):
        series.rate(exchanges(series, 0)[:1])


def test_the_sampler_reads_this_host() -> None:
    """It only reads: `sample` sets nothing."""
    argv = [sys.executable, ntp_sampler.__file__, "sample", "10000000"]
    sampler = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    time.sleep(2)
    sampler.terminate()
    out, _ = sampler.communicate(timeout=10)
    rows = [[int(word) for word in line.split()] for line in out.splitlines()]
    assert len(rows) > 10
    for raw, real, mono, width, tick, _ in rows:
        assert 0 < width < SECOND
        assert 9_000 <= tick <= 11_000
        assert abs(real - time.time_ns()) < 60 * SECOND
        assert abs(mono - time.monotonic_ns()) < 60 * SECOND
        assert abs(raw - time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)) < 60 * SECOND


# --- the whole ------------------------------------------------------------------------------------
def log_lines(count: int, start: int = 1_700_000_007) -> tuple[str, str]:
    """chrony's logs of an update each second."""
    tracking, measured = [], []
    template = LINE.split()
    fields = MEASUREMENTS_LOG.splitlines()[0].split()
    for i in range(count):
        moment = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(start + i)).split()
        tracking.append(" ".join([*moment, *template[2:6], f"{(i + 1) * 1e-6:.3e}", *template[7:]]))
        measured.append(" ".join([*moment, *fields[2:]]))
    return "\n".join(tracking), "\n".join(measured)


def test_what_it_decided_while_learning_is_kept_apart() -> None:
    series = readings([50.0] * 12)
    options = NtpOptions(settle_s=0)
    outcome = evaluate(
        10, options, series, exchanges(series, -50), ChronyOutput(TRACKING, *log_lines(11))
    )
    assert outcome.decided_learning is not None
    assert outcome.decided is not None
    assert outcome.decided_learning.count == LEARNING_UPDATES
    assert outcome.decided.count == 11 - LEARNING_UPDATES
    assert outcome.decided.max_ns == 11_000
    assert outcome.used_s is None  # all of it was within the burst
    assert outcome.settled_ns == pytest.approx(LEARNING_UPDATES * SECOND, rel=0.01)
    assert type(outcome).model_validate_json(outcome.model_dump_json()) == outcome


@pytest.mark.parametrize(("count", "settle_s"), [(LEARNING_UPDATES, 0), (11, 30)])
def test_what_never_settled_has_no_settled_figures(count: int, settle_s: float) -> None:
    series = readings([50.0] * 12)
    output = ChronyOutput(TRACKING, *log_lines(count))
    outcome = evaluate(10, NtpOptions(settle_s=settle_s), series, exchanges(series, -50), output)
    assert (outcome.settled_ns, outcome.decided, outcome.applied, outcome.rate_max_ppb) == (
        None,
    ) * 4
    assert outcome.decided_learning is not None
    assert outcome.decided_learning.count == count


def test_a_daemon_that_did_nothing_gives_no_figures() -> None:
    series = readings([50.0] * 12)
    with pytest.raises(LogError):
        evaluate(10, NtpOptions(), series, exchanges(series, -50), ChronyOutput(TRACKING, "", ""))


def test_the_interval_used_is_without_the_burst() -> None:
    measured = logs.measurements(MEASUREMENTS_LOG)
    assert mean_interval_s(measured) == pytest.approx(8, rel=0.05)
    at = [0, 2, 4, 6, 8, 520, 1034]
    burst = [
        measurement.model_copy(update={"epoch_s": s})
        for measurement, s in zip(measured, at, strict=False)
    ]
    assert mean_interval_s(burst) == 513
    assert mean_interval_s(burst[:5]) is None
    assert mean_interval_s([]) is None


def test_sizes() -> None:
    assert Sizes.of([]) is None
    single = Sizes.of([-7])
    assert single is not None
    assert (single.count, single.max_ns, single.sd_ns) == (1, 7, None)
    several = Sizes.of([-3, 1, 2])
    assert several is not None
    assert (several.mean_ns, several.sd_ns, several.p50_ns) == (2, 1, 2)


@pytest.mark.parametrize(
    ("asked_s", "poll"), [(0, -7), (1e-6, -7), (0.1, -3), (1, 0), (10, 3), (600, 9), (86_400, 16)]
)
def test_the_nearest_interval_that_chrony_has(asked_s: float, poll: int) -> None:
    assert experiment.poll_exponent(asked_s) == poll


@pytest.mark.parametrize(
    "fields",
    [
        {"intervals_s": ()},
        {"intervals_s": (-1,)},
        {"intervals_s": (float("nan"),)},
        {"frequency_error_ppm": 500},
        {"observe_s": 1},
        {"observe_s": 3601},
        {"unknown": 1},
    ],
)
def test_options_that_make_no_sense_are_refused(fields: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        NtpOptions.model_validate(fields)


def test_without_chronyd_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def which(program: str, **_: object) -> None:
        return None

    monkeypatch.setattr("shutil.which", which)
    with pytest.raises(UllageError) as caught:
        experiment.measure(NtpOptions(), print)
    assert caught.value.kind is errors.HOST_MISSING
    assert "apt-get install chrony" in caught.value.hint


def test_the_host_tells_about_how_fast_its_counter_is() -> None:
    assert 100_000 < guest.cpuinfo_khz() < 20_000_000
