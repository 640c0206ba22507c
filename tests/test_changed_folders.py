"""A small share of the campaign `tests/lab/chaos/folders.py`: values changed in run folders."""

from __future__ import annotations

import random

import pytest

from tests.lab.chaos import folders
from ullage.cli.guarded import reads_folder
from ullage.common import errors
from ullage.common.errors import UllageError


@pytest.mark.parametrize("first", [0, 378, 400, 1055])
def test_every_reader_ends_in_words(first: int) -> None:
    """Changes that the campaign makes, of several kinds of folders."""
    assert folders.go(first, 3) == []


def test_a_change_is_made_by_its_number_alone() -> None:
    document = {"a": [1, 2, {"b": "x"}], "c": None}
    changes = [folders.changed(document, random.Random(7)) for _ in range(2)]
    assert repr(changes[0]) == repr(changes[1])
    assert document == {"a": [1, 2, {"b": "x"}], "c": None}


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyError, RecursionError, TypeError])
def test_values_that_cannot_be_used_are_an_error_that_names_the_place(
    error: type[Exception],
) -> None:
    @reads_folder
    def command() -> None:
        raise error

    with pytest.raises(UllageError) as caught:
        command()
    assert caught.value.kind is errors.RUN_MAKES_NO_SENSE
    assert error.__name__ in caught.value.message


def test_an_error_of_the_catalogue_stays_what_it_is() -> None:
    @reads_folder
    def command() -> None:
        raise UllageError(errors.RUN_NOT_FOUND, path="x")

    with pytest.raises(UllageError) as caught:
        command()
    assert caught.value.kind is errors.RUN_NOT_FOUND
