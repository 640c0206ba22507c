"""Meters of a Prometheus exporter, and what they are refused."""

import pytest

from ullage.common.errors import UllageError
from ullage.meters.energy.prometheus import Prometheus, PrometheusOptions

OWN = {"metric": "plug_watts", "unit": "watts", "scope": "wall", "method": "measured"}


def meter(url: str, **options: object) -> Prometheus:
    return Prometheus(PrometheusOptions.model_validate({"url": url, **options}))


def refused(url: str, **options: object) -> UllageError:
    with pytest.raises(UllageError) as caught:
        meter(url, **(options or OWN)).open()
    return caught.value
