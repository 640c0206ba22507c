"""`ullage clean`: what killed runs left, whose it is, and its removal."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from ullage.cli.options import Json
from ullage.common.console import print_json, stderr, stdout
from ullage.common.errors import CLEAN_UNCONFIRMED, ExitCode, UllageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ullage.host.leftovers import Leftover


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
    as_json: Json = False,
) -> None:
    """Remove what killed runs left.

    Processes, containers, taps, mounts and control groups: of your own runs, and after asking.
    """
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
