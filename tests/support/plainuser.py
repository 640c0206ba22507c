"""Runs Python with our code as a user who may do nothing special."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pydantic
import pytest

from ullage.environments.agent.client import binary

PREFIX = "ullage-test-"


@contextmanager
def account() -> Iterator[pwd.struct_passwd]:
    """A user of that kind, with a home, for as long as the test lasts."""
    for name in _abandoned():
        subprocess.run(["userdel", "--force", "--remove", name], check=False, capture_output=True)
    name = f"{PREFIX}{os.getpid()}"
    subprocess.run(["useradd", "--create-home", name], check=True, capture_output=True)
    try:
        yield pwd.getpwnam(name)
    finally:
        subprocess.run(["userdel", "--remove", name], check=True, capture_output=True)


def _abandoned() -> list[str]:
    """Those of tests that were killed."""
    names = (user.pw_name for user in pwd.getpwall() if user.pw_name.startswith(PREFIX))
    return [name for name in names if not Path("/proc", name.removeprefix(PREFIX)).exists()]


def python(user: pwd.struct_passwd, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`python ARGUMENTS` as that user, with all places of ullage in the user's home.

    Skips the test where no Python that has our libraries is open to others.
    """
    program = next((p for p in (sys.executable, "/usr/bin/python3") if _can(user, p)), None)
    if program is None:
        pytest.skip("no Python with our libraries that a plain user may run")
    return _run(user, program, *arguments)


def _can(user: pwd.struct_passwd, program: str) -> bool:
    # Our own interpreter may stand in a home that is closed to others.
    return _run(user, program, "-c", "import pydantic, ullage.cli.main").returncode == 0


def _run(user: pwd.struct_passwd, *argv: str) -> subprocess.CompletedProcess[str]:
    home = Path(user.pw_dir)
    code = (Path(__file__).parents[2], Path(pydantic.__file__).parents[1])
    environment = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": str(home),
        "PYTHONPATH": ":".join(str(place) for place in code),
        "PYTHONDONTWRITEBYTECODE": "1",
        "ULLAGE_AGENT": str(binary()),
        "ULLAGE_STATE_DIR": str(home / "state"),
        "ULLAGE_DATA_DIR": str(home / "data"),
        "ULLAGE_CACHE_DIR": str(home / "cache"),
    }
    identity = (f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups")
    # `env`, because setpriv itself may still go where the user may not.
    return subprocess.run(
        ["setpriv", *identity, "env", *argv],
        check=False,
        cwd=home,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
