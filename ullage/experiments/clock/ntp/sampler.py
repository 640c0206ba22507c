"""Runs inside the guest: reads its clocks and the kernel's clock discipline at a fixed rate.

Standard library only, because the guest has no more. `sample INTERVAL_NS` prints one line each
time: `raw_ns real_ns mono_ns width_ns tick frequency`; the three clocks were read within `width_ns`
of CLOCK_MONOTONIC_RAW. `tick` (µs) and `frequency` (ppm × 2^16) are those of adjtimex(2).
`set NS` sets the guest's clock instead.
"""

from __future__ import annotations

import ctypes
import sys
import time

_TRIES = 8
_FLUSH_NS = 500_000_000


class _Timex(ctypes.Structure):
    """The head of `struct timex` (linux/timex.h); nothing behind it is read."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        *((name, ctypes.c_long) for name in ("offset", "freq", "maxerror", "esterror")),
        ("status", ctypes.c_int),
        *((name, ctypes.c_long) for name in ("constant", "precision", "tolerance")),
        ("time_s", ctypes.c_long),
        ("time_us", ctypes.c_long),
        ("tick", ctypes.c_long),
        ("rest", ctypes.c_char * 256),
    )


def read() -> tuple[int, int, int, int]:
    """The narrowest of a few readings: raw, real and monotonic time, and how narrow it is."""
    best = (0, 0, 0, 1 << 62)
    for _ in range(_TRIES):
        before = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
        real = time.clock_gettime_ns(time.CLOCK_REALTIME)
        mono = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        after = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
        if after - before < best[3]:
            best = ((before + after) // 2, real, mono, after - before)
    return best


def sample(interval_ns: int) -> None:
    """Print readings until we are ended."""
    libc = ctypes.CDLL(None, use_errno=True)
    state = _Timex()
    lines: list[str] = []
    due = flushed = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
    while True:
        if libc.adjtimex(ctypes.byref(state)) < 0:
            sys.exit(f"adjtimex: errno {ctypes.get_errno()}")
        lines.append(" ".join(map(str, (*read(), state.tick, state.freq))))
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
        if now - flushed > _FLUSH_NS:
            print("\n".join(lines), flush=True)
            lines.clear()
            flushed = now
        due = max(due + interval_ns, now)
        time.sleep((due - now) / 1e9)


def set_clock(ahead_ns: int) -> None:
    """Set CLOCK_REALTIME to so much ahead of CLOCK_MONOTONIC."""
    for _ in range(_TRIES):  # an emulated guest takes milliseconds for the first
        time.clock_settime_ns(time.CLOCK_REALTIME, time.monotonic_ns() + ahead_ns)


if __name__ == "__main__":
    {"sample": sample, "set": set_clock}[sys.argv[1]](int(sys.argv[2]))
