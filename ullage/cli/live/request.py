"""What a browser says before it is answered: a few lines, of which little is believed."""

from __future__ import annotations

import http.client
import io
import re
from dataclasses import dataclass
from typing import Final

MOST_BYTES: Final = 16 * 1024
"""Of a request's head: a browser's has one or two thousand."""
_LINE: Final = re.compile(rb"([!-~]{1,32}) ([!-~]{1,4096}) HTTP/1\.[01]\r?\n")
END: Final = re.compile(rb"\r?\n\r?\n")


@dataclass(frozen=True)
class HttpRequest:
    method: str
    path: str
    host: str
    last: int
    """Number of the last part that the reader has; 0: none."""


def parse(head: bytes) -> HttpRequest | None:
    """The request that this is; None when it is none of HTTP/1."""
    line = _LINE.match(head)
    if line is None:
        return None
    try:
        headers = http.client.parse_headers(io.BytesIO(head[line.end() :]))
    except (http.client.HTTPException, ValueError):
        return None
    last = str(headers.get("Last-Event-ID", ""))
    return HttpRequest(
        method=line[1].decode("ascii"),
        path=line[2].decode("ascii"),
        host=str(headers.get("Host", "")),
        last=int(last) if last.isascii() and last.isdigit() and len(last) < 10 else 0,
    )
