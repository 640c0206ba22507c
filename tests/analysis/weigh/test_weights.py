"""Weights, nodes and shares, as they are typed."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.analysis.weigh import weights as weigh_weights
from ullage.analysis.weigh.weights import RESOURCES, WeighRequest, weights
from ullage.common import errors
from ullage.common.errors import UllageError


def test_weights_are_parts_or_percentages() -> None:
    expected = {"cpu": 0.1, "memory": 0.2, "disk": 0.6, "network": 0.1}
    assert weights("cpu=0.1,memory=0.2,disk=0.6,network=0.1") == expected
    assert weights(" cpu = 10%, memory=20 % ,disk=60%,network=0.1") == expected
    assert weights("cpu=1") == {"cpu": 1.0}
    # In binary these would add up to a little less than 1.
    assert sum(weights("cpu=0.7,memory=0.1,disk=0.1,network=0.1").values()) < 1


def test_weights_that_do_not_add_up_are_refused_with_those_that_do() -> None:
    with pytest.raises(UllageError) as caught:
        weights("cpu=1,memory=2,disk=3")
    assert caught.value.kind is errors.WEIGHTS_NOT_ONE
    assert "add up to 6, not to 1" in caught.value.message
    assert caught.value.hint.endswith("cpu=0.166667,memory=0.333333,disk=0.5")


@given(
    st.dictionaries(
        st.sampled_from(RESOURCES), st.decimals(0, 1000, places=3), min_size=1, max_size=5
    )
)
def test_what_is_offered_adds_up_and_keeps_the_proportions(drawn: dict[str, Decimal]) -> None:
    total = sum(drawn.values())
    text = ",".join(f"{name}={value}" for name, value in drawn.items())
    if total == 0:
        with pytest.raises(ValueError, match="every weight is 0"):
            weights(text)
        return
    try:
        parsed = weights(text)
    except UllageError as error:
        offered = str(error.facts["corrected"])
        parsed = weights(offered)
    assert list(parsed) == list(drawn)
    for name, value in drawn.items():
        assert parsed[name] == pytest.approx(float(value / total), abs=1.1e-6)  # type: ignore[index]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "not RESOURCE=WEIGHT"),
        ("cpu", "not RESOURCE=WEIGHT"),
        ("memry=1", "did you mean memory"),
        ("cpu=0.5,cpu=0.5", "stands twice"),
        ("cpu=-1,disk=2", "from 0 to 1"),
        ("cpu=nan", "from 0 to 1"),
        ("cpu=inf", "from 0 to 1"),
        ("cpu=1e12", "from 0 to 1"),
        ("cpu=much", "no weight"),
        ("cpu=0", "every weight is 0"),
    ],
)
def test_what_is_no_weight_is_refused(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        weights(text)


def test_nodes_hold_copies_of_environments_whose_keys_may_be_long() -> None:
    assert weigh_weights.node("big=vm:4,container") == ("big", {"vm": 4, "container": 1})
    assert weigh_weights.node("a=vm,vm:2") == ("a", {"vm": 3})
    key = "vm[nic=e1000,cache=a:2]"
    assert weigh_weights.node(f"n = {key}:3 , {key}") == ("n", {key: 4})


@pytest.mark.parametrize(
    "text", ["", "vm:2", "=vm", "a=", "a=vm:0", "a=vm:-1", "a=vm:x", "a=vm:9999999", "vm[a=b]:2"]
)
def test_what_is_no_node_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        weigh_weights.node(text)


def test_shares_are_of_one_environment_or_of_all() -> None:
    assert weigh_weights.share("disk=0.25") == (None, "disk", 0.25)
    assert weigh_weights.share("vm[a=b]:disk=25%") == ("vm[a=b]", "disk", 0.25)
    for wrong in ("disk", "disk=0", "disk=2", "dsk=0.5", "disk=x"):
        with pytest.raises(ValueError):
            weigh_weights.share(wrong)


def test_an_environment_may_have_weights_of_its_own() -> None:
    request = WeighRequest({"cpu": 0.5, "disk": 0.5, "other": 0.0}, own={"vm": {"cpu": 1.0}})
    assert request.of("container") == {"cpu": 0.5, "disk": 0.5}
    assert request.of("vm") == {"cpu": 1.0}
    assert list(request.named()) == ["vm"]
