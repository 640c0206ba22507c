"""What each metric of an elastic run means: the list, with units, directions and sources."""

from __future__ import annotations

from typing import Final

from ullage.elastic.definitions.allocation import ALLOCATION
from ullage.elastic.definitions.base import Definition
from ullage.elastic.definitions.cost import COST
from ullage.elastic.definitions.elasticity import ELASTICITY
from ullage.elastic.definitions.users import USERS

DEFINITIONS: Final[tuple[Definition, ...]] = (*USERS, *ALLOCATION, *ELASTICITY, *COST)
BY_NAME: Final = {d.name: d for d in DEFINITIONS}
