"""Whether the front answers: asked beside the viewers, from the first node to the last."""

from __future__ import annotations

import asyncio
import json
import time
import urllib.request
from http.client import HTTPException
from typing import Any, Final, NoReturn

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
        if not front.up or await asyncio.to_thread(_state, front.address, patience_s) is not None:
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


def _state(address: str, patience_s: float = _HTTP_S) -> dict[str, Any] | None:
    """What it says of itself; None: it does not answer."""
    try:
        with _DIRECTLY.open(f"http://{address}/state", timeout=patience_s) as answer:
            found = json.load(answer)
    except (OSError, HTTPException, ValueError):
        return None
    return found if isinstance(found, dict) else None
