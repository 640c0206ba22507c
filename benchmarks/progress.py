"""What a run of the engine says while it is measured: only what goes wrong."""

from __future__ import annotations

import sys

from ullage.runs.events import Trial


class FaultsOnly:
    """A progress that passes on failed trials and warnings, on standard error."""

    def step(self, text: str) -> None:
        pass

    def trial(self, done: Trial, number: int, of_block: int) -> None:
        if done.reason is not None:
            trial = f"{done.environment}, {done.workload}, block {done.block}"
            print(f"failed: {trial}: {done.reason.message}", file=sys.stderr)

    def block(self, number: int, most: int, half_width: float | None) -> None:
        pass

    def warning(self, text: str) -> None:
        print(f"warning: {text}", file=sys.stderr)
