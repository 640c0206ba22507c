"""The lab's machines (`testing/two_nodes`), for the time of a benchmark."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_SOME_FAILED: Final = 3


@dataclass(frozen=True)
class Machines:
    """They are up, and ullage is on them."""

    config: Path
    """For `ssh -F`."""
    names: tuple[str, ...]

    def ssh(self, name: str, *words: str, control: Path | None = None) -> list[str]:
        """The command line that runs something there."""
        argv = ["ssh", "-T", "-F", str(self.config), "-o", "BatchMode=yes"]
        if control is not None:
            argv += ["-o", f"ControlPath={control}"]
        return [*argv, f"root@{name}", *words]

    @contextlib.contextmanager
    def connected(self, name: str) -> Iterator[Path]:
        """A connection that others share, as ControlMaster has it."""
        with tempfile.TemporaryDirectory() as place:
            control = Path(place) / "control"
            master = self.ssh(name, control=control)
            subprocess.run([*master[:-1], "-M", "-N", "-f", master[-1]], check=True)
            try:
                yield control
            finally:
                leave = [*master[:-1], "-O", "exit", master[-1]]
                subprocess.run(leave, check=False, capture_output=True)


@contextlib.contextmanager
def machines(count: int = 2, *, installed: bool = True) -> Iterator[Machines]:
    """So many of them, and gone at the end."""
    program = [sys.executable, "-m", "testing.two_nodes", str(count)]
    lab = subprocess.Popen(program, stdout=subprocess.PIPE, text=True)
    try:
        assert lab.stdout is not None
        words = lab.stdout.readline().split()
        if len(words) != 1 + count:
            raise RuntimeError("the lab's machines are not up")
        ours = Machines(Path(words[0]), tuple(words[1:]))
        if installed:
            for name in ours.names:
                ullage("node", "install", f"root@{name}", "--node-config", str(ours.config))
        yield ours
    finally:
        lab.send_signal(signal.SIGTERM)
        lab.wait(120)


def ullage(*argv: str) -> None:
    """Run it; its errors are ours, but for trials without figures, which it says itself."""
    program = [sys.executable, "-m", "ullage", *argv]
    done = subprocess.run(program, check=False, stdout=subprocess.DEVNULL)
    if done.returncode not in {0, _SOME_FAILED}:
        done.check_returncode()


def folder(runs: Path) -> Path:
    """The newest run there."""
    return max(runs.iterdir())


def entries(ours: Machines) -> str:
    """The machines as `nodes:` of a plan has them."""
    lines: Sequence[str] = [
        f"  {name}: {{ssh: root@{name}, config: {ours.config}}}" for name in ours.names
    ]
    return "\n".join(lines)
