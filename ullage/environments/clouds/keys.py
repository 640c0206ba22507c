"""Keys of an instance: ours, by which we log in, and the one by which it shows who it is.

Both lie beside the run's sockets, where only its user looks, and go with the instance; none is ever
an argument, in a log, or in the run folder.
"""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

from pydantic import StringConstraints

from ullage.common.commands import needed, run

_BEGIN: Final = "-----BEGIN SSH HOST KEY KEYS-----"
_END: Final = "-----END SSH HOST KEY KEYS-----"
LoginName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]{0,31}$")]
"""In a plan: whom ssh logs in as; never an option of ssh's."""
HostKey = Annotated[
    str,
    StringConstraints(
        pattern=r"^(ssh-ed25519|ecdsa-sha2-nistp256|ssh-rsa) [A-Za-z0-9+/]{50,1000}=*( [ -~]*)?$"
    ),
]
"""In a plan: a line of `known_hosts` without the host, or a `.pub` file's."""
_KEY: Final = re.compile(r"\b(ssh-ed25519|ecdsa-sha2-nistp256|ssh-rsa) ([A-Za-z0-9+/]{50,1000}=*)")
_MOST_KEYS: Final = 8
_PORT: Final = 22


@dataclass(frozen=True)
class KeyPair:
    """Two halves."""

    private: Path

    @property
    def public(self) -> str:
        """In OpenSSH's form."""
        text = self.private.with_suffix(".pub").read_text(encoding="ascii")
        return " ".join(text.split()[:2])

    @property
    def secret(self) -> str:
        """The other half, for whoever must have it."""
        return self.private.read_text(encoding="ascii")


async def new_pair(path: Path) -> KeyPair:
    """A new key pair at that place. HOST_MISSING."""
    program = needed("ssh-keygen", "openssh-client")
    await run([program, "-q", "-t", "ed25519", "-N", "", "-C", "ullage", "-f", str(path)])
    return KeyPair(path)


def cloud_init(host: KeyPair) -> str:
    """Has cloud-init give an instance that host key, and no other."""
    keys = {"ed25519_private": host.secret, "ed25519_public": host.public}
    # JSON is YAML, whatever stands in it.
    settings = {"ssh_deletekeys": True, "ssh_genkeytypes": [], "ssh_keys": keys}
    return f"#cloud-config\n{json.dumps(settings)}\n"


def boot_script(user_data: str) -> str:
    """The same for whoever has no cloud-init, and runs a script when it boots; empty: nothing."""
    if not user_data:
        return ""
    host = json.loads(user_data.partition("\n")[2])["ssh_keys"]
    key = "/etc/ssh/ssh_host_ed25519_key"
    private, public = (shlex.quote(host[f"ed25519_{half}"]) for half in ("private", "public"))
    lines = (
        "#!/bin/sh",
        "umask 077",
        "rm -f /etc/ssh/ssh_host_*",
        f"printf '%s' {private} > {key}",
        f"printf '%s\\n' {public} > {key}.pub",
        "systemctl restart ssh 2>/dev/null || systemctl restart sshd 2>/dev/null \\",
        "  || service sshd restart",
    )
    return "\n".join(lines) + "\n"


def printed(console: str) -> tuple[str, ...]:
    """The host keys that cloud-init has printed on the console; none before it has."""
    _, begin, rest = console.rpartition(_BEGIN)
    keys, end, _ = rest.partition(_END)
    if not begin or not end:
        return ()
    return tuple(f"{kind} {key}" for kind, key in _KEY.findall(keys)[:_MOST_KEYS])


def known_hosts(path: Path, address: str, keys: tuple[str, ...], port: int = _PORT) -> None:
    """Write a file in which these keys, and no others, are that address's."""
    host = address if port == _PORT else f"[{address}]:{port}"
    path.write_text("".join(f"{host} {key}\n" for key in keys), encoding="ascii")
