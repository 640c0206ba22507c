"""`python -m tests.lab.two_nodes`: the machines, until Ctrl-C or SIGTERM."""

import signal
import sys

from tests.lab.two_nodes.lab import lab

if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    with lab() as ours:
        print(ours.config, flush=True)
        try:
            signal.pause()
        except KeyboardInterrupt:
            sys.exit()
