"""`python -m testing.two_nodes [COUNT]`: the machines, until Ctrl-C or SIGTERM.

Prints the file for `ssh -F`, and their names.
"""

import signal
import sys

from testing.two_nodes.lab import NAMES, lab, many

if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    names = many(int(sys.argv[1])) if len(sys.argv) > 1 else NAMES
    with lab(names) as ours:
        print(ours.config, *ours.machines, flush=True)
        try:
            signal.pause()
        except KeyboardInterrupt:
            sys.exit()
