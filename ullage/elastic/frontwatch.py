"""Whether the front answers: asked beside the viewers, from the first node to the last."""

from __future__ import annotations

import asyncio
import json
import time
import urllib.request
from http.client import HTTPException
from typing import Any, Final, NoReturn
from urllib.error import HTTPError, URLError

from ullage.elastic.frontprocess import Front
from ullage.errors import ELASTIC_FRONT_SILENT, UllageError

_HTTP_S: Final = 10.0
_LOOK_S: Final = 1.0
_DIRECTLY: Final = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""The front is on this host, whatever proxy its user has."""


async def silence(front: Front, limit_s: float) -> NoReturn:
    """End the front that runs and answers nobody for so long. ELASTIC_FRONT_SILENT.

    One that died is another matter: `Front.messages` starts it again.
    """
    heard = time.monotonic()
    while True:
        patience_s = min(_HTTP_S, limit_s)
        if not front.up or await asyncio.to_thread(_heard, front.address, patience_s):
            heard = time.monotonic()
        elif (silent_s := time.monotonic() - heard) > limit_s:
            await front.give_up()
            raise UllageError(ELASTIC_FRONT_SILENT, seconds=silent_s)
        await asyncio.sleep(min(_LOOK_S, limit_s))


async def moving(address: str) -> bool:
    """Does a node come or go, as the front sees it? True too when it does not answer: it starts."""
    state = await asyncio.to_thread(_state, address)
    try:
        return state is None or any(n["state"] in ("coming", "leaving") for n in state["nodes"])
    except (KeyError, TypeError):
        return True


def _heard(address: str, patience_s: float) -> bool:
    """Does it answer at all? One whose connections are all in use refuses, and closes: it works."""
    try:
        return _asked(address, patience_s) is not None
    except (HTTPError, ConnectionResetError):
        return True
    except URLError as error:
        return isinstance(error.reason, ConnectionResetError)
    except (OSError, HTTPException, ValueError):
        return False


def _state(address: str) -> dict[str, Any] | None:
    """What it says of itself; None: it does not answer."""
    try:
        return _asked(address, _HTTP_S)
    except (OSError, HTTPException, ValueError):
        return None


def _asked(address: str, patience_s: float) -> dict[str, Any] | None:
    with _DIRECTLY.open(f"http://{address}/state", timeout=patience_s) as answer:
        found = json.load(answer)
    return found if isinstance(found, dict) else None
