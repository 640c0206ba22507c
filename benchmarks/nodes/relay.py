"""A way for datagrams with a known delay in each direction, for kernels without netem.

    python -m benchmarks.nodes.relay PORT THERE_US BACK_US

Whoever sends to the port that it prints reaches 127.0.0.1:PORT after THERE_US, and the answer
comes back after BACK_US. It spins to the
instant, so a delay is exact to what Python takes for a datagram.
"""

from __future__ import annotations

import select
import socket
import sys
import time
from collections import deque
from typing import Final

LOOPBACK: Final = "127.0.0.1"
_SPIN_S: Final = 0.0001
"""Before an instant it spins for so long, and sleeps before that: who spins always is the first
whose core is taken away."""


def main(port: int, there_ns: int, back_ns: int) -> None:
    """Until it is killed."""
    near, far = (_socket() for _ in range(2))
    print(near.getsockname()[1], flush=True)
    waiting: deque[tuple[int, bytes, bool]] = deque()
    client: tuple[str, int] | None = None
    while True:
        now = time.monotonic_ns()
        for source, delay_ns, back in ((near, there_ns, False), (far, back_ns, True)):
            try:
                data, sender = source.recvfrom(512)
            except BlockingIOError:
                continue
            waiting.append((now + delay_ns, data, back))
            client = client if back else sender
        while waiting and waiting[0][0] <= time.monotonic_ns():
            _, data, back = waiting.popleft()
            if not back:
                far.sendto(data, (LOOPBACK, port))
            elif client is not None:
                near.sendto(data, client)
        left_s = (waiting[0][0] - time.monotonic_ns()) / 1e9 if waiting else None
        if left_s is None or left_s > _SPIN_S:
            select.select((near, far), (), (), None if left_s is None else left_s - _SPIN_S)


def _socket() -> socket.socket:
    ours = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    ours.bind((LOOPBACK, 0))
    ours.setblocking(False)
    return ours


if __name__ == "__main__":
    main(int(sys.argv[1]), *(int(float(word) * 1000) for word in sys.argv[2:4]))
