"""What runs have put on a machine that ssh reaches, listed and removed without them.

`python -m ullage.environments.ssh.removal list|remove NAME OPTIONS`, the options as JSON: for
`ullage clean`.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from ullage.environments.clouds import keys
from ullage.environments.clouds.ssh import Shell, ShellError
from ullage.environments.ssh.linux import LinuxMachine
from ullage.environments.ssh.machine import RemoteMachine
from ullage.environments.ssh.options import SshOptions
from ullage.environments.ssh.windows import WindowsMachine
from ullage.host import user_commands

_CALL_S: Final = 60.0


def machine(options: SshOptions, name: str, folder: Path) -> RemoteMachine:
    """That machine, and the folder of that name on it; here one for what ssh must know."""
    hosts = folder / "known_hosts"
    key = " ".join(options.host_key.split()[:2])
    keys.known_hosts(hosts, options.host, (key,), options.port)
    windows = options.system == "windows"
    shell = Shell(
        name,
        options.host,
        options.user,
        options.key.absolute(),
        hosts,
        port=options.port,
        windows=windows,
    )
    return (WindowsMachine if windows else LinuxMachine)(shell, name)


def removal(options: SshOptions, tag: str, name: str) -> user_commands.Removal:
    """How it is found and removed, should we die."""
    whole = options.model_copy(update={"key": options.key.absolute()})
    command, of_machine = user_commands.module(__name__), (name, whole.model_dump_json())
    return user_commands.Removal(
        tag=tag,
        name=name,
        listing=(*command, "list", *of_machine),
        destroy=((*command, "remove", *of_machine),),
        deadline_s=_CALL_S,
        lasting=True,
    )


async def _act(operation: str, remote: RemoteMachine) -> str:
    if operation == "remove":
        await remote.remove(_CALL_S)
    return f"{remote.name}\n" if await remote.listed(_CALL_S) else ""


def main(operation: str, name: str, options: str) -> int:
    """Its name, if it is still there."""
    with TemporaryDirectory() as folder:
        remote = machine(SshOptions.model_validate_json(options), name, Path(folder))
        try:
            sys.stdout.write(asyncio.run(_act(operation, remote)))
        except ShellError as error:
            sys.stderr.write(f"{error.reason}\n")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
