"""Untrusted words are harmless when they are shown."""

from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from ullage.common.text import clean, whole


@given(st.text(alphabet=st.characters()))
def test_cleaned_text_hides_and_reorders_nothing(raw: str) -> None:
    for character in clean(raw):
        hidden = unicodedata.category(character) in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
        assert not hidden or character in "\n\t"


@given(st.text(alphabet=st.characters(categories=("L", "N", "P", "S", "Zs")), max_size=200))
def test_plain_text_is_left_as_it_is(raw: str) -> None:
    assert clean(raw) == raw


def test_hidden_characters_are_named() -> None:
    assert clean("a\u202eb\x1b[0m\x7f") == "a⟨U+202E⟩b␛[0m⟨U+007F⟩"


def test_long_text_is_cut_and_says_so() -> None:
    assert clean("x" * 30, 10) == "x" * 10 + " … (20 more characters)"


@given(st.text())
def test_nothing_is_cut_where_all_is_wanted(raw: str) -> None:
    assert whole(raw) == clean(raw, len(raw))
