"""The lies of agents, as a table: name → the rule that liar.py follows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

Rule = dict[str, Any]

STDOUT: Final = 1
STDERR: Final = 2
FILE: Final = 3
CLOCK: Final = 4
_HUGE: Final = 2**62
WRONG: Final[dict[str, Any]] = {
    "null": None,
    "text": "0",
    "negative": -1,
    "huge": 2**63,
    "beyond": 2**200,
    "fraction": 0.5,
    "list": [[]],
    "true": True,
}
TEXTS: Final = {
    "escape": "\x1b[2J\x1b]0;lie\x07",
    "newline": "a\nnative ok 1.0 s\r\n",
    "html": "</script><script>alert(1)</script>",
    "formula": "=cmd|' /C calc'!A0",
    "fullwidth": "\uff1d1+1",
    "nul": "a\0b",
    "bidi": "\u202egnp.exe",
    "markup": "[red]x[/red][link=file:///etc/passwd]y",
    "long": "x" * 60_000,
}
_RUSAGE: Final = {
    "user_ns": _HUGE,
    "system_ns": _HUGE,
    "max_rss_bytes": _HUGE,
    "minor_faults": _HUGE,
    "major_faults": -1,
    "voluntary_switches": None,
    "involuntary_switches": "1",
}


def _of_greeting() -> Iterator[tuple[str, Rule]]:
    for name, magic in {
        "empty": "",
        "other-version": b"ULLAGE-AGENT 9\n".hex(),
        "banner": (b"login: \x1b[31m" * 100 + b"\nULLAGE-AGENT 2\n").hex(),
        "many": (b"ULLAGE-AGENT 2\n" * 5000).hex(),
        "garbage": (b"\xff\x00" * 1000).hex(),
        "cut": b"ULLAGE-AG".hex(),
    }.items():
        yield f"magic-{name}", {"about": "nothing", "lie": "never", "magic": magic}
    for lie in ("hang", "end", "close"):
        yield f"magic-{lie}", {"about": "magic", "lie": lie}
    yield "magic-flood", {"about": "magic", "lie": "flood", "hex": "41", "times": 65536}
    for name, value in WRONG.items():
        yield f"hello-version-{name}", _set("hello", version=value)
        yield f"hello-clock-{name}", _set("hello", **{"clock.ns": value})
    for name, text in TEXTS.items():
        yield f"hello-facts-{name}", _set("hello", **{"facts.os": text, "facts.cpu_model": text})
    yield "hello-fact-unknown", _set("hello", **{"facts.lie": 1})
    yield "hello-cpus", _set("hello", **{"facts.cpus_allowed": list(range(12_000))})
    yield "hello-memory", _set("hello", **{"facts.memory_limit_bytes": 1})
    yield "hello-unshared", _set("hello", **{"clock.shared": False})
    yield "hello-sundial", _set("hello", **{"clock.source": "sundial"})
    yield "hello-reasons", _set("hello", **{"clock.reasons": ["bored"] * 1000})


def _of_ends() -> Iterator[tuple[str, Rule]]:
    for field in ("status", "start_ns", "end_ns", "rusage", "reasons", "signal", "timed_out"):
        for name, value in WRONG.items():
            yield f"exit-{field}-{name}", _set("exit", **{field: value})
    for name, value in _RUSAGE.items():
        yield f"exit-rusage-{name}", _set("exit", **{f"rusage.{name}": value})
    yield "exit-status-1", _set("exit", status=1)
    yield "exit-signal-9", _set("exit", status=None, signal=9)
    yield "exit-both", _set("exit", status=0, signal=9)
    yield "exit-neither", _set("exit", status=None, signal=None)
    for name, fields in {
        "future": {"end_ns": 10**12},
        "past": {"start_ns": -(10**9), "end_ns": -(10**9)},
        "backwards": {"end_ns": -(10**9)},
        "before-its-start": {"start_ns": -(10**9)},
        "hour-long": {"end_ns": 3600 * 10**9},
    }.items():
        yield f"exit-{name}", {"about": "exit", "lie": "add", "fields": fields}
    for field in ("rusage", "end_ns", "id", "op", "status"):
        yield f"exit-without-{field}", {"about": "exit", "lie": "drop", "fields": [field]}
    yield "exit-first", {"about": "started", "lie": "before", "fields": {"op": "exit", "status": 0}}
    yield "started-add", {"about": "started", "lie": "add", "fields": {"start_ns": 10**10}}
    for name, value in WRONG.items():
        yield f"started-pid-{name}", _set("started", pid=value)
        yield f"started-late-{name}", _set("started", late_ns=value)


def _of_every_answer() -> Iterator[tuple[str, Rule]]:
    for op in ("hello", "started", "exit", "done", CLOCK):
        for lie in ("never", "twice", "cut", "end", "close", "hang"):
            yield f"{op}-{lie}", {"about": op, "lie": lie}
        yield f"{op}-stopped", {"about": op, "lie": "hang", "deaf": True}
        yield f"{op}-late", {"about": op, "lie": "late", "seconds": 3}
        yield f"{op}-drip", {"about": op, "lie": "drip", "seconds": 0.02}
        yield f"{op}-flip", {"about": op, "lie": "flip"}
        yield f"{op}-length-more", {"about": op, "lie": "bend", "add": 5}
        yield f"{op}-length-less", {"about": op, "lie": "bend", "add": -5}
        yield f"{op}-length-huge", {"about": op, "lie": "bend", "add": 2**31}
        yield f"{op}-reserved", {"about": op, "lie": "bend", "reserved": 7}
        yield f"{op}-kind", {"about": op, "lie": "bend", "kind": 9}
        yield f"{op}-raw", {"about": op, "lie": "raw", "hex": "deadbeef", "times": 1000}
        yield f"{op}-flood", {"about": op, "lie": "flood", "hex": "41", "times": 65536}
        yield f"{op}-data", {"about": op, "lie": "flood", "kind": STDOUT, "hex": "41", "times": 999}
    for op in ("hello", "started", "exit", "done"):
        yield f"{op}-other-id", _set(op, id=4_000_000_000)
        yield f"{op}-no-id", {"about": op, "lie": "drop", "fields": ["id"]}
        yield f"{op}-other-op", _set(op, op="dance")
        yield f"{op}-error", _set(op, op="error", code="io", message=TEXTS["escape"] * 50)
        yield f"{op}-credit", {"about": op, "lie": "before", "fields": {"op": "credit", "bytes": 9}}
        yield f"{op}-deep", {"about": op, "lie": "raw", "hex": _json(b"[" * 60_000).hex()}
        yield f"{op}-nan", {"about": op, "lie": "raw", "hex": _json(b'{"op":"exit","x":NaN}').hex()}
        yield f"{op}-surrogate", {"about": op, "lie": "raw", "hex": _json(b'"\\ud800"').hex()}


def _of_outputs() -> Iterator[tuple[str, Rule]]:
    for name, data in {
        "broken-utf8": b"\xff\xfe\xc3\x28",
        "escapes": b"\x1b[2J\x1b]52;c;bGll\x07",
        "nul": b"\0" * 4096,
        "long-line": b"x" * 60_000,
        "empty": b"",
        "numbers": b"9" * 5000,
    }.items():
        yield f"output-{name}", {"about": STDOUT, "lie": "output", "hex": data.hex()}
    full = {"kind": STDOUT, "hex": "41", "times": 1_000_000}
    yield "output-flood", {"about": STDOUT, "lie": "flood", **full}
    yield "output-never", {"about": STDOUT, "lie": "never"}
    yield "output-twice", {"about": STDOUT, "lie": "twice"}
    yield "output-of-nobody", {"about": STDOUT, "lie": "raw", "hex": _data(STDOUT, 99).hex()}
    yield "output-as-file", {"about": STDOUT, "lie": "bend", "kind": FILE}
    yield "output-as-error", {"about": STDOUT, "lie": "bend", "kind": STDERR}
    yield "output-as-clock", {"about": STDOUT, "lie": "bend", "kind": CLOCK}


def _set(about: str, /, **fields: Any) -> Rule:
    return {"about": about, "lie": "set", "fields": fields}


def _json(body: bytes) -> bytes:
    return b"\xa1\x55\x00\x00" + len(body).to_bytes(4, "big") + body


def _data(kind: int, number: int) -> bytes:
    body = number.to_bytes(4, "big") + b"lie"
    return b"\xa1\x55" + bytes([kind, 0]) + len(body).to_bytes(4, "big") + body


LIES: Final = {
    name: rule
    for part in (_of_greeting, _of_ends, _of_every_answer, _of_outputs)
    for name, rule in part()
}
