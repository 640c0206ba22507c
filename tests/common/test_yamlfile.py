"""YAML with line numbers."""

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.common.yamlfile import MAX_BYTES, parse, read

plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(plain)
def test_reads_what_yaml_writes(data: object) -> None:
    text = yaml.safe_dump({"x": data})
    expected = {"x": _keys_as_text(data)}
    assert parse(text).data == expected


def _keys_as_text(data: object) -> object:
    if isinstance(data, dict):
        return {str(key): _keys_as_text(value) for key, value in data.items()}
    return [_keys_as_text(item) for item in data] if isinstance(data, list) else data


@given(st.text(max_size=60))
def test_any_text_is_data_or_one_error(text: str) -> None:
    try:
        parse(text)
    except UllageError as error:
        assert error.kind in (errors.PLAN_BAD_YAML, errors.PLAN_BAD_FIELD)


def test_lines_point_at_fields_and_fall_back_to_parents() -> None:
    document = parse("a: 1\nb:\n  c: 2\n  d: [1,\n      2]\n")
    assert document.line(("b", "c")) == 3
    assert document.line(("b", "d", 1)) == 5
    assert document.line(("b", "nowhere", "deep")) == 2


def test_broken_yaml_names_the_line() -> None:
    with pytest.raises(UllageError) as caught:
        parse("a: 1\nb: [1, 2\nc: 3\n", "p.yaml")
    assert caught.value.kind is errors.PLAN_BAD_YAML
    assert "p.yaml:3" in caught.value.message


def test_the_same_field_twice_is_refused() -> None:
    with pytest.raises(UllageError, match="the same field twice"):
        parse("a: 1\na: 2\n")


def test_objects_of_python_are_refused() -> None:
    with pytest.raises(UllageError) as caught:
        parse("a: !!python/object/apply:os.system ['true']\n")
    assert caught.value.kind is errors.PLAN_BAD_YAML


def test_alias_bombs_are_refused() -> None:
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 8)]
    with pytest.raises(UllageError, match="expands to more than"):
        parse("\n".join(levels))


def test_endless_aliases_are_refused() -> None:
    with pytest.raises(UllageError) as caught:
        parse("a: &a [*a]\n")
    assert caught.value.kind is errors.PLAN_BAD_YAML


def test_unreadable_files_are_named(tmp_path: Path) -> None:
    binary, large = tmp_path / "binary", tmp_path / "large"
    binary.write_bytes(b"\xff\xfe\x00")
    large.write_bytes(b"#" * (MAX_BYTES + 1))
    for file in (tmp_path / "absent", tmp_path, binary, large):
        with pytest.raises(UllageError) as caught:
            read(file)
        assert caught.value.kind is errors.PLAN_NOT_READABLE
        assert str(file) in caught.value.message


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("0x" + "f" * 6000, id="hex"),
        pytest.param("0b" + "1" * 20_000, id="binary"),
        pytest.param("0" + "7" * 8000, id="octal"),
        pytest.param("1" + ":59" * 4000, id="base 60"),
        pytest.param("1" + ":59" * 400 + ".5", id="base 60, a fraction"),
        pytest.param("18446744073709551616", id="decimal"),
        pytest.param("-" + "9" * 4000, id="negative"),
        "!!int ''",
        "!!float ''",
        "!!bool x",
        "!!timestamp x",
    ],
)
def test_what_is_no_number_of_ours_is_refused_in_words(value: str) -> None:
    with pytest.raises(UllageError) as caught:
        parse(f"a: 1\nb: {value}\n")
    assert caught.value.kind is errors.PLAN_BAD_YAML
    assert caught.value.facts["line"] == 2
    assert len(caught.value.message) < 300


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0x10", 16),
        ("0b11", 3),
        ("017", 15),
        ("1:30:00", 5400),
        ("18446744073709551615", 2**64 - 1),
    ],
)
def test_integers_in_other_bases_are_numbers(text: str, value: int) -> None:
    assert parse(f"a: {text}").data == {"a": value}
