"""Checksums inside JSON."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.common import sums
from ullage.common.sums import BrokenSumError, Chain

RECORDS = st.lists(
    st.dictionaries(st.text(max_size=5), st.text(max_size=9) | st.integers(), min_size=1),
    max_size=4,
).map(lambda records: [json.dumps(record).encode() for record in records])


def lines(records: list[bytes]) -> list[bytes]:
    chain = Chain()
    return [chain.sealed(record) for record in records]


def opened(written: list[bytes]) -> list[bytes]:
    chain = Chain()
    return [chain.opened(line) for line in written]


@given(RECORDS)
def test_what_is_sealed_is_json_and_opens_again(records: list[bytes]) -> None:
    written = lines(records)
    assert opened(written) == records
    for line, record in zip(written, records, strict=True):
        both = json.loads(line)
        assert len(both.pop("sum")) == 16
        assert both == json.loads(record) or "sum" in json.loads(record)


def test_a_line_that_is_gone_doubled_or_moved_is_seen() -> None:
    a, b, c = lines([b'{"n":1}', b'{"n":2}', b'{"n":3}'])
    for changed in ([b, c], [a, c], [a, a, b, c], [a, c, b], [a, b'{"n":2}', c]):
        with pytest.raises(BrokenSumError):
            opened(changed)
    assert len(opened([a, b])) == 2


def test_lines_of_before_there_were_any_open_as_they_are() -> None:
    old = [b'{"n":1}', b'{"n":2}']
    assert opened(old) == old
    assert opened([*old, *lines([b'{"n":3}'])]) == [*old, b'{"n":3}']


def test_a_writer_goes_on_where_another_ended() -> None:
    (first,) = lines([b'{"n":1}'])
    second = Chain(sums.sum_of(first) or "").sealed(b'{"n":2}')
    assert [first, second] == lines([b'{"n":1}', b'{"n":2}'])


@given(st.integers(0, 8 * 70 - 1), st.booleans())
def test_no_bit_of_a_document_changes_unseen(bit: int, indented: bool) -> None:
    record = json.dumps({"n": 1, "text": "x" * 10}, indent=1 if indented else None).encode()
    document = sums.sealed(record)
    assert sums.has_sum(document)
    assert sums.opened(document) == record
    changed = bytearray(document)
    changed[bit // 8 % len(document)] ^= 1 << bit % 8
    try:
        read = json.loads(sums.opened(bytes(changed)))
    except ValueError:  # also that of a broken sum
        return
    assert read != json.loads(record), "it is a document without a checksum, of other fields"
    assert set(read) - {"n", "text"}


def test_a_killed_writer_leaves_a_beginning_and_nothing_else() -> None:
    """Whatever a guest said in it."""
    facts = b'{"n":1,"facts":{"a":1,"sum":"0123456789abcdef"},"more":2}'
    first, second = lines([b'{"n":1}', facts])
    chain = Chain(sums.sum_of(first) or "")
    for end in range(len(second) + 1):
        assert not chain.is_damaged_end(second[:end])
    assert chain.is_damaged_end(second + b"\x0b")
