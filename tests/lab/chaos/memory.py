"""What memory a process has and has had, as the kernel tells.

Not `ru_maxrss`: that of a process that was waited for counts its children too, an image's builders
among them, and that of one's own begins before it was started, with who started it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

_Field = Literal["VmRSS", "VmHWM"]


def memory_bytes(field: _Field, pid: int | Literal["self"] = "self") -> int:
    """VmRSS: what it has now; VmHWM: its peak. 0 when it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return 0
    values = (line.split()[1] for line in lines.splitlines() if line.startswith(f"{field}:"))
    return int(next(values, "0")) * 1024


def begin_anew() -> int:
    """This process's peak is counted from now on; what it has now."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    return memory_bytes("VmRSS")
