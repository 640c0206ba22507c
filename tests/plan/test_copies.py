"""`instances: fit 0.8`: as many as fit on the CPUs of the host."""

from __future__ import annotations

import json
import os
from fractions import Fraction
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from ullage.cli.output import dryrun
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.plan import matrix, schema, template
from ullage.plan.schema import Fit

PLAN = """\
name: fitted
baseline: native
allow: [instances, cpus]
environments:
  native: {{provider: native}}
  vm: {{provider: oci, {vm}}}
workloads:
  - {{name: sysbench-cpu}}
"""


def _resolved(vm: str) -> matrix.Matrix:
    return matrix.resolve(*schema.loads(PLAN.format(vm=vm), "p.yaml"))


@pytest.fixture
def ten(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host with ten CPUs."""
    monkeypatch.setattr(matrix, "host_cpus", lambda: 10)


@pytest.mark.usefixtures("ten")
@pytest.mark.parametrize(
    ("vm", "instances"),
    [
        ("instances: 3", 3),
        ("instances: fit 0.8", 8),
        ("instances: fit 80%", 8),
        ("instances: fit 1.2", 12),
        ("instances: fit 0.8, resources: {cpus: 3}", 2),
        ("instances: fit 0.8, resources: {cpus: 8}", 1),
        ("instances: fit 0.8, resources: {cpus: 0.5}", 16),
        ("instances: fit 0.7, resources: {cpus: 0.1}", 70),
        ("instances: fit 102.4", 1024),
    ],
)
def test_as_many_as_fit(vm: str, instances: int) -> None:
    environment = _resolved(vm).environment("vm")
    assert environment.instances == instances


@pytest.mark.usefixtures("ten")
def test_it_is_a_factor_of_the_matrix() -> None:
    planned = _resolved("vary: {instances: [1, fit 0.8, fit 1.2], resources.cpus: [1, 2]}")
    sizes = {e.key: (e.instances, e.resources.cpus) for e in planned.environments if "vm" in e.key}
    assert sizes == {
        "vm[instances=1,resources.cpus=1]": (1, 1),
        "vm[instances=1,resources.cpus=2]": (1, 2),
        "vm[instances=fit_0.8,resources.cpus=1]": (8, 1),
        "vm[instances=fit_0.8,resources.cpus=2]": (4, 2),
        "vm[instances=fit_1.2,resources.cpus=1]": (12, 1),
        "vm[instances=fit_1.2,resources.cpus=2]": (6, 2),
    }
    memory = {e.resources.memory for e in planned.environments}
    assert memory == {1 << 30}


@pytest.mark.usefixtures("ten")
@pytest.mark.parametrize(
    "vm", ["instances: fit 0.8, resources: {cpus: 9}", "instances: fit 0.05", "instances: fit 103"]
)
def test_none_or_too_many_are_refused_with_the_line(vm: str) -> None:
    with pytest.raises(UllageError) as caught:
        _resolved(vm)
    assert caught.value.kind is errors.PLAN_IMPOSSIBLE_MATRIX
    assert caught.value.message.startswith("p.yaml:6: vm: `fit ")
    assert "from 1 to 1024 can be made" in caught.value.message


@pytest.mark.parametrize(
    "value", ["fitt 0.8", "fit", "fit -1", "fit 0", "fit 1001", "many", "0", "1025", "true", "1.5"]
)
@pytest.mark.parametrize("form", ["instances: {}", "vary: {{instances: [{}]}}"])
def test_what_is_no_number_is_refused_with_the_line(form: str, value: str) -> None:
    with pytest.raises(UllageError) as caught:
        _resolved(form.format(value))
    assert caught.value.kind is errors.PLAN_BAD_FIELD
    assert caught.value.message.startswith("p.yaml:6: environments.vm.instances: found ")
    assert "or `fit 0.8`" in caught.value.message


def test_resources_that_vary_are_checked_too() -> None:
    with pytest.raises(UllageError) as caught:
        _resolved("vary: {resources.cpus: [0]}")
    assert caught.value.kind is errors.PLAN_BAD_FIELD
    assert caught.value.message.startswith("p.yaml:6: environments.vm.resources.cpus: found 0")


@given(st.decimals("0.01", 4, places=2), st.decimals("0.1", 64, places=1), st.integers(1, 1024))
def test_it_is_the_floor_of_the_formula(factor: object, cpus: object, of: int) -> None:
    """In exact fractions, as the formula is meant: 0.7 of 10 CPUs in tenths is 70, not 69."""
    copies = Fit.model_validate({"factor": factor}).copies(float(str(cpus)), of)
    assert copies == Fraction(str(factor)) * of // Fraction(str(cpus))


def test_an_editor_that_knows_the_schema_agrees() -> None:
    schema = Draft202012Validator(json.loads(template.schema()))
    for value, fits in ((3, True), ("fit 0.8", True), ("fit 80 %", True), (0, False), ("x", False)):
        data = yaml.safe_load(PLAN.format(vm="vary: {}"))
        data["environments"]["vm"]["instances"] = value
        assert schema.is_valid(data) == fits, value


def test_a_dry_run_says_how_many(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    fitted, document = schema.loads(PLAN.format(vm="instances: fit 1"), "p.yaml")
    planned = matrix.resolve(fitted, document)
    dryrun.show(fitted, planned, as_json=False, runs=tmp_path)
    several = planned.environment("vm").instances
    words = f"vm ({several} instances)" if several > 1 else "vm,"
    assert f"environments: native, {words}" in capsys.readouterr().out


def test_the_host_has_the_cpus_that_we_may_use() -> None:
    assert schema.host_cpus() == len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("price", "says"),
    [
        ("{per_hour: 0}", "price"),
        ("{per_hour: -1, currency: EUR}", "price.per_hour: found -1"),
        ("{per_hour: 0.1}", "price.currency: found nothing"),
        ("{per_hour: 0.1, currency: euro}", "price.currency: found 'euro'"),
        ("{per_hour: .nan, currency: EUR}", "price.per_hour: found nan"),
        ("{per_hour: .inf, currency: EUR}", "price.per_hour: found inf"),
        ("{per_day: 1, currency: EUR}", "unknown field environments.vm.price.per_day"),
    ],
)
def test_prices_that_are_none_are_refused_with_the_line(price: str, says: str) -> None:
    with pytest.raises(UllageError) as caught:
        _resolved(f"price: {price}")
    assert caught.value.kind in (errors.PLAN_BAD_FIELD, errors.PLAN_UNKNOWN_FIELD)
    assert caught.value.message.startswith("p.yaml:6: ")
    assert says in caught.value.message


def test_a_price_goes_with_its_environment() -> None:
    planned = _resolved("price: {per_hour: 0.12, currency: EUR}, vary: {instances: [1, 2]}")
    prices = {e.key: e.price for e in planned.environments}
    assert prices["native"] is None
    assert [str(p and p.currency) for k, p in prices.items() if "vm" in k] == ["EUR", "EUR"]
