"""`ullage clean`: what killed runs left, whose it is, and its removal."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from ullage.cli.node import target
from ullage.cli.options import Json, NodeConfigOption, NodeOption, NodeSudoOption
from ullage.common.console import print_json, stderr, stdout
from ullage.common.errors import CLEAN_NO_RECORD, CLEAN_UNCONFIRMED, ExitCode, UllageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ullage.host.leftovers import Leftover
    from ullage.nodes.reach.openssh import Target


@dataclass(frozen=True)
class Remains:
    """What is left of one run, as far as it is one user's."""

    tag: str
    """Empty: of no run."""
    uid: int
    leftovers: tuple[Leftover, ...]
    run: str | None
    """Its folder; None: nothing says which it was."""
    age_s: float | None
    """Since it was begun or taken up; None: it is not known."""


def clean_command(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Remove it without asking.")] = False,
    everybody: Annotated[bool, typer.Option("--all", help="That of other users too.")] = False,
    forget: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Drop the record of an instance whose platform is gone. Nothing is removed there.",
        ),
    ] = None,
    as_json: Json = False,
    node: NodeOption = None,
    config: NodeConfigOption = None,
    sudo: NodeSudoOption = False,
) -> None:
    """Remove what killed runs left.

    Processes, containers, taps, mounts and control groups: of your own runs, and after asking.
    """
    if node is not None:
        _clean_node(target(node, config, sudo=sudo), dry_run=dry_run, yes=yes, as_json=as_json)
        return
    if forget:
        for name in forget:
            _forget(name)
        return
    from ullage.common.quantities import many
    from ullage.host import claims, leftovers

    remains = _remains(leftovers.find())
    todo = [one for one in remains if everybody or one.uid == os.geteuid()]
    if as_json:
        print_json([_as_json(one, leftover) for one in todo for leftover in one.leftovers])
    else:
        for one in todo:
            _show(one)
    if spared := sum(len(one.leftovers) for one in remains if one not in todo):
        stderr.print(f"{many(spared, 'leftover')} of other users left alone; --all takes them too")
    number = sum(len(one.leftovers) for one in todo)
    if dry_run:
        stderr.print(f"{many(number, 'leftover')} found")
        return
    if number and not (yes or _confirmed(number)):
        return
    failures = leftovers.remove(leftover for one in todo for leftover in one.leftovers)
    claims.forget_dead()
    stderr.print(f"{many(number - len(failures), 'leftover')} removed")
    for item, reason in failures:
        stderr.print(f"[yellow]still there:[/] {item.kind} {escape(item.name)}: {escape(reason)}")
    if failures:
        raise typer.Exit(ExitCode.GATE_FAILED)


def _forget(name: str) -> None:
    """Whatever it may still cost is named; CLEAN_NO_RECORD."""
    from ullage.host import user_commands

    records = [removal for removal in user_commands.records() if removal.name == name]
    if not records:
        raise UllageError(CLEAN_NO_RECORD, name=name)
    for removal in records:
        user_commands.forget(removal)
        text = f"{escape(name)} is forgotten. If it is there after all: {escape(removal.by_hand)}"
        stderr.print(text, soft_wrap=True)


def _clean_node(place: Target, *, dry_run: bool, yes: bool, as_json: bool) -> None:
    """The same on another machine: of the user there that ssh logs in as."""
    import asyncio

    from ullage.common.quantities import many
    from ullage.nodes import link

    there = asyncio.run(link.leavings(place, remove=False)).there
    if as_json:
        print_json([one.model_dump() for one in there])
    else:
        for one in there:
            run = one.run or one.tag or "no run"
            stdout.print(f"{escape(run)}: {one.kind} {escape(one.name)}", soft_wrap=True)
    number = len(there)
    if dry_run or not number:
        stderr.print(f"{many(number, 'leftover')} found on {escape(place.address)}")
        return
    if not (yes or _confirmed(number)):
        return
    failed = asyncio.run(link.leavings(place, remove=True)).failed
    stderr.print(f"{many(number - len(failed), 'leftover')} removed on {escape(place.address)}")
    for text in failed:
        stderr.print(f"[yellow]still there:[/] {escape(text)}")
    if failed:
        raise typer.Exit(ExitCode.GATE_FAILED)


def _remains(leavings: Iterable[Leftover]) -> list[Remains]:
    """The leftovers of each run and user together, in the order in which they can be removed."""
    groups: dict[tuple[str, int], list[Leftover]] = {}
    for leftover in leavings:
        groups.setdefault((leftover.tag, leftover.uid), []).append(leftover)
    return [Remains(tag, uid, tuple(group), *_origin(tag)) for (tag, uid), group in groups.items()]


def _origin(tag: str) -> tuple[str | None, float | None]:
    """The run folder, and the age."""
    from ullage.host import claims, paths

    if not tag:
        return None, None
    owner = claims.controller(tag)
    for place in (paths.state_dir(tag), paths.data_dir(tag)):
        try:
            age_s = max(0.0, time.time() - place.stat().st_ctime)
        except OSError:
            continue
        return (owner.run if owner else None), age_s
    return None, None


def _show(one: Remains) -> None:
    from ullage.common.quantities import format_seconds

    run = f"run {one.run}" if one.run else f"run {one.tag}" if one.tag else "no run"
    age = "" if one.age_s is None else f", {format_seconds(one.age_s)} old"
    stdout.print(f"{escape(run)}, of {escape(_user(one.uid))}{age}:", soft_wrap=True)
    for item in one.leftovers:
        stdout.print(f"  {item.kind} {escape(item.name)}", soft_wrap=True)


def _as_json(one: Remains, item: Leftover) -> dict[str, object]:
    return {
        "kind": item.kind,
        "name": item.name,
        "tag": item.tag,
        "user": _user(one.uid),
        "run": one.run,
        "age_s": one.age_s,
    }


def _user(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def _confirmed(number: int) -> bool:
    """What a person at the terminal says; CLEAN_UNCONFIRMED where there is none."""
    from ullage.common.quantities import many

    if not sys.stdin.isatty():
        raise UllageError(CLEAN_UNCONFIRMED, count=many(number, "leftover"))
    return typer.confirm(f"remove {many(number, 'leftover')}?", err=True)
