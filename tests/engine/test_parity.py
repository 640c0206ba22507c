"""Nuisances must be equal, unless the plan allows it by name."""

import pytest

from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.engine import resolved
from ullage.experiments import preflight
from ullage.plan import matrix, schema
from ullage.plan.schema import NUISANCES


def nuisances(**changed: str) -> dict[str, dict[str, str]]:
    same = dict.fromkeys(NUISANCES, "1")
    return {"native": same, "vm": {**same, **changed}}


def test_equal_environments_pass() -> None:
    rows = resolved.compare(nuisances(), [])
    assert [row.nuisance for row in rows] == list(NUISANCES)
    assert all(row.equal and not row.allowed for row in rows)


@pytest.mark.parametrize("nuisance", NUISANCES)
def test_an_unequal_nuisance_is_refused_by_name(nuisance: str) -> None:
    with pytest.raises(UllageError) as caught:
        resolved.compare(nuisances(**{nuisance: "2"}), [n for n in NUISANCES if n != nuisance])
    assert caught.value.kind is errors.PARITY_UNEQUAL
    assert nuisance in caught.value.message
    assert f"allow: [{nuisance}]" in caught.value.hint


def test_what_the_plan_allows_is_labelled() -> None:
    rows = resolved.compare(nuisances(memory="2GiB"), ["memory"])
    allowed = [row for row in rows if row.allowed]
    assert [row.nuisance for row in allowed] == ["memory"]
    assert allowed[0].values == {"native": "1", "vm": "2GiB"}


def test_another_system_is_refused_before_anything_is_made() -> None:
    """Wine's userland beside Debian's: the plan itself says so, and must allow it."""
    text = """
name: two-systems
baseline: native
image: host
environments:
  native: {provider: native}
  wine: {provider: wine}
workloads: [{name: basics}]
"""
    with pytest.raises(UllageError) as caught:
        check(text)
    assert caught.value.kind is errors.PARITY_UNEQUAL
    assert "not Windows" in caught.value.message
    check(text + "allow: [userland]\n")


def check(text: str) -> None:
    plan, document = schema.loads(text)
    preflight.check_parity(plan, matrix.resolve(plan, document))
