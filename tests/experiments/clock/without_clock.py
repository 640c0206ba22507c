"""`main` is `ullage` where the clock's extension module was never built."""

import sys

from ullage.cli.main import main

__all__ = ["main"]

assert "ullage._clock" not in sys.modules, "loaded by a command that needs no clock"
sys.modules["ullage._clock"] = None  # type: ignore[assignment]
