"""What a person sees: on a terminal one live line while a run goes on, plain lines elsewhere.

Everything that is printed here is cleaned first: no guest, and no run folder from elsewhere, steers
the terminal.
"""

from __future__ import annotations

import errno
import json
import os
import sys
from typing import Any

from rich import markup
from rich.console import Console
from rich.text import Text

from ullage.common.text import one_line, whole


class CleanConsole(Console):
    """Obeys our own markup and nothing else that stands in a text, in a table either."""

    def render_str(self, text: str, *args: Any, **options: Any) -> Text:
        """As rich does it, with control and other hidden characters shown by name."""
        return super().render_str(whole(text), *args, **options)

    def print(self, *args: Any, **options: Any) -> None:
        """As rich does it; a terminal that has hung up is no reason to fail."""
        try:
            super().print(*args, **options)
        except OSError as error:
            if error.errno != errno.EIO:
                raise

    def on_broken_pipe(self) -> None:
        """Whoever reads has enough, as `head` has: the command goes on to its own end."""
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def escape(text: str) -> str:
    """Somebody else's text for a place in a line of ours: no markup, and no line of its own."""
    return markup.escape(one_line(text))


def _console(*, to_stderr: bool) -> CleanConsole:
    """No emoji codes: `:x:` is data. Not on a terminal there is no width to wrap or cut at."""
    console = CleanConsole(stderr=to_stderr, highlight=False, emoji=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _WIDE
    return console


_WIDE = 10_000
stderr = _console(to_stderr=True)
stdout = _console(to_stderr=False)


def print_json(value: Any) -> None:
    """A result for programs, on standard output."""
    json.dump(value, sys.stdout, indent=2, default=str)
    sys.stdout.write("\n")
