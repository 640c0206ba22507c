"""Names for files, the nearest allowed name, and untrusted words made harmless."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.common.text import clean, inert, instance_name, nearest, one_line, slug, whole


def test_slugs_are_file_names() -> None:
    assert slug("vm[nic=e1000,disk.format=raw]") == "vm-nic-e1000-disk.format-raw"
    assert slug("../../x") == "x"


def test_names_of_instances_are_host_names() -> None:
    assert instance_name("vm[nic=e1000]") == "vm-nic-e1000"
    assert instance_name("My_VM.2") == "my-vm-2"
    assert instance_name("a" * 23 + "-b") == "a" * 23


def test_offers_the_nearest_name() -> None:
    assert nearest("sysbench-cpus", ["iperf3", "sysbench-cpu"]) == "did you mean sysbench-cpu?"


def test_case_and_underscores_do_not_matter() -> None:
    assert nearest("Sysbench_CPU", ["iperf3", "sysbench-cpu"]) == "did you mean sysbench-cpu?"
    assert nearest("fsync-freq", ["fsync_freq", "files"]) == "did you mean fsync_freq?"


def test_lists_the_choices_when_nothing_is_near() -> None:
    assert nearest("zzz", ["oci", "native"]) == "choose one of native, oci"


def test_does_not_list_the_choices_twice() -> None:
    assert nearest("zzz", ["oci", "native"], listed=True) == "choose one of these"
    assert nearest("ocy", ["oci", "native"], listed=True) == "did you mean oci?"
    assert nearest("x", [], listed=True) == "nothing may stand here"


def test_no_choices() -> None:
    assert nearest("x", []) == "nothing may stand here"


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


def test_a_word_does_not_begin_a_line_or_a_column() -> None:
    assert one_line("ok\nwarning: forged\tx\r\u2028y\u202ez") == (
        "ok␊warning: forged␉x␍⟨U+2028⟩y⟨U+202E⟩z"
    )
    assert one_line("é plain") == "é plain"


@given(st.text())
def test_one_line_is_one_line(text: str) -> None:
    assert len(one_line(text).splitlines()) <= 1


@pytest.mark.parametrize(
    "text",
    [
        "=1+1",
        " =1+1",
        "\n=1+1",
        "\t=1+1",
        "\r\n@SUM(A1)",
        "\xa0=1",
        "\u3000=1",
        "＝1+1",
        "＋1",
        "－1",
        "＠SUM(A1)",
        " ﹦1",
        "-1",
        "+1",
        "\u200b=1",
        "\x00=1",
    ],
)
def test_no_cell_is_a_formula(text: str) -> None:
    cell = inert(text)
    assert isinstance(cell, str)
    assert cell.startswith("'")
    assert len(cell.splitlines()) == 1


def test_other_cells_stay_as_they_are() -> None:
    cells = (-1, -1.5, None, "a=b", "vm[nic=e1000]", "1-2", "", "e@x", "× 2")
    assert tuple(map(inert, cells)) == cells
