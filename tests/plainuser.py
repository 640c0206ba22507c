"""Runs Python with our code as a user who may do nothing special."""

from __future__ import annotations

import pwd
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pydantic
import pytest

from ullage.agent import binary

NAME = "ullage-test"


@contextmanager
def made() -> Iterator[pwd.struct_passwd]:
    """A user of that kind, with a home, for as long as the test lasts."""
    subprocess.run(["useradd", "--create-home", NAME], check=True, capture_output=True)
    try:
        yield pwd.getpwnam(NAME)
    finally:
        subprocess.run(["userdel", "--remove", NAME], check=True, capture_output=True)


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
    return _run(user, program, "-c", "import pydantic, ullage.cli").returncode == 0


def _run(user: pwd.struct_passwd, *argv: str) -> subprocess.CompletedProcess[str]:
    home = Path(user.pw_dir)
    code = (Path(__file__).parents[1], Path(pydantic.__file__).parents[1])
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
    who = (f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups")
    # `env`, because setpriv itself may still go where the user may not.
    return subprocess.run(
        ["setpriv", *who, "env", *argv],
        check=False,
        cwd=home,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
