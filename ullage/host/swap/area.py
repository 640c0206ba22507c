"""The area that a run swaps to: a device, a file, or compressed memory.

The kernel has one swap space for all, and takes of several areas whichever it likes: so a run has
one area, and none where the host has its own.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ullage.common.commands import needed, tail
from ullage.common.errors import SWAP_UNUSABLE, UllageError
from ullage.common.quantities import format_bytes
from ullage.host import devices, storage
from ullage.host.cgroups import Hierarchy, hierarchies
from ullage.host.paths import state_dir
from ullage.host.storage import is_device
from ullage.host.swap.request import SwapRequest, areas

ZRAM: Final = "zram"
NOTE: Final = "swap"
"""In the state of a run that has swap: the device or file."""
_SWAPS: Final = Path("/proc/swaps")
_ZRAM: Final = Path("/sys/class/zram-control")
_BLOCK: Final = Path("/sys/block")
_PATIENCE_S: Final = 600.0
"""`swapoff` brings all of it back into memory first."""
_V1: Final = "memory.memsw.limit_in_bytes"
_NUMBER: Final = re.compile(r"/dev/zram(\d{1,4})")


def check(requests: Mapping[str, SwapRequest]) -> None:
    """Environment → its request: SWAP_UNUSABLE for what this host cannot do; it changes nothing."""
    for environment, request in requests.items():
        first, other = next(iter(requests.items()))
        if other.on != request.on:
            reason = (
                f"{first} swaps to {other.on} and {environment} to {request.on}: the kernel has one"
                " swap space for all, so make two runs and compare them"
            )
            raise UllageError(SWAP_UNUSABLE, on=request.on, reason=reason)
    for request in list(requests.values())[:1]:
        if trouble := _host_refusal() or _refusal(request.on):
            raise UllageError(SWAP_UNUSABLE, on=request.on, reason=trouble)


def _host_refusal() -> str | None:
    """Why this host can have no swap for a run, wherever."""
    if os.geteuid() != 0:
        return "only root can give a host swap"
    if not _SWAPS.exists():
        return "this kernel was built without swap"
    if mine := areas(_SWAPS.read_text(encoding="utf-8")):
        return f"this host swaps already, to {mine[0].path}: `swapoff -a` for the run"
    if any(tree.version == 1 and not (tree.path / _V1).exists() for tree in _of_memory()):
        return "this kernel does not limit swap by cgroup: boot it with `swapaccount=1`"
    return None


def _refusal(on: str | Path) -> str | None:
    """The same of the place that was chosen."""
    if on == ZRAM:
        return None if _ZRAM.is_dir() else "this kernel has no zram: `modprobe zram`"
    if is_device(path := Path(on)):
        return devices.refusal(path)
    return None if path.is_dir() and os.access(path, os.W_OK) else "there is no such directory"


def _of_memory() -> list[Hierarchy]:
    return [tree for tree in hierarchies() if "memory" in tree.controllers]


def turn_on(tag: str, on: str | Path, size_bytes: int) -> None:
    """Make the area, note it, and have the kernel use it. SWAP_UNUSABLE; nothing is left then.

    size_bytes: of a file or of zram.
    """
    path = _zram() if on == ZRAM else _place(tag, Path(on))
    note = state_dir(tag) / NOTE
    note.write_text(str(path), encoding="utf-8")
    try:
        if on == ZRAM:
            (_BLOCK / path.name / "disksize").write_text(str(size_bytes), encoding="ascii")
        elif not is_device(Path(on)):
            _run(on, "fallocate", "--length", str(size_bytes), str(path))
            path.chmod(0o600)
        elif (capacity := _capacity(path)) < size_bytes:
            reason = (
                f"it has {format_bytes(capacity)}, and {format_bytes(size_bytes)} are asked for"
            )
            raise UllageError(SWAP_UNUSABLE, on=on, reason=reason)
        _run(on, "mkswap", "--label", devices.LABEL, str(path))
        _run(on, "swapon", str(path))
    except BaseException as error:
        turn_off(path)
        note.unlink(missing_ok=True)
        if isinstance(error, OSError):
            reason = error.strerror or str(error)
            raise UllageError(SWAP_UNUSABLE, on=on, reason=reason) from error
        raise


def turn_off(path: Path) -> None:
    """Take it from the kernel, and remove what was made for it; what is off already is no fault.

    SWAP_UNUSABLE where its pages do not fit into memory any more.
    """
    if str(path) in {area.path for area in areas(_SWAPS.read_text(encoding="utf-8"))}:
        _run(path, "swapoff", str(path))
    if number := _NUMBER.fullmatch(str(path)):
        if path.exists():
            (_BLOCK / path.name / "reset").write_text("1", encoding="ascii")
            (_ZRAM / "hot_remove").write_text(number[1], encoding="ascii")
    elif not is_device(path):
        path.unlink(missing_ok=True)


def end(tag: str) -> None:
    """Of a run, if it has any. SWAP_UNUSABLE."""
    if (area := noted(tag)) is not None:
        turn_off(area)
        (state_dir(tag) / NOTE).unlink(missing_ok=True)


def noted(tag: str) -> Path | None:
    """The area of a run; None: it has none."""
    try:
        return Path((state_dir(tag) / NOTE).read_text(encoding="utf-8"))
    except OSError:
        return None


def _zram() -> Path:
    """A new device of the kernel's."""
    try:
        return Path(f"/dev/zram{int((_ZRAM / 'hot_add').read_text(encoding='ascii'))}")
    except (OSError, ValueError) as error:
        reason = f"no device could be had: {error}"
        raise UllageError(SWAP_UNUSABLE, on=ZRAM, reason=reason) from error


def _place(tag: str, on: Path) -> Path:
    """As the kernel tells it, without links."""
    return on.resolve() if is_device(on) else storage.place(tag, "swap", on.resolve())


def _capacity(path: Path) -> int:
    with path.open("rb") as device:
        return device.seek(0, os.SEEK_END)


def _run(on: str | Path, program: str, *words: str) -> None:
    argv = [needed(program, "util-linux"), *words]
    try:
        subprocess.run(argv, capture_output=True, text=True, timeout=_PATIENCE_S, check=True)
    except subprocess.CalledProcessError as error:
        reason = f"{program}: {tail(error.stderr)}"
        raise UllageError(SWAP_UNUSABLE, on=on, reason=reason) from error
    except subprocess.TimeoutExpired as error:
        reason = f"{program} does not end within {_PATIENCE_S:g} s"
        raise UllageError(SWAP_UNUSABLE, on=on, reason=reason) from error
