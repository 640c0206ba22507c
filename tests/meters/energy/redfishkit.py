"""Meters of a Redfish service, and what they are refused."""

from collections.abc import Iterator
from contextlib import contextmanager

from testing.energy.redfish_double import RedfishDouble, serving
from ullage.meters.energy.redfish import Redfish, RedfishOptions


@contextmanager
def unlocked() -> Iterator[RedfishDouble]:
    """A service that asks for no password."""
    with serving() as double:
        double.locked = False
        yield double


def meter(double: RedfishDouble, **options: object) -> Redfish:
    return Redfish(RedfishOptions.model_validate({"url": double.url, **options}))
