"""Whom the program of a container image runs as: names looked up in the image's own files."""

from __future__ import annotations

import re
from signal import SIGTERM, Signals
from typing import Final

from ullage.common.archives.headers import ArchiveError
from ullage.host.container_image.archive import ImageSettings
from ullage.host.container_image.layers import Tree
from ullage.runs.records import ImageConfig, User

_MOST_DATABASE: Final = 4 << 20
_REAL_TIME: Final = 32
"""Signals from here on are those."""
_MOST_ID: Final = (1 << 32) - 2
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def configured(settings: ImageSettings, tree: Tree) -> ImageConfig:
    """As the image wants its program run. ArchiveError for a user that it does not have."""
    user, home = _user(settings.User or "", tree)
    env = {"PATH": _PATH, "HOME": home}
    for line in settings.Env or ():
        name, equals, value = line.partition("=")
        if not name or not equals or "\0" in line:
            raise ArchiveError(f"its environment holds {line[:80]!r}")
        env[name] = value
    workdir = settings.WorkingDir or "/"
    if not workdir.startswith("/"):
        workdir = f"/{workdir}"
    words = (*(settings.Entrypoint or ()), *(settings.Cmd or ()), workdir)
    if any("\0" in word for word in words):
        raise ArchiveError("its command holds a NUL")
    return ImageConfig(
        user=user,
        env=env,
        workdir=workdir,
        entrypoint=tuple(settings.Entrypoint or ()),
        cmd=tuple(settings.Cmd or ()),
        stop_signal=_signal(settings.StopSignal or ""),
    )


def _signal(text: str) -> int:
    """`SIGQUIT`, `QUIT` or `3`; SIGTERM for what is none, and for one of real time."""
    word = text.upper().removeprefix("SIG")
    numbers = {one.name.removeprefix("SIG"): one.value for one in Signals}
    numbers |= {str(one.value): one.value for one in Signals}
    number = numbers.get(word, SIGTERM)
    return int(number if number < _REAL_TIME else SIGTERM)


def _user(text: str, tree: Tree) -> tuple[User, str]:
    """`name` or `uid`, either with `:group` → that user, and their home directory."""
    who, _, group = text.partition(":")
    people = _lines(tree, "etc/passwd", 7)
    groups = _lines(tree, "etc/group", 4)
    person = next((line for line in people if who in {line[0], line[2]}), None)
    if not who:
        person = next((line for line in people if line[2] == "0"), None)
    uid = _number(person[2] if person else who or "0", text)
    gid = _number(person[3], text) if person else 0
    more: set[int] = set()
    if group:
        match = next((line for line in groups if group in {line[0], line[2]}), None)
        gid = _number(match[2] if match else group, text)
    elif person:
        name = person[0]
        more = {_number(line[2], text) for line in groups if name in line[3].split(",")}
    return User(uid=uid, gid=gid, groups=tuple(sorted(more - {gid}))), person[5] if person else "/"


def _number(text: str, user: str) -> int:
    if not re.fullmatch(r"[0-9]{1,10}", text) or int(text) > _MOST_ID:
        raise ArchiveError(f"its user {user[:80]!r} is not in its /etc/passwd and /etc/group")
    return int(text)


def _lines(tree: Tree, path: str, fields: int) -> list[list[str]]:
    node = tree.find(path)
    if node is None or not node.info.isreg():
        return []
    text = node.content(_MOST_DATABASE).decode("utf-8", "replace")
    rows = [line.split(":") for line in text.splitlines()]
    return [row for row in rows if len(row) == fields]
