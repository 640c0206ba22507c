"""The run folder: types of its files, writer, reader. Neither side of it imports the other."""

from pathlib import Path
from typing import Final

RUNS: Final = Path("runs")
"""Where run folders lie, unless said otherwise."""
