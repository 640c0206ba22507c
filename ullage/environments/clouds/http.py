"""What goes wrong between a client that speaks HTTP and its cloud, whatever they say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ullage.common.text import printable
from ullage.environments.clouds.driver import ApiFault

_WITHOUT_A_WAY = ("InvalidURL", "MissingSchema", "InvalidSchema", "InvalidHeader")
"""Of requests: nothing could be sent, and never can."""
TOO_MANY: Final = 429
"""Of an answer that says: not now, and nothing was done."""


def after_s(headers: Mapping[str, Any]) -> float:
    """The wait that an answer asks for."""
    texts = [str(value) for name, value in headers.items() if name.lower() == "retry-after"]
    return next((float(text) for text in texts if text.isdecimal() and len(text) < 6), 0.0)


def answer_fault(status: int, headers: Mapping[str, Any], reason: str) -> ApiFault:
    """Of an answer with that status, which is not the API's own word."""
    words = f"HTTP {status} {reason}".strip() if str(status) not in reason else reason
    if status in {401, 403}:
        return ApiFault("credentials", words)
    if status in {200, 408, 429} or status >= 500:
        return ApiFault("again", words, after_s(headers), undone=status == TOO_MANY)
    return ApiFault("refused", words)


def sending_fault(error: Exception) -> ApiFault | None:
    """Of an error of `requests`, which is the way of pyone and cs; None: it is none of them."""
    import requests  # noqa: PLC0415 - the clients have it

    if not isinstance(error, requests.RequestException):
        return None
    reason = printable(str(error), 400)
    refused = type(error).__name__ in _WITHOUT_A_WAY
    return ApiFault("refused" if refused else "again", reason)
