"""Calls of a cloud's API: in threads, tried again within a budget, their errors in our words."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final, NoReturn, ParamSpec, TypeVar

from ullage.common.errors import (
    CLOUD_CREDENTIALS,
    CLOUD_LACKS,
    CLOUD_NO_ANSWER,
    CLOUD_QUOTA,
    CLOUD_REFUSED,
    UllageError,
)
from ullage.common.text import printable
from ullage.environments.clouds.coming import Coming
from ullage.environments.clouds.driver import ApiFault, Driver

P = ParamSpec("P")
T = TypeVar("T")

POLL_S: Final = 0.1
"""Between two looks at a state that the cloud does not tell by itself."""
_TRIES: Final = 8
"""Of one call, in a row."""
_FIRST_S: Final = 0.25
_LONGEST_S: Final = 20.0
_RARELY_S: Final = 5.0
_UNREADABLE: Final = (LookupError, TypeError, AttributeError, ArithmeticError, ValueError)
"""What comes of parts of an answer that are not what they should be: drivers and their clients take
it apart without looking at each."""


class Calls:
    """The calls for one instance."""

    def __init__(
        self, driver: Driver, name: str, *, tries: int = _TRIES, coming: Coming | None = None
    ) -> None:
        """name: the instance's, for messages. coming: what hears of requests for it."""
        self.driver = driver
        self.name = name
        self.coming = coming or Coming()
        self.retried = 0
        """How many calls were made again."""
        self._tries = tries

    async def ask(self, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """What it returns. CLOUD_CREDENTIALS, CLOUD_QUOTA, CLOUD_LACKS, CLOUD_REFUSED;
        CLOUD_NO_ANSWER once the budget is spent.

        A cancelled `launch` is waited for: the cloud makes the instance whether or not we wait for
        its answer, and who removes what was begun must see it.
        """
        tries, launching = 0, call == self.driver.launch
        work = self._watched(call) if launching else call
        while True:
            tries += 1
            try:
                answer = asyncio.ensure_future(asyncio.to_thread(work, *args, **kwargs))
                return await (_whole(answer) if launching else answer)
            except Exception as error:
                fault = self.driver.fault(error) or _unreadable(error)
                if fault is None:
                    raise
                if fault.trouble != "again" or tries >= self._tries:
                    self._refuse(fault, call.__name__, tries, error)
            self.retried += 1
            await asyncio.sleep(_wait_s(tries, fault))

    def _watched(self, launch: Callable[P, T]) -> Callable[P, T]:
        return self.coming.watched(
            launch, unanswered=self._leaves_open, once=self.driver.once_a_token
        )

    def _leaves_open(self, error: Exception) -> bool:
        """May what was asked still be done after that?"""
        if isinstance(error, UllageError):  # what is not there was missed before it was asked for
            return False
        fault = self.driver.fault(error) or _unreadable(error)
        return fault is None or (fault.trouble == "again" and not fault.undone)

    def _refuse(self, fault: ApiFault, call: str, tries: int, cause: Exception) -> NoReturn:
        cloud, reason = self.driver.title, fault.reason
        if fault.trouble == "credentials":
            raise UllageError(CLOUD_CREDENTIALS, cloud=cloud, reason=reason) from cause
        if fault.trouble == "quota":
            raise UllageError(CLOUD_QUOTA, cloud=cloud, name=self.name, reason=reason) from cause
        if fault.trouble == "lacks":
            raise UllageError(CLOUD_LACKS, cloud=cloud, call=call, reason=reason) from cause
        if fault.trouble == "refused":
            raise UllageError(CLOUD_REFUSED, cloud=cloud, call=call, reason=reason) from cause
        raise UllageError(
            CLOUD_NO_ANSWER, cloud=cloud, call=call, tries=tries, reason=reason
        ) from cause


async def _whole(answer: asyncio.Future[T]) -> T:
    """The answer; cancelled, not before it has come."""
    try:
        return await asyncio.shield(answer)
    except asyncio.CancelledError:
        while not answer.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait({answer})
        if not answer.cancelled():
            answer.exception()
        raise


def pauses_s() -> Iterator[float]:
    """Waits between looks at what is going: short at first, and a twentieth of the time so far."""
    begun = time.monotonic()
    while True:
        yield min(_RARELY_S, max(POLL_S, (time.monotonic() - begun) / 20))


class Deadline:
    """An instant until which something must have happened."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    @property
    def left_s(self) -> float:
        """Not below 0."""
        return max(0.0, self._end - time.monotonic())

    @property
    def passed(self) -> bool:
        return not self.left_s


def _unreadable(error: Exception) -> ApiFault | None:
    if not isinstance(error, _UNREADABLE):
        return None
    reason = f"an answer that cannot be read: {type(error).__name__}: {error}"
    return ApiFault("again", printable(reason, 300))


def _wait_s(tries: int, fault: ApiFault) -> float:
    """Longer each time, and not the same for all who were refused together."""
    longest = min(_LONGEST_S, _FIRST_S * 2 ** (tries - 1))
    return max(min(fault.after_s, 60.0), random.uniform(longest / 2, longest))
