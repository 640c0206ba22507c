"""Meter `redfish`, with a service that has the resources of DMTF's example."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from testing.energy.redfish_double import CHASSIS, ROOT, RedfishDouble, linked, serving
from tests.meters.energy.redfishkit import meter, unlocked
from tests.meters.energy.scripted import fault, refused
from ullage.common import errors
from ullage.meters.energy import redfish
from ullage.meters.energy.base import FaultError
from ullage.meters.energy.redfish import RedfishOptions


@pytest.fixture
def service() -> Iterator[RedfishDouble]:
    with unlocked() as double:
        yield double


def test_the_metrics_of_the_environment(service: RedfishDouble) -> None:
    bmc = meter(service, accuracy="1%")
    (channel,) = bmc.open()
    assert (channel.name, channel.kind, channel.method) == ("wall", "power", "measured")
    assert (channel.scope, channel.observer) == ("wall", "bmc")
    assert (channel.resolution, channel.accuracy) == (1.0, 0.01)
    assert channel.source == f"{service.url}{CHASSIS}/EnvironmentMetrics PowerWatts"
    assert bmc.read() == {"wall": 374.0}
    service.metrics["PowerWatts"]["Reading"] = 410.25
    assert bmc.read() == {"wall": 410.25}
    bmc.close()
    assert service.connections == 1, "it stays"


def test_the_counter_of_energy(service: RedfishDouble) -> None:
    service.metrics["EnergykWh"] = {"Reading": 56438.5}
    bmc = meter(service)
    _power, energy = bmc.open()
    assert (energy.name, energy.kind, energy.wraps_at) == ("wall-energy", "energy", None)
    assert energy.resolution == pytest.approx(0.1 * 3.6e6)
    assert energy.source.endswith("EnergykWh")
    assert bmc.read()["wall-energy"] == pytest.approx(56438.5 * 3.6e6)
    service.metrics["EnergykWh"] = {"Reading": None}
    assert fault(bmc).code == "silent"
    service.metrics["EnergykWh"] = {"Reading": -1}
    assert fault(bmc).code == "nonsense"
    del service.metrics["EnergykWh"]
    assert fault(bmc).code == "silent"
    bmc.close()


def test_the_power_of_older_services(service: RedfishDouble) -> None:
    service.old()
    service.control["PowerConsumedWatts"] = 344.5
    bmc = meter(service)
    (channel,) = bmc.open()
    assert channel.resolution == pytest.approx(0.1)
    assert channel.source == f"{service.url}{CHASSIS}/Power PowerConsumedWatts"
    assert bmc.read() == {"wall": 344.5}
    bmc.close()


@pytest.mark.parametrize("place", ["null", "absent", "linked to nothing"])
def test_metrics_without_a_power(service: RedfishDouble, place: str) -> None:
    if place == "null":
        service.metrics["PowerWatts"]["Reading"] = None
    elif place == "absent":
        del service.metrics["PowerWatts"]
    else:
        del service.resources[f"{CHASSIS}/EnvironmentMetrics"]
    bmc = meter(service)
    assert bmc.open()[0].source.endswith("PowerConsumedWatts")
    assert bmc.read() == {"wall": 344.0}
    bmc.close()


def test_one_of_several_chassis(service: RedfishDouble) -> None:
    service.add("GPU.0", 120.5, contained=True)
    assert meter(service).open()[0].source.count("/1U/"), "the GPU is within"
    service.add("Rack_2", 800)
    error = refused(meter(service))
    assert error.kind is errors.ENERGY_METER_BAD_ANSWER
    assert "1U, Rack_2" in error.message
    assert "chassis:" in error.hint
    bmc = meter(service, chassis="GPU.0")
    bmc.open()
    assert bmc.read() == {"wall": 120.5}
    bmc.close()
    error = refused(meter(service, chassis="attic"))
    assert error.kind is errors.ENERGY_METER_ABSENT
    assert "1U, GPU.0, Rack_2" in error.message


@pytest.mark.parametrize(
    ("value", "state", "code"),
    [
        (None, "Enabled", "silent"),
        (344, "Absent", "silent"),
        (344, "UnavailableOffline", "silent"),
        (0, "Enabled", "nonsense"),
        (-3, "Enabled", "nonsense"),
        (2e6, "Enabled", "nonsense"),
        (10**30, "Enabled", "nonsense"),
        ("344", "Enabled", "nonsense"),
        (True, "Enabled", "nonsense"),
        ([344], "Enabled", "nonsense"),
    ],
)
def test_figures_that_are_none(
    service: RedfishDouble, value: object, state: str, code: str
) -> None:
    service.old()
    bmc = meter(service)
    bmc.open()
    service.control["PowerConsumedWatts"], service.control["Status"]["State"] = value, state
    assert fault(bmc).code == code
    error = refused(meter(service))
    assert error.kind is errors.ENERGY_METER_BAD_ANSWER
    assert "PowerConsumedWatts" in error.message
    service.control["PowerConsumedWatts"], service.control["Status"]["State"] = 340, "Enabled"
    assert bmc.read() == {"wall": 340.0}
    bmc.close()


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"nothing",
        b"[]",
        b"\xff\xfe",
        b'{"PowerWatts": {"Reading": NaN}}',
        b'{"PowerWatts": {"Reading": 1e999999999}}',
        b'{"PowerWatts": {"Reading": 1e9999999999999999999999}}',
        b'{"PowerWatts": {"Reading": ' + b"9" * 5000 + b"}}",
        b'{"PowerWatts": 344}',
        b"[" * 100_000,
        b" " * (redfish.MOST_BYTES + 1),
    ],
)
def test_answers_that_cannot_be_trusted(service: RedfishDouble, raw: bytes) -> None:
    bmc = meter(service)
    bmc.open()
    service.raw = raw
    assert fault(bmc).code == "nonsense"
    service.raw = None
    assert bmc.read() == {"wall": 374.0}
    bmc.close()


def test_an_answer_that_is_cut_short(service: RedfishDouble) -> None:
    bmc = meter(service)
    bmc.open()
    service.claimed = 5000
    error = fault(bmc)
    assert error.code == "nonsense"
    assert "IncompleteRead" in str(error) or "did not come" in str(error)
    bmc.close()


@pytest.mark.parametrize(
    ("status", "code"),
    [(401, "denied"), (403, "denied"), (404, "gone"), (503, "silent"), (500, "nonsense")],
)
def test_what_the_service_refuses(service: RedfishDouble, status: int, code: str) -> None:
    bmc = meter(service)
    bmc.open()
    service.status = (status, {})
    error = fault(bmc)
    assert (error.code, str(status) in str(error)) == (code, True)
    service.status = None
    assert bmc.read() == {"wall": 374.0}
    bmc.close()


def test_a_redirect_is_not_followed(service: RedfishDouble) -> None:
    with serving() as elsewhere:
        service.status = (302, {"Location": f"{elsewhere.url}{ROOT}/"})
        error = refused(meter(service))
        assert elsewhere.requests == []
    assert error.kind is errors.ENERGY_METER_BAD_ANSWER
    assert "not followed" in error.message


@pytest.mark.parametrize(
    "path",
    ["http://elsewhere/redfish/v1/Chassis", "//elsewhere/x", "/etc", f"{ROOT}/../x", f"{ROOT}/a b"],
)
def test_a_link_that_leads_away(service: RedfishDouble, path: str) -> None:
    service.resources[f"{ROOT}/"]["Chassis"] = linked(path)
    assert refused(meter(service)).kind is errors.ENERGY_METER_BAD_ANSWER
    assert service.requests == [f"GET {ROOT}/"]


@pytest.mark.parametrize(
    "options",
    [
        {"url": "bmc.example"},
        {"url": "ftp://bmc.example"},
        {"url": "file:///etc/passwd"},
        {"url": "https://"},
        {"url": "https://me:secret@bmc.example"},
        {"url": "https://bmc.example/redfish/v1"},
        {"url": "https://bmc.example?x=1"},
        {"url": "https://bmc .example"},
        {"url": "https://bmc.example:0"},
        {"url": "https://bmc.example:x"},
        {"url": "https://bmc.example", "username": "u"},
        {"url": "https://bmc.example", "password_file": "f"},
        {"url": "https://bmc.example", "username": "u:v", "password_file": "f"},
        {"url": "http://bmc.example", "username": "u", "password_file": "f"},
        {"url": "https://bmc.example", "chassis": "../x"},
        {"url": "https://bmc.example", "auth": "none"},
        {"url": "https://bmc.example", "password": "secret"},
    ],
)
def test_options_that_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        RedfishOptions.model_validate(options)


_JSON = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)


@pytest.fixture(scope="module")
def unlocked_service() -> Iterator[RedfishDouble]:
    with unlocked() as double:
        yield double


@given(power=_JSON, metrics=_JSON)
def test_any_json_is_a_figure_or_a_fault(
    unlocked_service: RedfishDouble, power: object, metrics: object
) -> None:
    path = f"{CHASSIS}/EnvironmentMetrics"
    before = unlocked_service.resources[path]
    bmc = meter(unlocked_service)
    bmc.open()
    for odd in ({"PowerWatts": {"Reading": power}}, {"PowerWatts": metrics}, metrics):
        unlocked_service.resources[path] = odd
        try:
            (value,) = bmc.read().values()
        except FaultError as error:
            assert error.code in {"nonsense", "silent"}
        else:
            assert 0 < value <= 1e6
            assert value == power
    unlocked_service.resources[path] = before
    bmc.close()
