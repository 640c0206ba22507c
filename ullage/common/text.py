"""Text: names for files, the nearest allowed name, and untrusted words made harmless.

What a guest printed, and what stands in a run folder that came from elsewhere, may try to steer the
terminal or to look like something else.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final


def slug(key: str) -> str:
    """A key as a file name: `vm[nic=e1000]` → `vm-nic-e1000`."""
    plain = "".join(c if c.isalnum() or c in "._" else "-" for c in key).strip("-.")
    while "--" in plain:
        plain = plain.replace("--", "-")
    return plain


def instance_name(key: str) -> str:
    """The beginning of an instance's name, which becomes a host name: short, and `a-z0-9-` alone.

    Several keys may have the same.
    """
    return slug(key)[:24].strip("-.").lower().replace(".", "-").replace("_", "-")


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


LIMIT: Final = 4000
"""Longest text from a run that the report shows."""

_KEPT: Final = "\n\t"
_HIDDEN: Final = {"Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp"}
"""Unicode categories that draw nothing, or reorder what is drawn."""


def clean(text: str, limit: int = LIMIT) -> str:
    """Text from a run, safe to look at.

    Control characters, bidirectional overrides and other invisible characters are shown by name,
    so that what is read is what is there. What is over `limit` characters is cut, and says so.
    """
    cut = len(text) - limit
    start = whole(text[:limit])
    return f"{start} … ({cut:,} more characters)" if cut > 0 else start


def whole(text: str) -> str:
    """The same at any length."""
    return text if text.isascii() and text.isprintable() else "".join(map(_visible, text))


def _visible(character: str) -> str:
    if character in _KEPT or unicodedata.category(character) not in _HIDDEN:
        return character
    code = ord(character)
    return chr(0x2400 + code) if code < 0x20 else f"⟨U+{code:04X}⟩"


def one_line(text: str) -> str:
    """The same within a line: what would begin another one, or a column, is shown by name too."""
    return whole(text).translate(_BREAKS)


_BREAKS: Final = {ord(character): 0x2400 + ord(character) for character in _KEPT}


_SIGNS: Final = "=+-@＝＋－＠﹦﹢﹣﹫"


def inert(value: object) -> object:
    """A cell of a table for spreadsheets: text that would be a formula gets a quote before it.

    It is one after spaces and breaks too, and to some with the wide forms of the signs.
    """
    if not isinstance(value, str):
        return value
    seen = (c for c in value if not c.isspace() and unicodedata.category(c) not in _HIDDEN)
    flat = one_line(value)
    return f"'{flat}" if next(seen, "") in tuple(_SIGNS) else flat


def printable(text: str, limit: int) -> str:
    """Text from a guest, fit for a message: one line, no control characters, not too long."""
    flat = " ".join(text.split())
    clean = "".join(c if c.isprintable() else "?" for c in flat)
    return clean if len(clean) <= limit else clean[: limit - 1] + "…"


def unescape(text: str) -> str:
    """Undo the octal escapes of blanks in `/proc/self/mountinfo`."""
    return re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), text)
