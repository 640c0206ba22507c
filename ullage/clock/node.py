"""One node of a measured topology: a process that serves its clock, and synchronises when told.

`python -m ullage.clock.node`; told by lines of JSON on standard input, the run token first, and
answers each by a line. The end of the input is the end of it.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from ullage import clock


def main() -> None:
    """Obey until the input ends."""
    key = bytes.fromhex(sys.stdin.readline().strip())
    synced = clock.Synced()
    servers = []
    for line in sys.stdin:
        order = json.loads(line)
        if "serve" in order:
            servers.append(clock.UdpServer(order["serve"], key))
            _say({"address": servers[-1].address})
        elif "lead" in order:
            synced.lead()
            _say({})
        else:
            _say(_synchronise(synced, order["sync"], key))
    for server in servers:
        server.stop()


def _synchronise(synced: clock.Synced, server: str, key: bytes) -> dict[str, Any]:
    """Times are CLOCK_MONOTONIC's, which all processes of a kernel share."""
    disruptions, began = synced.disruptions(), time.monotonic_ns()
    try:
        outcome = clock.synchronise_udp(server, key)
        ended = time.monotonic_ns()
        synced.learn(outcome, disruptions=disruptions)
    except (clock.NoAnswerError, clock.ContradictionError, OSError) as error:
        return {"failed": str(error)}
    return {
        "began_ns": began,
        "ended_ns": ended,
        "took_ns": outcome.took_ns,
        "messages": outcome.counts.sent + outcome.counts.answers,
        "round_trip_ns": outcome.fix.rtt_ns,
        "hard_ns": outcome.fix.half_ns,
    }


def _say(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
