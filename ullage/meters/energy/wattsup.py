"""Energy meter `wattsup`."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import stat
import termios
import time
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Final

from pydantic import Field

from ullage.meters.energy.base import READ_DEADLINE_S, FaultError, MeterOptions
from ullage.meters.energy.remote import OutsideMeter, OutsideOptions, faults, number, power, quoted
from ullage.runs.readings import Channel

_START: Final = b"#L,W,3,E,,1;"
"""Log externally, a packet each second."""
_VERSION: Final = b"#V,R,0;"
_STOP: Final = b"#L,R,0;"
_FIELDS: Final = 18
"""Of a packet of data; the first three are W × 10, V × 10 and A × 1000."""
_LONGEST: Final = 512
"""Bytes of a packet: 18 fields of 6 at most."""
_MOST_NOISE: Final = 1 << 16
"""Bytes without a packet, in one reading, at which this is no Watts up?: 5.7 s at full speed."""
_CHUNK: Final = 4096
_ACCURACY: Final = 0.02


class WattsupOptions(OutsideOptions):
    """Fields of a `wattsup` meter in the plan."""

    device: Path = Field(
        description="its serial line: `/dev/ttyUSB0`, or its lasting name in `/dev/serial/by-id`"
    )


class Wattsup(OutsideMeter):
    """A Watts up? PRO between the wall and the machine's plug, over its USB serial line.

    The meter sends its mean power of each second, in steps of 0.1 W, as the packet `#d` of its
    communications protocol (115200 baud, 8N1). A reading waits for the next packet, so what it
    tells is of the second before. Its maker states ±1.5 % and three counts ("a load of 100 W:
    ±1.8 W", operator's manual, technical specifications): from 60 W upward that is within 2 %,
    which is taken as its accuracy; below 60 W it is more.

    Needs read and write access to the serial line (root, or the group `dialout`), by nobody else at
    the same time. The meter is told to send at the start and to stop at the end.
    """

    options: WattsupOptions
    name: ClassVar[str] = "wattsup"
    Options: ClassVar[type[MeterOptions]] = WattsupOptions
    fixes: ClassVar[Mapping[str, str]] = {
        "gone": "plug its USB cable in, and name its line by `device:`, see /dev/serial/by-id",
        "silent": "see that `device:` is the line of the Watts up?, and that the meter has power",
        "denied": "run as root or in the group dialout, and end what else uses the line",
        "nonsense": "see that `device:` is the line of a Watts up? PRO and that no other program "
        "reads it",
    }

    def __init__(self, options: WattsupOptions) -> None:
        super().__init__(options)
        self._version = ""
        self._line: _Serial | None = None

    def where(self) -> str:
        return str(self.options.device)

    def describe(self) -> tuple[Channel, ...]:
        self.ask()
        source = f"packets #d of the Watts up? at {self.options.device}{self._version}"
        return self.wall(0.1, source, accuracy=_ACCURACY)

    def ask(self) -> Mapping[str, float]:
        """The power in the next packet."""
        until_s = time.monotonic() + READ_DEADLINE_S
        new = self._line is None
        line = self._line = self._line or _Serial(self.options.device)
        line.forget()
        if new:
            line.send(_VERSION + _START, until_s)
        noise = 0
        while True:
            packet = line.packet(until_s)
            power_w = _watts(packet)
            if power_w is not None:
                return {"wall": power_w}
            if packet.startswith("#v,"):
                self._version = f" (version {quoted(packet)})"
            noise += len(packet) + 1
            if noise > _MOST_NOISE:
                raise FaultError("nonsense", f"no packet of data, but {quoted(packet)}")

    def close(self) -> None:
        """Tell the meter to stop, and let go of its line."""
        if self._line is not None:
            with contextlib.suppress(FaultError):
                self._line.send(_STOP, time.monotonic() + 1.0)
            self._line.close()
            self._line = None


class _Serial:
    """A serial line, raw, at 115200 baud, 8 bits, no parity, 1 stop bit."""

    def __init__(self, device: Path) -> None:
        self._received = b""
        with faults():
            self._fd = os.open(device, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            self._configure()
        except BaseException:
            os.close(self._fd)
            raise

    def send(self, data: bytes, until_s: float) -> None:
        while data:
            self._wait(select.POLLOUT, until_s)
            with faults():
                data = data[os.write(self._fd, data) :]

    def forget(self) -> None:
        """Drop all packets that have come whole: they tell of the past."""
        for _ in range(_MOST_NOISE // _CHUNK):
            more = self._receive()
            self._received = self._received.rpartition(b";")[2][-_LONGEST:]
            if not more:
                return

    def packet(self, until_s: float) -> str:
        """What comes until the next `;`, from the last `#` before it."""
        while b";" not in self._received:
            if len(self._received) > _LONGEST:
                # Noise; the beginning of a packet may be at its end.
                noise, self._received = self._received[:-_LONGEST], self._received[-_LONGEST:]
                return noise.decode("ascii", errors="replace")
            self._wait(select.POLLIN, until_s)
            self._receive()
        packet, _, self._received = self._received.partition(b";")
        return packet[max(packet.rfind(b"#"), 0) :].decode("ascii", errors="replace")

    def close(self) -> None:
        os.close(self._fd)

    def _receive(self) -> bool:
        """Take what has come; False when nothing has. FaultError."""
        try:
            more = os.read(self._fd, _CHUNK)
        except BlockingIOError:
            return False
        except OSError as error:
            raise FaultError("gone", error.strerror or "the line was hung up") from error
        if not more:
            raise FaultError("gone", "the line was hung up")
        self._received += more
        return True

    def _wait(self, event: int, until_s: float) -> None:
        poll = select.poll()
        poll.register(self._fd, event)
        left_s = until_s - time.monotonic()
        happened = poll.poll(max(left_s, 0) * 1000)
        if not happened:
            raise FaultError("silent", f"no packet within {READ_DEADLINE_S:g} s")
        if not happened[0][1] & event:
            raise FaultError("gone", "the line was hung up")

    def _configure(self) -> None:
        if not stat.S_ISCHR(os.fstat(self._fd).st_mode):
            raise FaultError("nonsense", "it is no serial line")
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise FaultError("denied", "another program has locked the line") from error
        try:
            mode = termios.tcgetattr(self._fd)
            mode[0] = termios.IGNBRK
            mode[1] = 0
            mode[2] = termios.CS8 | termios.CREAD | termios.CLOCAL
            mode[3] = 0
            mode[4] = mode[5] = termios.B115200
            mode[6][termios.VMIN], mode[6][termios.VTIME] = 1, 0
            termios.tcsetattr(self._fd, termios.TCSANOW, mode)
        except termios.error as error:
            raise FaultError("nonsense", f"it is no serial line: {error.args[-1]}") from error


def _watts(packet: str) -> float | None:
    """W of a packet of data; None where it is another packet, or not whole. FaultError."""
    kind, *fields = packet.split(",")
    if kind != "#d" or len(fields) != _FIELDS + 2 or fields[1] != str(_FIELDS):
        return None
    if fields[2].strip() in {"", "_"}:
        raise FaultError("nonsense", "the meter sends no watts: its field is switched off")
    return power(number(fields[2], "its field of watts") / 10, "its field of watts")
