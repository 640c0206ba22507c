"""The list of providers, and what it refuses."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from pydantic import Field

from ullage import environments
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.environments import REGISTRY, RESERVED
from ullage.environments.base import Instance, InstanceSpec, Options, Provider
from ullage.plan.matrix import COMMON_ENVIRONMENT

STALE = timedelta(days=90)


class Cloud(Provider):
    """Makes nothing."""

    name = "cloud"
    options_model = Options

    async def check(self) -> None:
        return None

    async def create(self, spec: InstanceSpec) -> Instance:
        raise NotImplementedError

    def label(self) -> str:
        return "cloud"

    def treatments(self) -> dict[str, str]:
        return {}


class BadField(Options):
    region: str = "here"


class TakenField(Options):
    instances: int = Field(1, description="a name of the plan's")


def not_async(*_: object) -> None:
    return None


async def no_argument(self: Cloud) -> None:
    return None


def test_the_list() -> None:
    assert environments.names() == (
        "native",
        "oci",
        "lxc",
        "qemu",
        "libvirt",
        "xen",
        "ec2",
        "opennebula",
        "cloudstack",
        "openstack",
        "command",
        "wine",
        "hyperv",
        "ssh",
    )


def test_what_the_plan_keeps_for_itself() -> None:
    assert set(COMMON_ENVIRONMENT) == RESERVED


def test_a_good_class_is_taken() -> None:
    REGISTRY.refuse_faults((Cloud,))


def test_a_name_taken_twice_is_refused() -> None:
    twin = type("Sky", (Cloud,), {"__doc__": "Another cloud."})
    for twice in ((Cloud, twin), (Cloud, Cloud)):
        with pytest.raises(UllageError) as caught:
            REGISTRY.refuse_faults(twice)
        assert caught.value.kind is errors.LIST_DUPLICATE
        assert "two providers are called cloud: Cloud and" in caught.value.message


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"name": "Cloud!"}, "lower-case words"),
        ({"options_model": dict}, "options_model is not a subclass of Options"),
        ({"options_model": BadField}, "region lacks a description"),
        ({"options_model": TakenField}, "instances has a name"),
        ({"host_image": "yes"}, "host_image 'yes'"),
        ({"provision_s": 0}, "provision_s 0"),
        ({"check": not_async}, "check must be async"),
        ({"label": no_argument}, "label must not be async"),
        ({"create": no_argument}, "create does not take (self, spec)"),
        ({"__init__": lambda self: None}, "__init__ does not take (self, options)"),
        ({"__doc__": " "}, "lacks a docstring"),
    ],
)
def test_a_wrong_interface_is_refused(change: dict[str, Any], says: str) -> None:
    wrong = type("Wrong", (Cloud,), {"__doc__": "Wrong in one thing.", **change})
    with pytest.raises(UllageError) as caught:
        REGISTRY.refuse_faults((wrong,))
    assert caught.value.kind is errors.LIST_BAD_INTERFACE
    assert says in caught.value.message
    assert caught.value.hint.startswith("`Add a provider`")


def test_what_is_missing_is_named() -> None:
    half = type("Half", (Provider,), {"__doc__": "Half a provider.", "name": "half"})
    with pytest.raises(UllageError) as caught:
        REGISTRY.refuse_faults((half,))
    for missing in ("check", "create", "label", "treatments", "options_model"):
        assert missing in caught.value.message


@pytest.mark.parametrize("line", ["nowhere.Cloud", "native.Nowhere", "native.NativeOptions"])
def test_a_line_that_names_no_provider_is_refused(line: str) -> None:
    with pytest.raises(UllageError) as caught:
        REGISTRY.load(line)
    assert caught.value.kind is errors.LIST_BAD_INTERFACE


def test_each_says_where_its_trials_last_had_figures() -> None:
    """A day and a part, or that it was never; no day to come, and none long before the others'."""
    days: dict[str, date] = {}
    for provider in environments.PROVIDERS:
        when, _, part = provider.last_seen.partition(": ")
        assert part.strip(), provider.name
        if when != "never":
            days[provider.name] = date.fromisoformat(when)
    newest = max(days.values())
    assert newest <= datetime.now(UTC).date() + timedelta(days=1)
    stale = {name for name, day in days.items() if newest - day > STALE}
    assert stale == set(), "have a trial on them again"
