"""An instance by the cloud's own command and by `ullage cloud check`: until ssh lets in."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from tests.lab.real_openstack.stack import IP, Stack

_USER: Final = {
    "auth-url": f"http://{IP}:5000/v3",
    "username": "guest",
    "password": "lab",
    "project-name": "guests",
    "user-domain-name": "Default",
    "project-domain-name": "Default",
    "identity-api-version": "3",
}
_NAME: Final = "by-hand"
_ANYBODY: Final = (
    *("-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null"),
    *("-o", "BatchMode=yes", "-o", "LogLevel=ERROR", "-o", "ConnectTimeout=1"),
)
_QUANTUM_S: Final = 0.1


def by_hand(stack: Stack, place: Path) -> float:
    """Seconds from `openstack server create --wait` until ssh lets in."""
    key = place / "key"
    if not key.exists():
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
        (stack.place / "root/lab/key.pub").write_text(key.with_suffix(".pub").read_text())
        _openstack(stack, "keypair", "create", "--public-key", "/lab/key.pub", _NAME)
    began = time.monotonic()
    wanted = ("--flavor", "lab", "--image", "debian12", "--network", "prov", "--key-name", _NAME)
    shown = _openstack(stack, "server", "create", "--wait", *wanted, "-f", "json", _NAME)
    try:
        ((address,),) = json.loads(shown[shown.index("{") :])["addresses"].values()
        argv = ["ssh", "-i", str(key), *_ANYBODY, f"root@{address}", "true"]
        while subprocess.run(argv, check=False, capture_output=True).returncode:
            time.sleep(_QUANTUM_S)
        return time.monotonic() - began
    finally:
        _openstack(stack, "server", "delete", "--wait", _NAME)


def by_us(plan: Path) -> float:
    """The same by our provider, by the check's own clock."""
    argv = [sys.executable, "-m", "ullage", "cloud", "check", str(plan), "--json"]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    (seen,) = json.loads(done.stdout)
    at_s = {step["words"].partition(":")[0]: step["seconds"] for step in seen["steps"]}
    return float(at_s["ssh lets us in"] - at_s["what we may have there"])


def _openstack(stack: Stack, *words: str) -> str:
    options = [word for name, text in _USER.items() for word in (f"--os-{name}", text)]
    return stack.inside("openstack", *options, *words)
