"""Untrusted words made harmless, for whoever shows them: the terminal and the report.

What a guest said, and what stands in a run folder that came from elsewhere, may try to steer the
terminal or to look like something else.
"""

from __future__ import annotations

import unicodedata
from typing import Final

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
    rest = len(text) - limit
    shown = whole(text[:limit])
    return f"{shown} … ({rest:,} more characters)" if rest > 0 else shown


def whole(text: str) -> str:
    """The same at any length."""
    return text if text.isascii() and text.isprintable() else "".join(map(_visible, text))


def _visible(character: str) -> str:
    if character in _KEPT or unicodedata.category(character) not in _HIDDEN:
        return character
    code = ord(character)
    return chr(0x2400 + code) if code < 0x20 else f"⟨U+{code:04X}⟩"


def printable(text: str, limit: int) -> str:
    """Text from a guest, fit for a message: one line, no control characters, not too long."""
    flat = " ".join(text.split())
    clean = "".join(c if c.isprintable() else "?" for c in flat)
    return clean if len(clean) <= limit else clean[: limit - 1] + "…"
