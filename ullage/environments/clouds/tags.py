"""Whose is what stands in a cloud under a run's tag: two hosts may draw the same one."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Collection, Sequence

from ullage.common.errors import CLOUD_TAG_TAKEN, UllageError
from ullage.common.text import printable
from ullage.environments.clouds.driver import Machine, Request


def check_machines(cloud: str, machines: Sequence[Machine], ours: Collection[str]) -> None:
    """ours: names that this run has asked for. CLOUD_TAG_TAKEN where it has others too."""
    others = [machine.name for machine in machines if machine.name not in ours]
    if others:
        there = printable(", ".join(sorted(others)[:3]), 100)
        raise _taken(cloud, there if len(others) <= 3 else f"{len(others)} instances, {there}")


def check_key(cloud: str, request: Request, known: object) -> None:
    """known: the public key of that name there, or its fingerprint. CLOUD_TAG_TAKEN unless it is
    the request's: an earlier try's whose answer was lost."""
    if " ".join(str(known).split()[:2]) not in {request.public_key, fingerprint(request)}:
        raise _taken(cloud, f"another key pair {request.name}")


def fingerprint(request: Request) -> str:
    """Of its public key, as Nova and CloudStack tell it: MD5, whoever may log in by it."""
    blob = base64.b64decode(request.public_key.split()[1])
    return hashlib.md5(blob, usedforsecurity=False).digest().hex(":")


def _taken(cloud: str, there: str) -> UllageError:
    return UllageError(CLOUD_TAG_TAKEN, cloud=cloud, there=there)
