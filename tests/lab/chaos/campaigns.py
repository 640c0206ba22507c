"""The list of campaigns, a line each, in the order of the table."""

from __future__ import annotations

from typing import Final

from tests.lab.chaos import calls, kills, lying
from tests.lab.chaos.campaign import Campaign

CAMPAIGNS: Final[tuple[Campaign, ...]] = (kills.CAMPAIGN, calls.CAMPAIGN, lying.CAMPAIGN)
