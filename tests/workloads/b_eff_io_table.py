"""The table of b_eff_io, release 2.1 (2001), row by row: written out apart from the code."""

from __future__ import annotations

from typing import Final

K, M = 1024, 1024 * 1024
LARGEST, FILL = -1, -2
"""In place of a size: M_PART, and what fills up the segment."""

TABLE: Final = (
    # number, type, chunk in the file (l), contiguous in memory (L), units of time (U)
    (0, 0, M, M, 0),
    (1, 0, LARGEST, LARGEST, 4),
    (2, 0, M, 2 * M, 4),
    (3, 0, M, M, 4),
    (4, 0, 32 * K, M, 2),
    (5, 0, K, M, 2),
    (6, 0, 32 * K + 8, M + 256, 2),
    (7, 0, K + 8, M + 8 * K, 2),
    (8, 0, M + 8, M + 8, 2),
    (9, 1, M, M, 0),
    (10, 1, LARGEST, LARGEST, 4),
    (11, 1, M, M, 2),
    (12, 1, 32 * K, 32 * K, 1),
    (13, 1, K, K, 1),
    (14, 1, 32 * K + 8, 32 * K + 8, 1),
    (15, 1, K + 8, K + 8, 1),
    (16, 1, M + 8, M + 8, 2),
    (17, 2, M, M, 0),
    (18, 2, LARGEST, LARGEST, 2),
    (19, 2, M, M, 2),
    (20, 2, 32 * K, 32 * K, 1),
    (21, 2, K, K, 1),
    (22, 2, 32 * K + 8, 32 * K + 8, 1),
    (23, 2, K + 8, K + 8, 1),
    (24, 2, M + 8, M + 8, 2),
    (25, 3, M, M, 0),
    (26, 3, LARGEST, LARGEST, 2),
    (27, 3, M, M, 2),
    (28, 3, 32 * K, 32 * K, 1),
    (29, 3, K, K, 1),
    (30, 3, 32 * K + 8, 32 * K + 8, 1),
    (31, 3, K + 8, K + 8, 1),
    (32, 3, M + 8, M + 8, 2),
    (33, 3, FILL, FILL, 0),
    (34, 4, M, M, 0),
    (35, 4, LARGEST, LARGEST, 2),
    (36, 4, M, M, 2),
    (37, 4, 32 * K, 32 * K, 1),
    (38, 4, K, K, 1),
    (39, 4, 32 * K + 8, 32 * K + 8, 1),
    (40, 4, K + 8, K + 8, 1),
    (41, 4, M + 8, M + 8, 2),
    (42, 4, FILL, FILL, 0),
)

SAME_CHUNK: Final = (
    # Types 0, 1 and 2, and types 3 and 4, whose calls they give.
    (0, 9, 17, 25, 34),
    (1, 10, 18, 26, 35),
    (3, 11, 19, 27, 36),
    (4, 12, 20, 28, 37),
    (5, 13, 21, 29, 38),
    (6, 14, 22, 30, 39),
    (7, 15, 23, 31, 40),
    (8, 16, 24, 32, 41),
)


def sized(largest: int) -> dict[int, tuple[int, int, int, int]]:
    """Number → type, l, L and U, without the two that fill up."""
    real = {LARGEST: largest}
    return {
        number: (kind, real.get(chunk, chunk), real.get(call, call), units)
        for number, kind, chunk, call, units in TABLE
        if chunk != FILL
    }
