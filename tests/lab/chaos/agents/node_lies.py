"""The lies of nodes, as a table: name → the rule that liar.py follows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from tests.lab.chaos.agents.lies import TEXTS, WRONG, Rule

_ANSWERS: Final[dict[str, tuple[str, ...]]] = {
    "hello": ("protocol", "not_removed", "facts"),
    "ping": (),
    "check": ("label", "emulated", "treatments", "writable_root"),
    "packages": ("packages",),
    "create": ("socket", "cpu_ids", "cpu_quota", "data", "own_kernel", "address"),
    "freeze": (),
    "thaw": (),
    "meter": (),
    "metered": ("readings",),
    "kills": ("kills",),
    "destroy": (),
    "bye": (),
}
"""What is asked of a node in a run → the fields of the answer."""
_DEEP: Final[Any] = {"x": [[[[[[[[[[{"x": 2**63}] * 3]]]]]]]]]}


def _of_answers() -> Iterator[tuple[str, Rule]]:
    for op, fields in _ANSWERS.items():
        rule: Rule = {"about": "done", "of": op}
        if op not in {"hello", "check", "packages", "create"}:  # each is waited for a quarter hour
            yield f"{op}-never", {**rule, "lie": "never", "always": True}
        for lie in ("twice", "cut", "end", "close", "hang", "flip"):
            yield f"{op}-{lie}", {**rule, "lie": lie}
        yield f"{op}-late", {**rule, "lie": "late", "seconds": 3}
        yield f"{op}-drip", {**rule, "lie": "drip", "seconds": 0.02}
        yield f"{op}-flood", {**rule, "lie": "flood", "hex": "41", "times": 65536}
        yield f"{op}-more", {**rule, "lie": "set", "fields": {"lie": 1}}
        words = {"op": "error", "code": "io", "message": TEXTS["escape"] + " | hint: \x1b[2J" * 9}
        yield f"{op}-error", {**rule, "lie": "set", "fields": words}
        for field in fields:
            for name, value in WRONG.items():
                yield f"{op}-{field}-{name}", {**rule, "lie": "set", "fields": {field: value}}
            for name, text in TEXTS.items():
                yield f"{op}-{field}-{name}", {**rule, "lie": "set", "fields": {field: text}}
            yield f"{op}-{field}-gone", {**rule, "lie": "drop", "fields": [field]}


def _of_facts() -> Iterator[tuple[str, Rule]]:
    for op, field in (
        ("hello", "facts.cpu_model"),
        ("hello", "facts.lie"),
        ("check", "treatments.lie"),
        ("packages", "packages.sleep"),
        ("metered", "readings.lie"),
    ):
        values = {**WRONG, **TEXTS, "deep": _DEEP, "huge-list": [1e308] * 5000}
        for name, value in values.items():
            rule: Rule = {"about": "done", "of": op, "lie": "set", "fields": {field: value}}
            yield f"{op}-{field}-{name}", rule
    for name, value in WRONG.items():
        fields = {"facts.memory_bytes": value, "facts.kernel": value, "facts.governor": value}
        yield (
            f"hello-memory-{name}",
            {
                "about": "done",
                "of": "hello",
                "lie": "set",
                "fields": fields,
            },
        )
    for name, path in {
        "root": "/",
        "up": "/../../../../etc/passwd",
        "dev-zero": "/dev/zero",
        "option": "/-oProxyCommand",
    }.items():
        yield (
            f"create-socket-{name}",
            {
                "about": "done",
                "of": "create",
                "lie": "set",
                "fields": {"socket": path, "data": path},
            },
        )
    for name, magic in {"agent": b"ULLAGE-AGENT 2\n", "version": b"ULLAGE-NODE 9\n"}.items():
        yield f"magic-{name}", {"about": "nothing", "lie": "never", "magic": magic.hex()}


NODE_LIES: Final = {name: rule for part in (_of_answers, _of_facts) for name, rule in part()}
