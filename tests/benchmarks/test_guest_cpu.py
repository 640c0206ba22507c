"""The CPU time of a machine: threads that have ended are in it, and one that ends is no error."""

from __future__ import annotations

import os
import threading
import time

from benchmarks.engine import guest_causes_cost


def test_the_time_of_a_thread_that_has_ended_counts() -> None:
    def work() -> None:
        while time.thread_time() < 0.1:
            pass

    before_s = guest_causes_cost.ran_s(os.getpid())
    worker = threading.Thread(target=work)
    worker.start()
    worker.join()
    assert guest_causes_cost.ran_s(os.getpid()) - before_s >= 0.08
