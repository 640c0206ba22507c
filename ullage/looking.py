"""How often to look for what no event tells."""

from __future__ import annotations

from typing import Final

SHARE: Final = 0.1
SHORTEST_S: Final = 0.001
"""The event loop's own timer is no finer."""
LONGEST_S: Final = 0.01


def rest_s(waited_s: float, longest_s: float = LONGEST_S) -> float:
    """Seconds until the next look, when it has been waited for so many.

    So what is seen was there for a tenth of the wait at most, or for SHORTEST_S where that is more;
    and never for more than `longest_s`. Looking costs little: some 35 looks in the first 100 ms.
    """
    return min(longest_s, max(SHORTEST_S, SHARE * waited_s))
