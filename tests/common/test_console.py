"""What a person sees while a run goes on."""

from __future__ import annotations

import errno
import io
from typing import NoReturn

import pytest
from rich.progress import Progress
from rich.table import Table

from ullage.cli.live import terminal
from ullage.cli.live.terminal import RunProgress
from ullage.common import console
from ullage.common.console import CleanConsole
from ullage.runs.events import Reason, Trial

HOSTILE = "\x1b]0;pwned\x07\x1b[2J\x9b31m[red]\u202e"


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """What goes to standard error, as on a terminal without colours."""
    screen = io.StringIO()
    terminal_console = CleanConsole(file=screen, highlight=False, width=200)
    monkeypatch.setattr(console, "stderr", terminal_console)
    monkeypatch.setattr(terminal, "stderr", terminal_console)
    return screen


def trial(message: str) -> Trial:
    return Trial(
        trial="b000-t000",
        block=0,
        order=0,
        position=0,
        environment=f"vm{HOSTILE}",
        workload="command",
        status="failed",
        reason=Reason(code="exit-status", message=message),
        epoch_ns=1,
        start_ns=1,
        end_ns=2,
    )


def harmless(text: str) -> bool:
    return not set(text) & set("\x1b\x07\x9b\u202e\r")


def test_nothing_that_a_guest_says_steers_the_terminal(screen: io.StringIO) -> None:
    progress = RunProgress(1)
    progress.step(HOSTILE)
    progress.warning(HOSTILE)
    progress.trial(trial(f"killed: {HOSTILE}\r\nerror: of another"), 1, 3)
    printed = screen.getvalue()
    assert harmless(printed)
    assert printed.count("pwned") == 4
    assert "[red]" in printed, "what a guest says is no markup either"
    assert len(printed.splitlines()) == 3, "and it cannot add lines to a reason"


def test_a_reason_may_be_empty(screen: io.StringIO) -> None:
    RunProgress(1).trial(trial(""), 1, 3)
    assert "failed" in screen.getvalue()


def test_the_live_line_is_clean_too() -> None:
    screen = io.StringIO()
    screen_console = CleanConsole(file=screen, force_terminal=True, color_system=None, width=200)
    progress = RunProgress(1)
    progress.live = Progress(*progress.live.columns, console=screen_console)
    progress.task = progress.live.add_task("", total=1, note="")
    with progress:
        progress.step(HOSTILE)
        progress.live.refresh()
    assert "pwned" in screen.getvalue()
    assert "\x1b]0;" not in screen.getvalue()
    assert "\x1b[2J" not in screen.getvalue()


def test_a_table_is_clean(screen: io.StringIO) -> None:
    table = Table("what\x1b[2J")
    table.add_row("\x1b[2J")
    console.stderr.print(table)
    assert harmless(screen.getvalue())
    assert screen.getvalue().count("␛") == 2


class Gone(io.StringIO):
    """A terminal that has hung up, or a full disk."""

    code = errno.EIO

    def write(self, _: str) -> NoReturn:
        raise OSError(self.code, "gone")


def test_a_terminal_that_is_gone_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal, "stderr", CleanConsole(file=Gone()))
    RunProgress(1).step("removing")
    monkeypatch.setattr(Gone, "code", errno.ENOSPC)
    with pytest.raises(OSError, match="gone"):
        RunProgress(1).step("removing")
