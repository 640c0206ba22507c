"""What is seen of an instance from outside: its port closed, then open, then a reply.

Nothing tells from outside that somebody begins to listen, so a connection that was refused is tried
again: a tenth of the time later that somebody has been expected there, and REST_S later at most
(`looking`). What was not answered at all is given up and tried anew after SILENT_S (FAR_SILENT_S
where the way is not ours, and may be long), so that no second of the kernel's own patience hides in
a figure. For the same reason the kernel is told the MAC address: a question for it that was lost,
because the bridge did not yet pass frames on, it would ask again only a second later.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import socket
import struct
import time
from collections.abc import Callable
from typing import Final, Literal

from ullage.common import commands

REST_S: Final = 0.005
SILENT_S: Final = 0.05
FAR_SILENT_S: Final = 0.5
LONGEST_HEAD: Final = 1 << 14
"""Bytes in which a reply has its status."""


_SIOCSARP: Final = 0x8955
_ARPHRD_ETHER: Final = 1
_COMPLETE_AND_PERMANENT: Final = 0x02 | 0x04
_ARPREQ: Final = struct.Struct("=H2x4s8xH6s8xi16x16s")
"""`struct arpreq` of <linux/if_arp.h>."""


def introduce(address: str, mac: str, device: str) -> None:
    """Tell this host's kernel whose address it is; the entry goes with the device."""
    request = _ARPREQ.pack(
        socket.AF_INET,
        socket.inet_aton(address),
        _ARPHRD_ETHER,
        bytes.fromhex(mac.replace(":", "")),
        _COMPLETE_AND_PERMANENT,
        device.encode(),
    )
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, _SIOCSARP, request)


async def watch_port(
    address: str,
    port: int,
    on_state: Callable[[Literal["port_closed", "port_open"]], None],
    expected: asyncio.Event,
    *,
    silent_s: float = SILENT_S,
) -> None:
    """Knock until somebody opens. `port_closed` is seen once, at the first refusal.

    After that nobody is disturbed until somebody is expected there.
    """
    refused, began = False, time.monotonic()
    while True:
        error = await _knock(address, port, silent_s)
        if error == 0:
            on_state("port_open")
            return
        if error == errno.ECONNREFUSED:
            if not refused:
                refused = True
                on_state("port_closed")
                await expected.wait()
                began = time.monotonic()
            else:
                await asyncio.sleep(commands.poll_interval_s(time.monotonic() - began, REST_S))
        elif error != errno.ETIMEDOUT:
            # No route yet: the interface comes up in this moment.
            await asyncio.sleep(commands.poll_interval_s(time.monotonic() - began, REST_S))


async def _knock(address: str, port: int, silent_s: float) -> int:
    """0, or the number of the error; ETIMEDOUT when nobody answers so long."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as knock:
        knock.setblocking(False)
        try:
            async with asyncio.timeout(silent_s):
                await asyncio.get_running_loop().sock_connect(knock, (address, port))
        except TimeoutError:
            return errno.ETIMEDOUT
        except OSError as error:
            return error.errno or errno.EIO
    return 0


async def first_reply(address: str, port: int, path: str) -> int:
    """The status of the first reply to a GET by HTTP/1.1. OSError, ValueError when it is none."""
    reader, writer = await asyncio.open_connection(address, port, limit=LONGEST_HEAD)
    try:
        head = f"GET {path} HTTP/1.1\r\nHost: {address}:{port}\r\nConnection: close\r\n\r\n"
        writer.write(head.encode("ascii"))
        await writer.drain()
        line = await reader.readuntil(b"\r\n")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
        raise ValueError("what came is no reply by HTTP") from error
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
    version, _, status = line.partition(b" ")
    if not version.startswith(b"HTTP/1.") or not status[:3].isdigit():
        raise ValueError(f"what came is no reply by HTTP: {os.fsdecode(line)[:60]!r}")
    return int(status[:3])
