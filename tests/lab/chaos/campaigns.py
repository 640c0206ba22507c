"""The list of campaigns, a line each, in the order of the table."""

from __future__ import annotations

from typing import Final

from tests.lab.chaos import calls, fuzzing, kills, lying, surroundings
from tests.lab.chaos.campaign import Campaign

CAMPAIGNS: Final[tuple[Campaign, ...]] = (
    kills.CAMPAIGN,
    calls.CAMPAIGN,
    surroundings.CAMPAIGN,
    lying.CAMPAIGN,
    fuzzing.CAMPAIGN,
)
