"""`python -m tests.support.patient …` is `ullage …` with a controller that may be late itself.

Where a trial's end is heard 250 ms after it was, the product makes no figure of it. A machine that
also runs other tests stalls the controller for longer; what is not about that lets it pass.
"""

from __future__ import annotations

from typing import Final
from unittest import mock

from ullage.cli import main as cli

LAG: Final = ("ullage.engine.program.LAG_NS", 60 * 10**9)
"""What is changed, and to what; for `monkeypatch.setattr` too."""


def main() -> None:
    with mock.patch(*LAG):
        cli.main()


if __name__ == "__main__":
    main()
