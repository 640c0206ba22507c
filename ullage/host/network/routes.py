"""Routes to the networks of other machines, and the leave to forward: what a run changes on this
host beyond its own devices, written down before it is done, so that it is undone whatever happens.

Forwarding is by device (Linux, Documentation/networking/ip-sysctl.rst, `conf/INTERFACE`), and off
again once the last run that needs it has gone.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, ValidationError

from ullage.common.errors import NETWORK_FAILED, UllageError
from ullage.common.files import put
from ullage.host import paths

RECORD: Final = "routes.json"
_CONF: Final = Path("/proc/sys/net/ipv4/conf")
_COMMAND_S: Final = 60.0


class RouteChanges(BaseModel):
    """Of one run: what it has changed."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    forwarding: str | None = None
    """The device that did not forward before."""
    routes: tuple[str, ...] = ()
    """As iproute2 takes them."""


def allow(device: str) -> None:
    """Have a device of the run's own forward."""
    (_CONF / device / "forwarding").write_text("1", encoding="ascii")


def add(tag: str, device: str, routes: tuple[str, ...]) -> None:
    """Have the device forward, and add the routes. NETWORK_FAILED, with nothing left."""
    with _alone():
        switch = _CONF / device / "forwarding"
        others = {record.forwarding for name, record in _records() if name != tag}
        was_off = switch.read_text(encoding="ascii").strip() == "0"
        record = RouteChanges(
            forwarding=device if was_off or device in others else None, routes=routes
        )
        put(paths.state_dir(tag) / RECORD, record.model_dump_json().encode())
        try:
            if was_off:
                switch.write_text("1", encoding="ascii")
            for route in routes:
                _ip("add", route)
        except (OSError, subprocess.SubprocessError) as error:
            _undo(tag)
            raise UllageError(NETWORK_FAILED, reason=_reason(error)) from error


def remove(tag: str) -> None:
    """Undo what the run has changed; does nothing where that is nothing."""
    if (paths.state_dir(tag) / RECORD).exists():
        with _alone():
            _undo(tag)


def tags() -> list[str]:
    """Of runs that have changed something."""
    return [tag for tag, _ in _records()]


def _undo(tag: str) -> None:
    file = paths.state_dir(tag) / RECORD
    known = dict(_records())
    record = known.pop(tag, RouteChanges())
    for route in record.routes:
        with contextlib.suppress(subprocess.SubprocessError):  # it went with its device
            _ip("delete", route)
    if record.forwarding and record.forwarding not in {r.forwarding for r in known.values()}:
        with contextlib.suppress(FileNotFoundError):
            (_CONF / record.forwarding / "forwarding").write_text("0", encoding="ascii")
    file.unlink(missing_ok=True)


def _records() -> Iterator[tuple[str, RouteChanges]]:
    for file in paths.state_root().glob(f"*/{RECORD}"):
        if paths.TAG.fullmatch(file.parent.name) and not file.is_symlink():
            with contextlib.suppress(OSError, ValidationError):
                yield file.parent.name, RouteChanges.model_validate_json(file.read_bytes())


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Only one run of this host changes such things at a time."""
    paths.state_root().mkdir(parents=True, exist_ok=True)
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(paths.state_root() / "routes.lock", flags, 0o600), "rb+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _ip(verb: str, route: str) -> None:
    argv = ["ip", "route", verb, *route.split()]
    subprocess.run(argv, check=True, capture_output=True, timeout=_COMMAND_S)


def _reason(error: BaseException) -> str:
    if isinstance(error, subprocess.CalledProcessError):
        return str(error.stderr.decode(errors="replace").strip() or error)
    return str(error)


def uplink(address: str) -> tuple[str, int]:
    """The device of this machine that has the address, and its MTU. NETWORK_FAILED."""
    done = subprocess.run(
        ["ip", "-json", "-4", "address", "show"], capture_output=True, check=True, timeout=60
    )
    for device in json.loads(done.stdout or b"[]"):
        if any(one.get("local") == address for one in device.get("addr_info", ())):
            return str(device["ifname"]), int(device["mtu"])
    raise UllageError(NETWORK_FAILED, reason=f"no device of this machine has {address}")


def on_link(address: str) -> bool:
    """Is it reached without a router in between?"""
    done = subprocess.run(
        ["ip", "-json", "-4", "route", "get", address], capture_output=True, check=False, timeout=60
    )
    entries = json.loads(done.stdout or b"[]") if done.returncode == 0 else []
    return bool(entries) and "gateway" not in entries[0]
