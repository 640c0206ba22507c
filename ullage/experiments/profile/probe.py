"""A fixed amount of work on one resource; prints the seconds that it took, and those on a CPU.

`probe.py cpu N` · `memory N` · `disk FILE BYTES READS WRITES` · `disk-file FILE` ·
`network BYTES N`

A program of its own, run by `python -I -S`, that imports nothing of ullage: it must start in no
time under any slow-down, and its start is not in its figure.
"""

import hashlib
import mmap
import os
import random
import socket
import sys
import threading
import time
from collections.abc import Callable

BLOCK = 16 << 10
"""Bytes that are digested at a time: they stay in the nearest cache."""
COPY = 64 << 20
"""Bytes that are copied at a time: more than caches hold."""
FILE = 32 << 20
"""Bytes of the file that requests go to."""


def cpu(count: str) -> float:
    """SHA-256 of the same 16 KiB, again and again."""
    block = bytes(BLOCK)
    began = time.perf_counter()
    for _ in range(int(count)):
        hashlib.sha256(block).digest()
    return time.perf_counter() - began


def memory(count: str) -> float:
    """Copies of 64 MiB."""
    # Not of zeros: pages never written are all the same one, which stays in the cache.
    source, target = bytearray(b"\1" * COPY), bytearray(b"\2" * COPY)
    began = time.perf_counter()
    for _ in range(int(count)):
        target[:] = source
    return time.perf_counter() - began


def disk(file: str, size: str, reads: str, writes: str) -> float:
    """Requests of so many bytes at random places, one at a time, past the page cache."""
    length = int(size)
    kinds = [True] * int(reads) + [False] * int(writes)
    order = random.Random(0)
    order.shuffle(kinds)
    buffer = mmap.mmap(-1, length)
    descriptor = os.open(file, os.O_RDWR | os.O_DIRECT)
    began = time.perf_counter()
    for is_read in kinds:
        place = order.randrange(FILE // length) * length
        done = (os.preadv if is_read else os.pwritev)(descriptor, [buffer], place)
        if done != length:
            raise OSError(f"{done} of {length} bytes")
    return time.perf_counter() - began


def disk_file(file: str) -> float:
    with open(file, "wb") as stream:  # noqa: PTH123 - no imports that cost time
        stream.write(os.urandom(FILE))
        stream.flush()
        os.fsync(stream.fileno())
    return 0.0


def network(size: str, count: str) -> float:
    """Messages of so many bytes over the loopback, each answered by one alike."""
    message, amount = bytes(int(size)), int(count)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        near = socket.create_connection(listening.getsockname())
        far, _ = listening.accept()
    for end in (near, far):
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def answer() -> None:
        for _ in range(amount):
            far.sendall(_received(far, len(message)))

    answering = threading.Thread(target=answer, daemon=True)
    began = time.perf_counter()
    answering.start()
    for _ in range(amount):
        near.sendall(message)
        _received(near, len(message))
    return time.perf_counter() - began


def _received(end: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        got = end.recv(size - len(data))
        if not got:
            raise OSError("the connection ended")
        data += got
    return bytes(data)


PROBES: dict[str, Callable[..., float]] = {
    "cpu": cpu,
    "memory": memory,
    "disk": disk,
    "disk-file": disk_file,
    "network": network,
}

if __name__ == "__main__":
    print(PROBES[sys.argv[1]](*sys.argv[2:]), time.process_time())
