"""What runs have on a Hyper-V host, listed and removed without them: for `ullage clean`.

`python -m ullage.environments.hyperv.removal list|remove HOST FOLDER NAME [SSH_CONFIG]`
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from ullage.common.errors import UllageError
from ullage.environments.hyperv.answers import Names
from ullage.environments.hyperv.host import CALL_S, HypervHost
from ullage.environments.hyperv.options import HypervOptions
from ullage.host import user_commands


def place(options: HypervOptions, name: str) -> str:
    """The folder of one machine."""
    return f"{options.folder}\\{name}"


def removal(options: HypervOptions, tag: str, name: str) -> user_commands.Removal:
    """How it is found and removed, should we die."""
    config = () if options.ssh_config is None else (str(options.ssh_config.absolute()),)
    command = user_commands.module(__name__)
    of_host = (options.host, options.folder, name, *config)
    return user_commands.Removal(
        tag=tag,
        name=name,
        listing=(*command, "list", *of_host),
        destroy=((*command, "remove", *of_host),),
        deadline_s=CALL_S,
        lasting=True,
    )


def main(operation: str, address: str, folder: str, name: str, config: str = "") -> int:
    """The names that are still there, one a line."""
    host = HypervHost(address, Path(config) if config else None)
    operation = "remove" if operation == "remove" else "names"
    request = host.ask(
        operation,
        Names,
        CALL_S,
        name=name,
        place=f"{folder}\\{name}",
        folder=folder,
        pattern=name,
    )
    try:
        names = asyncio.run(request)
    except UllageError as error:
        sys.stderr.write(f"{error.message}\n")
        return 1
    sys.stdout.writelines(f"{text}\n" for text in names.names)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
