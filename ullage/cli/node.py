"""`ullage node`: other machines that a plan may name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ullage.cli.options import Json, NodeConfigOption, NodeSudoOption
from ullage.common.console import escape, print_json, stdout

if TYPE_CHECKING:
    from ullage.nodes.reach.openssh import Target

node_app = typer.Typer(no_args_is_help=True)

HostArgument = Annotated[
    str,
    typer.Argument(
        help="USER@HOST, as ssh takes it; `slurm:HOST`, of the allocation.", show_default=False
    ),
]


@node_app.callback()
def _node() -> None:
    """Other machines that a plan may name."""


@node_app.command("install")
def install_command(
    host: HostArgument,
    config: NodeConfigOption = None,
    sudo: NodeSudoOption = False,
    as_json: Json = False,
) -> None:
    """Put this ullage on another machine, from here: no registry is asked."""
    import asyncio

    from ullage.common.quantities import format_bytes
    from ullage.nodes.reach.install import install

    installed = asyncio.run(install(target(host, config, sudo=sudo)))
    if as_json:
        print_json({"host": host, "tree": installed.digest, "sent_bytes": installed.sent_bytes})
        return
    size = format_bytes(installed.sent_bytes)
    stdout.print(f"{escape(host)} has this ullage ({size} were sent); next: ", end="")
    stdout.print(f"ullage doctor --node {escape(host)}", soft_wrap=True)


def target(host: str, config: Path | None, *, sudo: bool) -> Target:
    """The machine, as a command names it. NODE_UNKNOWN_HOST for what no host can be called."""
    import re

    from ullage.common.errors import NODE_UNKNOWN_HOST, UllageError
    from ullage.nodes.options import ADDRESS
    from ullage.nodes.reach.openssh import Target
    from ullage.nodes.reach.slurm import PREFIX, SlurmTarget

    plain = host.removeprefix(PREFIX)
    if not re.fullmatch(ADDRESS, plain) or (plain != host and "@" in plain):
        raise UllageError(NODE_UNKNOWN_HOST, node=host, address=host)
    return (Target if plain == host else SlurmTarget)(host, host, config, sudo)
