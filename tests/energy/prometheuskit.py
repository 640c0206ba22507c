"""Meters of a Prometheus exporter, and what they are refused."""

import pytest

from ullage.energy.prometheus import Prometheus, PrometheusOptions
from ullage.errors import UllageError

OWN = {"metric": "plug_watts", "unit": "watts", "scope": "wall", "method": "measured"}


def meter(url: str, **options: object) -> Prometheus:
    return Prometheus(PrometheusOptions.model_validate({"url": url, **options}))


def refused(url: str, **options: object) -> UllageError:
    with pytest.raises(UllageError) as caught:
        meter(url, **(options or OWN)).open()
    return caught.value
