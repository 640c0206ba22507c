"""Fairness: nuisances must be equal over the environments; treatments are what is compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ullage.errors import PARITY_UNEQUAL, UllageError
from ullage.plan import NUISANCES
from ullage.runs import Parity


def compare(nuisances: Mapping[str, Mapping[str, str]], allow: Sequence[str]) -> tuple[Parity, ...]:
    """Compare environment → nuisance → value; PARITY_UNEQUAL for the first not allowed one."""
    rows = []
    for name in NUISANCES:
        values = {environment: found[name] for environment, found in nuisances.items()}
        equal = len(set(values.values())) == 1
        if not equal and name not in allow:
            raise UllageError(PARITY_UNEQUAL, nuisance=name, values=_told(values))
        rows.append(Parity(nuisance=name, equal=equal, allowed=not equal, values=values))
    return tuple(rows)


def _told(values: Mapping[str, str]) -> str:
    return "; ".join(f"{environment}: {value}" for environment, value in values.items())
