"""The area that a run swaps to: a device, a file, or compressed memory.

The kernel has one swap space for all, and takes of several areas whichever it likes: so a run has
one area, and none where the host has its own.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from ullage.common.commands import needed, tail
from ullage.common.errors import SWAP_UNUSABLE, UllageError
from ullage.common.files import put
from ullage.common.quantities import format_bytes
from ullage.host import devices, storage
from ullage.host.cgroups import Hierarchy, hierarchies
from ullage.host.paths import TAG, state_dir, state_root
from ullage.host.storage import is_device
from ullage.host.swap import zram
from ullage.host.swap.request import SwapRequest, areas
from ullage.host.swap.zram import ZRAM

NOTE: Final = "swap"
"""In the state of a run that has swap: the device or file."""
_LOCK: Final = "swap.lock"
_SWAPS: Final = Path("/proc/swaps")
_LABEL_AT: Final = 1052
_LABEL_BYTES: Final = 16
"""Of mkswap's header: after 1024 bytes of boot sector, three numbers and a UUID."""
_PATIENCE_S: Final = 600.0
"""`swapoff` brings all of it back into memory first."""
_V1: Final = "memory.memsw.limit_in_bytes"


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
        return None if zram.there() else "this kernel has no zram: `modprobe zram`"
    if is_device(path := Path(on)):
        return devices.refusal(path)
    return None if path.is_dir() and os.access(path, os.W_OK) else "there is no such directory"


def _of_memory() -> list[Hierarchy]:
    return [tree for tree in hierarchies() if "memory" in tree.controllers]


def turn_on(tag: str, on: str | Path, size_bytes: int) -> None:
    """Make the area, note it, and have the kernel use it. SWAP_UNUSABLE; nothing is left then.

    size_bytes: of a file or of zram.
    """
    path: Path | None = None
    try:
        path = _zram(tag) if on == ZRAM else _place(tag, Path(on))
        _note(tag, path)
        if on == ZRAM:
            zram.set_size(path, size_bytes)
        elif not is_device(Path(on)):
            _run(on, "fallocate", "--length", str(size_bytes), str(path))
            path.chmod(0o600)
        elif (capacity := _capacity(path)) < size_bytes:
            reason = (
                f"it has {format_bytes(capacity)}, and {format_bytes(size_bytes)} are asked for"
            )
            raise UllageError(SWAP_UNUSABLE, on=on, reason=reason)
        _run(on, "mkswap", "--label", label(tag), str(path))
        _run(on, "swapon", str(path))
    except BaseException as error:
        with suppress(OSError):  # what stays has its note
            if path is None:
                _forget(tag)
            else:
                _turn_off(tag, path)
        if isinstance(error, OSError):
            reason = error.strerror or str(error)
            raise UllageError(SWAP_UNUSABLE, on=on, reason=reason) from error
        raise


def label(tag: str) -> str:
    """Of a run's area: 15 characters, as many as mkswap keeps."""
    return f"ullage-{tag}"


def end(tag: str) -> None:
    """Take a run's area from the kernel, and remove what was made for it. SWAP_UNUSABLE.

    What is off already is no fault, and what is another's by now is left alone.
    """
    if (place := noted(tag)) is None:
        return
    try:
        if place == Path(ZRAM):
            _remove_nameless(tag)
        else:
            _turn_off(tag, place)
    except OSError as error:
        reason = f"it cannot be taken back: {error.strerror or error}"
        raise UllageError(SWAP_UNUSABLE, on=place, reason=reason) from error


def noted(tag: str) -> Path | None:
    """The area of a run, `zram` where it has no name yet; None: it has none."""
    lines = _lines(tag)
    return Path(lines[0]) if lines else None


def _turn_off(tag: str, path: Path) -> None:
    """In this order: a device that is given back may be another's before the note is gone."""
    if _is_on(path):
        if not _is_ours(tag, path):
            _forget(tag)
            return
        _run(path, "swapoff", str(path))
    if zram.is_one(path):
        ours = not zram.is_used(path) or _is_ours(tag, path)
        if ours:
            zram.reset(path)
        _forget(tag)
        if ours:
            zram.remove(path)
        return
    if not is_device(path):
        path.unlink(missing_ok=True)
    _forget(tag)


def _is_on(path: Path) -> bool:
    return str(path) in {area.path for area in areas(_SWAPS.read_text(encoding="utf-8"))}


def _is_ours(tag: str, path: Path) -> bool:
    """By the label; what is still blank had a size and no more when its run was killed."""
    with path.open("rb") as file:
        file.seek(_LABEL_AT)
        there = file.read(_LABEL_BYTES).rstrip(b"\0")
    return there == label(tag).encode() or (not there and not _is_on(path))


def _zram(tag: str) -> Path:
    """A new device of the kernel's, noted before it is known: a run may be killed in between."""
    with _one_at_a_time():
        _note(tag, Path(ZRAM), *sorted(zram.names()))
        path = zram.add()
        try:
            _note(tag, path)
        except OSError:
            zram.remove(path)
            raise
    return path


def _remove_nameless(tag: str) -> None:
    """Devices that came after the note, that nobody uses and that stand in no other note."""
    with _one_at_a_time():
        others = {str(noted(run.name)) for run in state_root().iterdir() if TAG.fullmatch(run.name)}
        for name in zram.names().difference(_lines(tag)[1:]):
            if f"/dev/{name}" not in others:
                zram.remove(Path("/dev") / name)
        _forget(tag)


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Who makes a device notes it before another looks which are nobody's."""
    with (state_root() / _LOCK).open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _note(tag: str, place: Path, *others: str) -> None:
    """others: the devices that were there before, while its own is not known."""
    put(state_dir(tag) / NOTE, "\n".join([str(place), *others]).encode())


def _lines(tag: str) -> list[str]:
    try:
        return (state_dir(tag) / NOTE).read_text(encoding="utf-8").splitlines()
    except OSError:
        return []


def _forget(tag: str) -> None:
    (state_dir(tag) / NOTE).unlink(missing_ok=True)


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
