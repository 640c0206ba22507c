#!/usr/bin/env python3
"""An agent that lies: the real one behind it, and a rule by which its words are changed.

`ULLAGE_LIE` is the rule's file, `ULLAGE_HONEST_AGENT` the real agent; without one, the arguments
are the program at whose other end an agent is, or `--port N`, an open socket to it. Only the
standard library: it starts in an instant.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

HEADER: Final = struct.Struct(">2sBBI")
MARK: Final = b"\xa1\x55"
JSON: Final = 0


def frame(kind: int, body: bytes, *, mark: bytes = MARK, reserved: int = 0, add: int = 0) -> bytes:
    """A frame; `add` makes its length a lie."""
    return HEADER.pack(mark, kind, reserved, (len(body) + add) % 2**32) + body


def message(fields: dict[str, Any]) -> bytes:
    return frame(JSON, json.dumps(fields).encode())


class Liar:
    """Passes on what the real agent says, but for the `at`-th frame that the rule is about."""

    def __init__(self, rule: dict[str, Any], out: BinaryIO) -> None:
        self.rule = rule
        self.seen = 0
        self.trials: set[int] = set()
        """Ids of the programs that are a trial's work: what is said of others is passed on."""
        self.asked: dict[int, str] = {}
        """Id → what was asked for, of a rule that is about the answers to one kind of request."""
        self._out = out
        self._random = random.Random(json.dumps(rule))

    def say(self, data: bytes) -> None:
        self._out.write(data)
        self._out.flush()

    def tell(self, kind: int, body: bytes) -> None:
        """Pass a frame on, or lie."""
        fields = json.loads(body) if kind == JSON else {}
        if self._about(kind, fields) and self._of_trial(kind, body, fields):
            self.seen += 1
            at = self.rule.get("at", 1)
            if self.seen == at or (self.seen > at and self.rule.get("always", False)):
                self.lie(kind, body, fields)
                return
        self.say(frame(kind, body))

    def lie(self, kind: int, body: bytes, fields: dict[str, Any]) -> None:
        """Do what the rule says; that it was done is seen by a file."""
        Path(f"{os.environ['ULLAGE_LIE']}.done").touch()
        getattr(self, f"lie_{self.rule['lie']}")(kind, body, fields)

    def _about(self, kind: int, fields: dict[str, Any]) -> bool:
        about = self.rule["about"]
        if "of" in self.rule and self.asked.get(fields.get("id", -1)) != self.rule["of"]:
            return False
        return bool(about == (fields.get("op") if kind == JSON else kind))

    def _of_trial(self, kind: int, body: bytes, fields: dict[str, Any]) -> bool:
        if kind in {1, 2}:
            return int.from_bytes(body[:4], "big") in self.trials
        return fields.get("op") not in {"started", "exit"} or fields["id"] in self.trials

    # --- what may be done instead of passing it on ---
    def lie_set(self, kind: int, body: bytes, fields: dict[str, Any]) -> None:
        """Fields with other values; `a.b` is a field in a field."""
        for path, value in self.rule["fields"].items():
            *outer, last = path.split(".")
            place = fields
            for name in outer:
                place = place.setdefault(name, {})
            place[last] = value
        self.say(message(fields))

    def lie_add(self, kind: int, body: bytes, fields: dict[str, Any]) -> None:
        """Numbers that are larger by so much."""
        for name, value in self.rule["fields"].items():
            fields[name] = fields[name] + value
        self.say(message(fields))

    def lie_drop(self, kind: int, body: bytes, fields: dict[str, Any]) -> None:
        for name in self.rule["fields"]:
            fields.pop(name, None)
        self.say(message(fields))

    def lie_twice(self, kind: int, body: bytes, fields: dict[str, Any]) -> None:
        self.say(frame(kind, body) * 2)

    def lie_never(self, kind: int, body: bytes, fields: dict[str, Any]) -> None:
        """The frame is not sent; all else is."""

    def lie_before(self, kind: int, body: bytes, fields: dict[str, Any]) -> None:
        """An answer that nobody is to have before it."""
        self.say(message({**fields, **self.rule["fields"]}) + frame(kind, body))

    def lie_raw(self, kind: int, body: bytes, fields: dict[str, Any]) -> None:
        """Bytes that are no frame, then the frame."""
        self.say(bytes.fromhex(self.rule["hex"]) * self.rule.get("times", 1))
        self.say(frame(kind, body))

    def lie_bend(self, kind: int, body: bytes, fields: dict[str, Any]) -> None:
        """A header that is not the body's."""
        bent = {name: self.rule[name] for name in ("reserved", "add") if name in self.rule}
        self.say(frame(self.rule.get("kind", kind), body, **bent))

    def lie_flip(self, kind: int, body: bytes, fields: dict[str, Any]) -> None:
        """A byte of the body is another one."""
        changed = bytearray(body)
        changed[self._random.randrange(len(changed))] ^= 1 << self._random.randrange(8)
        self.say(frame(kind, bytes(changed)))

    def lie_cut(self, kind: int, body: bytes, fields: dict[str, Any]) -> None:
        """Half a frame, and the end."""
        self.say(frame(kind, body)[: 8 + len(body) // 2])
        self._end()

    def lie_end(self, kind: int, body: bytes, fields: dict[str, Any]) -> None:
        self._end()

    def lie_close(self, kind: int, body: bytes, fields: dict[str, Any]) -> None:
        """The pipe is closed, the process stays and cannot be asked to go."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        self._out.close()
        os.close(1)
        time.sleep(600)

    def lie_hang(self, kind: int, body: bytes, fields: dict[str, Any]) -> None:
        """Silence from here on; what comes is read, or is not read either."""
        if self.rule.get("deaf", False):
            os.kill(os.getpid(), signal.SIGSTOP)
        threading.Event().wait()

    def lie_drip(self, kind: int, body: bytes, fields: dict[str, Any]) -> None:
        """A byte at a time."""
        for byte in frame(kind, body):
            self.say(bytes([byte]))
            time.sleep(self.rule["seconds"])

    def lie_drops(self, kind: int, body: bytes, fields: dict[str, Any]) -> None:
        """Credit without end, a byte at a time."""
        with contextlib.suppress(OSError):
            while True:
                self.say(message({"op": "credit", "bytes": 1}))
                time.sleep(self.rule["seconds"])

    def lie_late(self, kind: int, body: bytes, fields: dict[str, Any]) -> None:
        time.sleep(self.rule["seconds"])
        self.say(frame(kind, body))

    def lie_flood(self, kind: int, body: bytes, fields: dict[str, Any]) -> None:
        """Without end, whatever credit there is."""
        lump = bytes.fromhex(self.rule["hex"]) * self.rule["times"]
        number = struct.pack(">I", fields.get("id", 1))
        flood = frame(self.rule["kind"], number + lump) if "kind" in self.rule else lump
        with contextlib.suppress(OSError):
            while True:
                self.say(flood)

    def lie_output(self, kind: int, body: bytes, fields: dict[str, Any]) -> None:
        """A program's output is another one."""
        self.say(
            frame(kind, body[:4] + bytes.fromhex(self.rule["hex"]) * self.rule.get("times", 1))
        )

    def _end(self) -> None:
        os._exit(0)


def main() -> None:
    rule = json.loads(Path(os.environ["ULLAGE_LIE"]).read_bytes())
    honest = os.environ.get("ULLAGE_HONEST_AGENT")
    argv = [honest, *sys.argv[1:]] if honest else sys.argv[1:]
    agent_in, agent_out = _streams(argv)
    liar = Liar(rule, sys.stdout.buffer)
    requests = threading.Thread(target=_pass_requests, args=(agent_in, liar), daemon=True)
    requests.start()
    magic = agent_out.readline()
    if rule["about"] == "magic":
        liar.rule["about"] = "nothing"
        liar.lie(0, b"", {})
    if "magic" in rule:
        Path(f"{os.environ['ULLAGE_LIE']}.done").touch()
    liar.say(bytes.fromhex(rule["magic"]) if "magic" in rule else magic)
    while header := agent_out.read(HEADER.size):
        _, kind, _, length = HEADER.unpack(header)
        liar.tell(kind, agent_out.read(length))


def _streams(argv: list[str]) -> tuple[BinaryIO, BinaryIO]:
    """To the real agent, and from it."""
    if argv[0] == "--port":
        # As its transport would end it.
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
        port = socket.socket(fileno=int(argv[1]))
        return port.makefile("wb"), port.makefile("rb")
    agent = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert agent.stdin is not None and agent.stdout is not None
    return cast(BinaryIO, agent.stdin), cast(BinaryIO, agent.stdout)


def _pass_requests(stdin: BinaryIO, liar: Liar) -> None:
    requests = sys.stdin.buffer
    with contextlib.suppress(OSError):
        while header := requests.read(HEADER.size):
            _, kind, _, length = HEADER.unpack(header)
            body = requests.read(length)
            if kind == JSON and b"echo 42" in body:
                liar.trials.add(json.loads(body)["id"])
            if kind == JSON and "of" in liar.rule:
                request = json.loads(body)
                liar.asked[request.get("id", -1)] = request["op"]
            stdin.write(header + body)
            stdin.flush()
        stdin.close()


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        main()
