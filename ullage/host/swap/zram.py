"""Devices of compressed memory: the kernel makes one when it is asked, and takes it back."""

from __future__ import annotations

import errno
import re
import time
from pathlib import Path
from typing import Final

from ullage.common.errors import SWAP_UNUSABLE, UllageError

ZRAM: Final = "zram"
_CONTROL: Final = Path("/sys/class/zram-control")
_BLOCK: Final = Path("/sys/block")
_NAME: Final = re.compile(r"zram(\d{1,4})")
_TRIES: Final = 20
_PAUSE_S: Final = 0.1
"""Whoever looks at new devices (udev) may have it open for a moment."""


def there() -> bool:
    """Can this kernel make one?"""
    return _CONTROL.is_dir()


def names() -> set[str]:
    """Of all that there are, `zram0`."""
    return {path.name for path in _BLOCK.glob("zram*") if _NAME.fullmatch(path.name)}


def add() -> Path:
    """A new one. SWAP_UNUSABLE."""
    try:
        return Path(f"/dev/zram{int((_CONTROL / 'hot_add').read_text(encoding='ascii'))}")
    except (OSError, ValueError) as error:
        reason = f"no device could be had: {error}"
        raise UllageError(SWAP_UNUSABLE, on=ZRAM, reason=reason) from error


def is_one(path: Path) -> bool:
    """Is that the path of one?"""
    return path.parent == Path("/dev") and _NAME.fullmatch(path.name) is not None


def is_used(path: Path) -> bool:
    """Has it a size, so that something may be on it?"""
    try:
        return (_BLOCK / path.name / "initstate").read_text(encoding="ascii").strip() != "0"
    except FileNotFoundError:
        return False


def set_size(path: Path, size_bytes: int) -> None:
    """Of what it holds, before it is compressed. OSError."""
    (_BLOCK / path.name / "disksize").write_text(str(size_bytes), encoding="ascii")


def reset(path: Path) -> None:
    """Forget what it holds. OSError; one that is gone is no fault."""
    if (_BLOCK / path.name).exists():
        _write(_BLOCK / path.name / "reset", "1")


def remove(path: Path) -> None:
    """Give it back; one that is used stays. OSError; one that is gone is no fault."""
    match = _NAME.fullmatch(path.name)
    if match and (_BLOCK / path.name).exists() and not is_used(path):
        _write(_CONTROL / "hot_remove", match[1])


def _write(file: Path, text: str) -> None:
    for attempt in range(_TRIES):
        try:
            file.write_text(text, encoding="ascii")
        except OSError as error:
            if error.errno != errno.EBUSY or attempt == _TRIES - 1:
                raise
            time.sleep(_PAUSE_S)
        else:
            return
