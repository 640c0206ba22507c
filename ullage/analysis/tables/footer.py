"""The footer of a Parquet file, first looked at by a process of its own.

At some that are damaged, by a single bit even, Arrow does not complain: it ends the process, or
may walk without an end.
"""

from __future__ import annotations

import os
import resource
import signal
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq

LIMIT_S: Final = 60
"""Far more than the footer of any table takes, on a slow disk too."""


def fault(file: Path) -> str | None:
    """Why it can neither be walked through nor be refused; None: it can."""
    walker = os.fork()
    if walker == 0:
        try:
            _walk(file)
        finally:
            os._exit(0)  # what Arrow complains of, the caller meets again
    status = os.waitpid(walker, 0)[1]
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGALRM:
        return f"its footer could not be walked through in {LIMIT_S} s"
    return "its footer is damaged" if status else None


def _walk(file: Path) -> None:
    """All of it that may be asked for."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for end in (signal.SIGABRT, signal.SIGALRM):
        signal.signal(end, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})
    signal.alarm(LIMIT_S)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # its last words are nobody's
    metadata = pq.read_metadata(file)
    for index in range(metadata.num_row_groups):
        group = metadata.row_group(index)
        for at in range(group.num_columns):
            group.column(at)
