"""What is kept of a batch of instances that were made and taken away together."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from ullage.runs.records import Count, Nanoseconds, Record

Copy = Literal["real", "backing"]


Step = Literal[
    "asked",
    "requested",
    "chosen",
    "copied",
    "booting",
    "kernel",
    "hello",
    "addressed",
    "reached",
    "up",
    "started",
    "port_closed",
    "port_open",
    "replied",
]
"""What happens to an instance on its way, see docs/guide/allocation.md.

It is allocated when it is `up`; what follows is of its application.
"""


class InstanceSteps(Record):
    """One instance: instants on the controller's clock."""

    name: str = Field(max_length=80)
    steps: dict[Step, Nanoseconds]
    release_asked: Nanoseconds
    released: Nanoseconds


class Batch(Record):
    """All of them, in the order in which they were asked for."""

    format: Literal[1] = 1
    copy_kind: Copy
    applied: bool
    """Did each run an application?"""
    image_held: tuple[Count, Count] | None = Field(None, exclude_if=lambda given: given is None)
    """Bytes of the image that were in this host's memory when all were asked for, after all that
    could be had been dropped, and all bytes of it; None: nothing was dropped."""
    image_size: Count | None = Field(None, exclude_if=lambda given: given is None)
    """Bytes that were copied for each; None: as many as the image has."""
    instances: tuple[InstanceSteps, ...]
