"""What the user may have meant: the nearest of the names that are allowed."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(word: str, choices: Iterable[str], *, listed: bool = False) -> str:
    """Advice for a name that is not one of `choices`.

    `did you mean X?` when one of them is close (upper and lower case, `_` and `-` count as equal),
    else `choose one of A, B`, or `choose one of these` where they are `listed` beside it.
    No choices at all: `nothing may stand here`.
    """
    names = sorted(set(choices))
    if not names:
        return "nothing may stand here"
    plain: dict[str, str] = {}
    for name in names:
        plain.setdefault(_plain(name), name)
    close = get_close_matches(_plain(word), plain, n=1, cutoff=0.6)
    if close:
        return f"did you mean {plain[close[0]]}?"
    return "choose one of these" if listed else f"choose one of {', '.join(names)}"


def _plain(name: str) -> str:
    return name.casefold().replace("_", "-")
