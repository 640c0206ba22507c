"""Values of a run folder that pass for right one by one, and cannot be right together."""

from __future__ import annotations

import functools
import traceback
from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

from ullage.common.errors import RUN_MAKES_NO_SENSE, UllageError

P = ParamSpec("P")
R = TypeVar("R")
_NONSENSE: Final = (
    ArithmeticError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
)
"""What Python, NumPy, Arrow and Pydantic raise at values that they cannot use. What can only be a
fault of ours (an assertion, an attribute that is not there) stays one."""


def reads_folder(command: Callable[P, R]) -> Callable[P, R]:
    """The command, for folders that anybody may have made: RUN_MAKES_NO_SENSE, not a traceback."""

    @functools.wraps(command)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except _NONSENSE as error:
            raise UllageError(RUN_MAKES_NO_SENSE, place=_place(error)) from error

    return guarded


def _place(error: BaseException) -> str:
    """Which error, and where in our code."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "/ullage/" in frame.filename]
    if not ours:
        return type(error).__name__
    file = ours[-1].filename.rpartition("/ullage/")[2]
    return f"{type(error).__name__} at {file}:{ours[-1].lineno}"
