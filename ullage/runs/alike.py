"""Records of a long journal, with what they have alike kept once.

Pydantic gives each record a set of the names that it was given: half of the memory that a trial
takes, and of thousands of trials hardly one differs. A record is never changed, and a copy of it
gets a set of its own.
"""

from __future__ import annotations

from typing import TypeVar

from pydantic import BaseModel

T = TypeVar("T")
Names = dict[frozenset[str], set[str]]
"""The sets that there are so far."""
_PLAIN = (float, int, str, bool, type(None))


def with_shared_names(value: T, known: Names) -> T:
    """The same; each record in it has its set from `known`."""
    if isinstance(value, BaseModel):
        names = value.__pydantic_fields_set__
        object.__setattr__(
            value, "__pydantic_fields_set__", known.setdefault(frozenset(names), names)
        )
        for field in value.__dict__.values():
            if type(field) not in _PLAIN:
                with_shared_names(field, known)
    elif isinstance(value, tuple | list):
        for item in value:
            with_shared_names(item, known)
    elif isinstance(value, dict):
        for item in value.values():
            if type(item) not in _PLAIN:
                with_shared_names(item, known)
    return value
