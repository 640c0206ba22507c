"""The list of campaigns, a line each, in the order of the table."""

from __future__ import annotations

from typing import Final

from tests.lab.chaos import calls, dockers, kills, programs, strangers, surroundings
from tests.lab.chaos.agents import lying
from tests.lab.chaos.campaign import Campaign
from tests.lab.chaos.fuzz import fuzzing, rust_parsers

CAMPAIGNS: Final[tuple[Campaign, ...]] = (
    kills.CAMPAIGN,
    calls.CAMPAIGN,
    surroundings.CAMPAIGN,
    dockers.CAMPAIGN,
    strangers.CAMPAIGN,
    programs.JOURNAL,
    programs.FOLDERS,
    lying.CAMPAIGN,
    fuzzing.CAMPAIGN,
    rust_parsers.CAMPAIGN,
)
